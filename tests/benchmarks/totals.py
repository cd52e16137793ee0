"""Measure the 80 % ranges of totals by level on real panels, and the time and memory of totals of a
generated fleet.

    python -m tests.benchmarks.totals [--datasets a,b] [--days DAYS] [--preset P] | --fleet DEPOTS

Cutoffs are weekly over the last days, seven days ahead. The model is trained once, before the first
of them, and its calibration is updated as in nightly runs. Each static column of the panel's
pipeline file is a level. `--fleet` measures generated depots.
"""

from __future__ import annotations

import argparse
import pickle
import resource
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest
from forecaster.serving import totals
from tests.benchmarks import real
from tests.benchmarks.accuracy import OURS, fitted
from tests.benchmarks.report import FOLDER
from tests.panels import bare

DATASETS = "favorita_transactions,nyc_taxi_apps_geo"
DAYS = 182
LEVELS = tuple(step / 10 for step in range(1, 10))
SIZES = {"region": 12, "channel": 5, "product": 400}  # groups of each level of the generated fleet


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=DATASETS)
    parser.add_argument("--days", type=int, default=DAYS)
    parser.add_argument("--preset", choices=("quick", "nightly", "best"), default="quick")
    parser.add_argument(
        "--fleet", type=int, default=0, help="measure this number of generated depots instead of datasets"
    )
    options = parser.parse_args()
    if options.fleet:
        _fleet(options.fleet)
        return
    print("| panel | part | groups | days or weeks | coverage | bias | width |\n|---|---|---|---|---|---|---|")
    for dataset in options.datasets.split(","):
        _coverage(dataset, options.days, options.preset)


def _coverage(dataset: str, days: int, preset: str) -> None:
    panel, folds = _folds(dataset, days, preset)
    scores = totals.score_totals(folds, panel, tuple(panel.attributes))
    members = totals.groups(panel, tuple(panel.attributes))
    for part, of_part in scores.items():
        level = part.removesuffix(" week")
        count = (
            len(panel.depot_ids)
            if level == "depot"
            else sum(level == (of if name else "network") for of, name in members)
        )
        cases = count * len(folds) * (1 if part.endswith("week") else panel.horizon)
        numbers = " | ".join(f"{of_part[name]:.1%}" for name in ("coverage", "bias", "width"))
        print(f"| {dataset} | {part} | {count} | {cases:,} | {numbers} |", flush=True)


def _folds(dataset: str, days: int, preset: str) -> tuple[Panel, Sequence[Fold]]:
    """Return the panel and its folds, which are cached next to the figures."""
    panel, file = real.panel_of(dataset), Path(FOLDER) / "totals" / f"{dataset}-{days}-{preset}.pickle"
    if not file.exists():
        spec = real.spec_of(dataset)
        training = spec.training.model_copy(update={"preset": preset})
        judged = spec.backtest.model_copy(update={"days": days})
        at = backtest.cutoffs(panel, days)
        predict = fitted(
            OURS, panel, panel.at(at[0]), spec.model_copy(update={"training": training, "backtest": judged})
        )
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(pickle.dumps(backtest.folds(predict, panel, at)))
    folds: Sequence[Fold] = pickle.loads(file.read_bytes())
    return panel, folds


def _fleet(depots: int) -> None:
    random = np.random.default_rng(0)
    demand = random.poisson(200, (depots, 406)).astype(np.float32)
    attributes = {name: tuple(random.integers(size, size=depots).astype(str).tolist()) for name, size in SIZES.items()}
    panel: Panel = bare(demand)
    panel = type(panel)(**{**vars(panel), "attributes": attributes})
    shares = np.linspace(0.9, 1.1, len(LEVELS), dtype=np.float32)
    quantiles = np.broadcast_to(200 * shares, (depots, panel.horizon, len(LEVELS))).copy()
    forecast = Forecast(
        panel.depot_ids, panel.cutoff, panel.target_dates, LEVELS, quantiles, panel.open[:, panel.history :]
    )
    before, begun = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.perf_counter()
    joint = totals.joint_totals(forecast, panel, tuple(SIZES))
    seconds, most = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{depots:,} depots, {len(joint.of_groups):,} groups at {len(SIZES)} levels: {seconds:.1f} s")
    print(f"peak memory {most / 2**20:.2f} GB, of which {before / 2**20:.2f} GB are the panel and the forecast")


if __name__ == "__main__":
    main()
