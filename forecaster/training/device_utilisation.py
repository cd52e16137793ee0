"""How busy NVIDIA's accelerators were while a block ran, as their driver's own `nvidia-smi` samples
it.

JAX does not know. Where there is no such driver, nothing is measured, and nothing is said.
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
    """Function to call afterwards: the mean share of time, by the device's number, in which it was
    busy."""
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
    """Of lines such as "0, 93": device and percent. A line that was cut off, or says N/A, is left
    out."""
    by_device: defaultdict[str, list[float]] = defaultdict(list)
    for line in text.splitlines():
        device, _, percent = line.partition(", ")
        if percent.strip().isdigit():
            by_device[device.strip()].append(int(percent) / 100)
    return {device: mean(shares) for device, shares in by_device.items()}
