"""Measure a training step against torch, flax's cells, and the peak rate of the processor.

    make bench-speed

All repetitions are paired and interleaved (ours, theirs, ours, theirs, …), and a ratio is the
median of the pairs' ratios, so that other work on the machine affects both sides. Ours runs as in
training: several steps compiled as one program, on all cores. torch is not among the locked
packages; without it, its rows are left out. To measure them, install it outside the environment and
name that folder:

    python -m pip install --target FOLDER torch==2.13.0
    PYTHONPATH=FOLDER make bench-speed

`CXX= make bench-speed` measures without the compiled recurrence.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from statistics import median

from forecaster.model.fitting import devices
from forecaster.model.network import gru_cpu
from tests.benchmarks.report import Figure, write_report

SIZES = {(64, 168): (3.5, 21), (64, 540): (3.0, 11), (512, 540): (2.0, 5)}  # depots, days: aim, pairs
CROP = (64, 168)  # input of one training step
SIDE, TIMES = 1024, 5  # of the products that show the peak rate of the processor
PAUSE = 0.005  # seconds in which threads that wait for more work fall asleep


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=float, default=1.0, help="factor for the number of repetitions")
    pairs = parser.parse_args().pairs
    devices.one_device_per_core()
    print("the recurrence is", "compiled for this processor" if gru_cpu.ready() else "a scan: no C++ compiler")
    write_report("speed", [*_torch(pairs), *_cells(pairs), *_floor(pairs)])


def _torch(pairs: float) -> list[Figure]:
    from tests.benchmarks.speed_steps import STEPS, Size, as_trained, in_torch

    figures = []
    for (depots, days), (aim, count) in SIZES.items():
        size = Size(depots, days)
        try:
            theirs = in_torch(size)
        except ImportError as error:
            print(f"torch is skipped: {error}; see the docstring of {__name__ if __name__ != '__main__' else __file__}")
            return []
        took = _interleaved([as_trained(size), theirs], count * pairs)
        figures += _compared(f"{size}: torch nn.GRU eager", f"{size}: ours", took, STEPS, aim)
    return figures


def _cells(pairs: float) -> list[Figure]:
    from tests.benchmarks.speed_steps import STEPS, Size, as_trained, in_jax, with_flax_cells

    size = Size(*CROP)
    took = _interleaved([as_trained(size), in_jax(with_flax_cells, size)], 11 * pairs)
    return _compared(f"{size}: vmap of a scan over flax cells", f"{size}: ours, interleaved with it", took, STEPS, 2.0)


def _floor(pairs: float) -> list[Figure]:
    import jax

    from tests.benchmarks.speed_steps import STEPS, Size, as_trained, products

    took = {
        Size(*size): _interleaved([as_trained(Size(*size)), products(SIDE, TIMES)], max(count, 9) * pairs)
        for size, (_, count) in SIZES.items()
    }
    operations = 2 * SIDE**3 * TIMES * jax.device_count()
    # The best over all sizes: next to large steps, products take twice as long on the same
    # processor.
    rate = operations / min(ms for _, square in took.values() for ms in square)
    figures = [
        _above(f"{size}: share of the floor", [100 * STEPS * size.operations / rate / ms for ms in ours], "%", 40)
        for size, (ours, _) in took.items()
    ]
    figures.append(Figure(f"rate of {SIDE}^3 products, one per core", 1e-6 * rate, "GFLOP/s"))
    return figures


def _interleaved(steps: Sequence, count: float) -> list[list[float]]:
    """Return the milliseconds of each step, run in turn; the first two rounds, which compile and
    warm up, do not count."""
    took: list[list[float]] = [[] for _ in steps]
    for _ in range(2 + max(round(count), 1)):
        for step, into in zip(steps, took, strict=True):
            time.sleep(PAUSE)
            begun = time.perf_counter()
            step()
            into.append(1e3 * (time.perf_counter() - begun))
    return [timings[2:] for timings in took]


def _compared(theirs: str, ours: str, took: list[list[float]], steps: int, aim: float) -> list[Figure]:
    ratios = [slow / fast for fast, slow in zip(*took, strict=True)]
    fast, slow = ([ms / steps for ms in timings] for timings in took)
    figure = _above(f"{theirs} over ours", ratios, "times", aim)
    return [figure, _median_figure(ours, fast, "ms per step"), _median_figure(theirs, slow, "ms per step")]


def _above(figure: str, values: list[float], unit: str, limit: float) -> Figure:
    measured = _median_figure(figure, values, unit)
    return Figure(
        figure, measured.value, unit, f">= {limit:g}", bool(measured.value >= limit), measured.n, measured.spread
    )


def _median_figure(figure: str, values: list[float], unit: str) -> Figure:
    return Figure(figure, median(values), unit, n=len(values), spread=(max(values) - min(values)) / 2)


if __name__ == "__main__":
    main()
