"""Measure the training on a GPU: a step beside torch's cuDNN, the share of its bandwidth, compiling, bfloat16, fleets.

make bench-gpu

Without a GPU the table says "not measured" in every line. torch is not among the locked packages; a folder with a CUDA
build of it goes into PYTHONPATH, as `tests.benchmarks.speed` says. `--anyway` measures on whatever JAX computes on, to
try the benchmark itself; the table names the device.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

from tests.benchmarks.growth import trained
from tests.benchmarks.report import Figure, tell

SIZES = ((64, 168), (512, 540), (4096, 540))  # depots, days of a step
FLEETS = (64, 10_000, 100_000)  # depots of whole trainings
PRECISIONS = ("float32", "bfloat16")
REPETITIONS = 15
COPIED = 1 << 28  # float32 values of what is copied to measure the bandwidth: 1 GiB
LINES = (
    *(f"{depots} x {days}: {what}" for depots, days in SIZES for what in ("our step", "torch's cuDNN, ratio")),
    *(f"{depots} x {days}: compiling" for depots, days in SIZES),
    *(f"{depots} x {days}: share of the bandwidth" for depots, days in SIZES),
    *(f"{depots:,} depots, {precision}" for depots in FLEETS for precision in PRECISIONS),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--anyway", action="store_true", help="measure on whatever there is")
    parser.add_argument("--largest", type=int, default=max(FLEETS), help="depots of the largest fleet")
    parser.add_argument("--fleet", nargs=2, metavar=("DEPOTS", "PRECISION"), help="train this one, and say it as JSON")
    options = parser.parse_args()
    if options.fleet:
        print(json.dumps(_fleet(int(options.fleet[0]), options.fleet[1])))
        return
    device = _device()
    if device is None and not options.anyway:
        print("No GPU: JAX has none here. `forecaster doctor` says what it computes on.\n")
        print("| figure | value |\n|---|---|")
        for line in LINES:
            print(f"| {line} | not measured |")
        return
    print(f"device: {device or 'no GPU'}", flush=True)
    # Trainings first, each in a process of its own: this one would hold the device's memory.
    fleets = [each for each in FLEETS if each <= options.largest]
    figures = [figure for depots in fleets for precision in PRECISIONS for figure in _trainings(depots, precision)]
    tell("gpu", [*_steps(), *figures])


def _device() -> str | None:
    """The name of the GPU that JAX computes on in a process of its own, None without one."""
    script = "import jax; d = jax.devices()[0]; print(d.device_kind if d.platform == 'gpu' else '')"
    process = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, check=True)
    return process.stdout.strip() or None


def _trainings(depots: int, precision: str) -> Iterator[Figure]:
    command = [sys.executable, "-m", "tests.benchmarks.gpu", "--fleet", str(depots), precision]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    took: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    name = f"{depots:,} depots, {precision}"
    print(f"{name}: {took}", flush=True)
    yield Figure(f"{name}: a member's step", took["step"], "ms")
    yield Figure(f"{name}: until the first epoch was done", took["first"], "s")
    yield Figure(f"{name}: the device's peak memory", took["device"], "GB")


def _fleet(depots: int, precision: str) -> dict[str, float]:
    import jax

    took = trained(depots, precision)
    peak = max((device.memory_stats() or {}).get("peak_bytes_in_use", 0) for device in jax.local_devices())
    return took | {"device": peak / 1e9}


def _steps() -> Iterator[Figure]:
    import jax

    from tests.benchmarks.speed_steps import STEPS, Size, as_trained, in_torch

    bandwidth = _bandwidth()
    yield Figure("the device's bandwidth, by a copy", bandwidth / 1e9, "GB/s")
    for depots, days in SIZES:
        size = Size(depots, days)
        start = time.perf_counter()
        ours = as_trained(size)
        ours()
        first = time.perf_counter() - start
        seconds = _median(ours) / STEPS
        yield Figure(f"{size}: our step", 1e3 * seconds, "ms", n=REPETITIONS)
        yield Figure(f"{size}: compiling", first - STEPS * seconds, "s")
        yield Figure(f"{size}: share of the bandwidth", size.bytes / seconds / bandwidth, "")
        try:
            theirs = in_torch(size, "cuda" if jax.devices()[0].platform == "gpu" else "cpu")
        except ImportError as error:
            print(f"torch is left out: {error}")
            continue
        theirs()
        yield Figure(f"{size}: torch's cuDNN, ratio", _median(theirs) / STEPS / seconds, "x", n=REPETITIONS)


def _median(step: Callable[[], Any]) -> float:
    """Seconds of a call that comes back when all is done; its first call is not counted."""
    seconds = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - start)
    return median(seconds)


def _bandwidth() -> float:
    """Bytes a second that are read and written by a copy."""
    import jax
    import jax.numpy as jnp

    values = jnp.zeros(COPIED, jnp.float32)
    copy = jax.jit(lambda array: array + 1.0)
    jax.block_until_ready(copy(values))
    return 2 * values.nbytes / _median(lambda: jax.block_until_ready(copy(values)))


if __name__ == "__main__":
    main()
