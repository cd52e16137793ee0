"""Utilization of NVIDIA accelerators while a block runs, sampled by their driver's own
`nvidia-smi`.

JAX does not measure it. Without such a driver, nothing is measured or reported.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from statistics import mean

SECONDS = 5  # from one sample to the next
QUERY = ("--query-gpu=index,utilization.gpu", "--format=csv,noheader,nounits", f"--loop={SECONDS}")


@contextmanager
def sampled() -> Iterator[Callable[[], Mapping[str, float]]]:
    """Yield a function to call afterwards: it returns the mean share of time in which each device,
    by number, was busy."""
    program = shutil.which("nvidia-smi")
    if program is None:
        yield dict
        return
    with tempfile.TemporaryFile("w+") as samples:
        process = subprocess.Popen([program, *QUERY], stdout=samples, stderr=subprocess.DEVNULL)
        by_device: dict[str, float] = {}
        try:
            yield lambda: by_device
        finally:
            process.kill()
            process.wait()
            samples.seek(0)
            by_device |= _means(samples.read())


def _means(text: str) -> dict[str, float]:
    """Average lines such as "0, 93": device and percent. Truncated lines and N/A are ignored."""
    by_device: defaultdict[str, list[float]] = defaultdict(list)
    for line in text.splitlines():
        device, _, percent = line.partition(", ")
        if percent.strip().isdigit():
            by_device[device.strip()].append(int(percent) / 100)
    return {device: mean(shares) for device, shares in by_device.items()}
