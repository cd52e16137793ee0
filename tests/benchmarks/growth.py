"""Measure memory and time of a training step against the number of depots: 64 to 100,000, over 550 days.

make bench-growth

Each number of depots trains in a process of its own, as a night does, on made-up counts, for the same number of steps.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from dataclasses import replace
from typing import Any
from unittest import mock

import numpy as np

from tests.benchmarks.report import Figure, below, tell

DEPOTS = (64, 1_000, 10_000, 100_000)
DAYS = 550
MEMBERS, EPOCHS, STEPS = 2, 3, 40  # of a training here; the first epoch compiles and is not timed
MOST = 6.0  # GB at the largest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depots", type=int, help="train this many, and say as JSON what it took")
    options = parser.parse_args()
    if options.depots:
        print(json.dumps(trained(options.depots)))
        return
    figures: list[Figure] = []
    for depots in DEPOTS:
        took = _in_its_own_process(depots)
        print(f"{depots:,} depots: {took}", flush=True)
        peak = f"{depots:,} depots: peak memory"
        largest = depots == DEPOTS[-1]
        figures += [
            below(peak, took["peak"], "GB", MOST) if largest else Figure(peak, took["peak"], "GB"),
            Figure(f"{depots:,} depots: the panel itself", took["panel"], "GB"),
            Figure(f"{depots:,} depots: a member's step", took["step"], "ms"),
            Figure(f"{depots:,} depots: until the first epoch was done", took["first"], "s"),
        ]
    tell("growth", figures)


def _in_its_own_process(depots: int) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.benchmarks.growth", "--depots", str(depots)]
    process = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    report: dict[str, float] = json.loads(process.stdout.splitlines()[-1])
    return report


def trained(depots: int, precision: str = "float32") -> dict[str, float]:
    """Peak memory and panel in GB, milliseconds of a member's step, seconds until the first epoch was done."""
    from forecaster.config import Spec
    from forecaster.model.fitting import devices, train
    from forecaster.model.fitting.training_plan import Recipe, choose_recipe

    def fixed(*arguments: Any) -> Recipe:
        return replace(choose_recipe(*arguments), epochs=EPOCHS, steps=STEPS)

    devices.one_device_per_core()
    panel = panel_of(depots)
    spec = Spec.model_validate(
        {
            "name": "growth",
            "demand": {"source": {"kind": "csv", "path": "none.csv"}},
            "training": {"members": MEMBERS, "precision": precision},
        }
    )
    with mock.patch.object(train, "choose_recipe", fixed):
        summary = train.fit(panel, spec).summary
    arrays = (panel.demand, panel.open, panel.covariates, panel.calendar, panel.statics)
    return {
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9,
        "panel": sum(array.nbytes for array in arrays) / 1e9,
        "step": 1e3 * summary["steps_seconds"] / ((EPOCHS - 1) * STEPS * MEMBERS),
        "first": summary["first_epoch_seconds"],
    }


def panel_of(depots: int) -> Any:
    """Counts with a weekly rhythm and one covariate; two calendars."""
    from tests import panels

    few = panels.panel(64, DAYS, 7)
    rows = np.arange(depots) % 64
    random = np.random.default_rng(0)
    demand = few.demand[rows]
    demand *= random.uniform(0.5, 2, (depots, 1)).astype(np.float32)
    return replace(
        few,
        depot_ids=tuple(f"D{number}" for number in range(depots)),
        demand=np.round(demand, out=demand),
        open=few.open[rows],
        covariates=few.covariates[rows],
        calendar_group=few.calendar_group[rows],
        statics=few.statics[rows],
    )


if __name__ == "__main__":
    main()
