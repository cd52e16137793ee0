"""Measure what a prior is worth that has not seen a dataset: trainings that begin from it beside fresh ones.

make bench-prior, or python -m tests.benchmarks.prior [--datasets a,b] [--seeds 0,1] [--runs quick,prior+quick,nightly]
[--steps N] [--last] [--again]

For each dataset a prior is pretrained without it (the open datasets are of different cities, so no other has days of
the same one); those whose licence is not open are in no prior at all. Eight weekly cutoffs on the 56 days before the
last 56, by which choices are made: the last 56 days are looked at with `--last` alone, to report. `untrained` is
the prior with no step of training, beside the seasonal naive. What was measured before is kept.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.core.panel import Panel
from forecaster.evaluation import backtest
from forecaster.evaluation.metrics import measure, seasonal_scale
from forecaster.model.fitting import devices, jax_setup, train
from forecaster.model.prior import store
from forecaster.training import fit_candidate, pretrain, preview
from tests.benchmarks import real
from tests.benchmarks.accuracy import DAYS
from tests.benchmarks.report import FOLDER, Figure, tell

HERE = FOLDER / "prior"
DATASETS = ("bayarea_bikeshare14", "muenster_bike_counters")
RUNS = ("untrained", "quick", "prior+quick")
UNTRAINED, NAIVE = "untrained", "seasonal_naive"
BETTER, NOT_WORSE = 1.0, 1.01  # ratios of MASE, in the geometric mean and of the worst dataset, by which it is default
SHOWN = ("mase", "wape", "wql", "bias", "coverage")


@dataclass(frozen=True)
class Measured:
    """One training on one dataset's development days."""

    dataset: str
    run: str
    seed: int
    steps: int
    seconds: float
    metrics: Mapping[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--seeds", default="0", help="of the trainings")
    parser.add_argument("--runs", default=",".join(RUNS), help="presets, from a prior where `prior+` stands before")
    parser.add_argument("--steps", type=int, default=pretrain.STEPS, help="of the pretraining")
    parser.add_argument("--last", action="store_true", help="the last 56 days, once, to report")
    parser.add_argument("--again", action="store_true", help="measure anew what was measured before")
    options = parser.parse_args()
    jax_setup.configure(HERE / "programs")
    devices.one_device_per_core()
    rows = []
    for dataset in options.datasets.split(","):
        panel: Panel | None = None
        for run in options.runs.split(","):
            for seed in map(int, options.seeds.split(",")):
                pretraining = f"-{options.steps}" if run.startswith("prior+") else ""
                file = HERE / f"{dataset}-{run}{pretraining}-{seed}{'-last' if options.last else ''}.json"
                if options.again or not file.exists():
                    panel = panel or _without_last_days(real.panel_of(dataset), 0 if options.last else DAYS)
                    measured = _untrained if run == UNTRAINED else _measured
                    content = json.dumps([asdict(row) for row in measured(dataset, panel, run, seed, options.steps)])
                    file.write_text(content + "\n", "utf-8")
                for row in _saved(file):
                    rows.append(row)
                    print(_line(row), flush=True)
    tell("prior", figures(rows))


def _saved(file: Path) -> list[Measured]:
    content = json.loads(file.read_text("utf-8"))
    return [Measured(**row) for row in (content if isinstance(content, list) else [content])]


def _without_last_days(panel: Panel, days: int) -> Panel:
    return panel.at(panel.cutoff - timedelta(days=days))


def _measured(dataset: str, panel: Panel, run: str, seed: int, steps: int) -> list[Measured]:
    spec = real.spec_of(dataset)
    changes: dict[str, Any] = {"preset": run.removeprefix("prior+"), "seed": seed}
    prior = None
    if run.startswith("prior+"):
        prior, changes["start"] = store.load(_prior_without(dataset, steps)), "prior"
    spec = spec.model_copy(
        update={
            "training": spec.training.model_copy(update=changes),
            "backtest": spec.backtest.model_copy(update={"days": DAYS}),
        }
    )
    at = backtest.cutoffs(panel, DAYS)
    before = panel.at(at[0])
    begun = time.perf_counter()
    candidate = train.fit(before, spec, prior=prior)
    seconds = time.perf_counter() - begun
    candidate = fit_candidate.calibrated_before_backtest(candidate, before)
    folds = backtest.folds(fit_candidate.rolling_forecaster(candidate, panel, spec), panel, at)
    metrics = measure(folds, seasonal_scale(before.demand, before.open[:, : before.history]))
    trained = candidate.summary["epochs"] * candidate.summary["steps_an_epoch"]
    return [Measured(dataset, run, seed, trained, seconds, {name: float(metrics[name]) for name in SHOWN})]


def _untrained(dataset: str, panel: Panel, run: str, seed: int, steps: int) -> list[Measured]:
    """The prior and the seasonal naive, as a night without a model judges them."""
    spec = real.spec_of(dataset)
    spec = spec.model_copy(update={"backtest": spec.backtest.model_copy(update={"days": DAYS})})
    begun = time.perf_counter()
    prior = store.load(_prior_without(dataset, steps))
    _, scores = preview.judged(panel, spec, prior=prior, most_depots=len(panel.depot_ids))
    seconds = time.perf_counter() - begun
    return [
        Measured(dataset, name, seed, 0, seconds, {metric: float(scores[model].metrics[metric]) for metric in SHOWN})
        for model, name in ((preview.PRIOR, run), (preview.NAIVE, NAIVE))
    ]


def _prior_without(dataset: str, steps: int) -> Path:
    """The folder of a prior that has not seen the dataset; made where it is not there."""
    folder = HERE / (f"without-{dataset}-{steps}" if dataset in pretrain.LICENCES else f"of-all-{steps}")
    if not (folder / "prior.json").exists():
        names = [name for name in pretrain.LICENCES if name != dataset]
        open_panels = [_without_last_days(real.panel_of(name), pretrain.HELD_BACK) for name in names]
        model = pretrain.pretrain(open_panels, steps=steps)
        settings = {"steps": steps, "simulated": pretrain.SIMULATED, "seed": pretrain.SEED}
        store.save(model, pretrain.provenance(names, open_panels, model, **settings), folder)
    return folder


def figures(rows: Sequence[Measured]) -> list[Figure]:
    """MASE of each run, seeds averaged, and of each start from a prior relative to the same preset from scratch."""
    mase: dict[tuple[str, str], float] = {}
    for key in dict.fromkeys((row.dataset, row.run) for row in rows):
        mase[key] = float(np.mean([row.metrics["mase"] for row in rows if (row.dataset, row.run) == key]))
    numbers = [Figure(f"{dataset}: {run}: MASE", value, "") for (dataset, run), value in mase.items()]
    rivals = {run: run.removeprefix("prior+") for _, run in mase if run.startswith("prior+")} | {UNTRAINED: NAIVE}
    for run, scratch in rivals.items():
        ratios = [value / mase[d, scratch] for (d, r), value in mase.items() if r == run and (d, scratch) in mase]
        if ratios:
            mean, worst = float(np.exp(np.mean(np.log(ratios)))), max(ratios)
            name, n = f"MASE of {run} relative to {scratch}", len(ratios)
            numbers.append(Figure(f"{name}, geometric mean", mean, "ratio", f"< {BETTER:g}", mean < BETTER, n))
            numbers.append(Figure(f"{name}, worst dataset", worst, "ratio", f"<= {NOT_WORSE:g}", worst <= NOT_WORSE, n))
    return numbers


def _line(row: Measured) -> str:
    numbers = "  ".join(f"{name} {row.metrics[name]:.4f}" for name in SHOWN)
    return f"{row.dataset:24}{row.run:16}seed {row.seed}  {numbers}  {row.steps} steps, {row.seconds:.0f} s"


if __name__ == "__main__":
    main()
