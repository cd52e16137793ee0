"""Measure the cost of censored demand: a third of the depots is capped at the 70 % quantile, and
forecasts are scored on true demand.

    python -m tests.benchmarks.censored [--datasets a,b] [--back DAYS] [--preset P]

There are three trainings per dataset: on true demand, on capped counts used as demand, and on
capped counts declared as capped. Eight weekly cutoffs over the last 56 days are forecast by a model
trained once before the first; `--back 56` first cuts off the last 56 days. The shares of capped and
of other depots that the rule `looks_capped` suspects are reported too.
"""

from __future__ import annotations

import argparse
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

from forecaster.config import Spec, load
from forecaster.core.arrays import Bools
from forecaster.core.imputation.censoring import CappedCounts
from forecaster.core.panel import Panel
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.ingest import ingest
from forecaster.demand.panel import build as panels
from forecaster.demand.panel.capped.suspected import suspects
from forecaster.evaluation import backtest
from forecaster.evaluation.metrics import measure, seasonal_scale
from tests.benchmarks import real
from tests.benchmarks.accuracy import OURS, fitted
from tests.benchmarks.report import Figure, write_report

DAYS, QUANTILE = 56, 0.7
SAMPLE = "sample"
NAMES = (SAMPLE, "bayarea_bikeshare14", "chicago_l_stations", "melbourne_pedestrians", "muenster_bike_counters")
MOST_LOSS, LEAST_SUSPECTED, MOST_SUSPECTED = 5.0, 90.0, 2.0  # %


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(NAMES))
    parser.add_argument("--back", type=int, default=0, help="days to cut off first")
    parser.add_argument(
        "--preset",
        choices=("quick", "nightly", "best"),
        help="preset of the trainings; default: that of each pipeline file",
    )
    options = parser.parse_args()
    figures: list[Figure] = []
    for name in options.datasets.split(","):
        figures += _measured(name, options.back, options.preset)
    write_report("censored", figures)


def _measured(name: str, back: int, preset: str | None) -> list[Figure]:
    spec, truth = _sample() if name == SAMPLE else (real.spec_of(name), real.panel_of(name))
    truth = truth.at(truth.cutoff - timedelta(days=back))
    if preset:
        spec = spec.model_copy(update={"training": spec.training.model_copy(update={"preset": preset})})
    counts, rows = capped(truth)
    panels_by_name = {
        "true demand": truth,
        "capped counts": replace(truth, demand=counts.served),
        "declared": truth.with_capped(counts),
    }
    scores = {kind: _mase(panel, truth, spec) for kind, panel in panels_by_name.items()}
    suspected = np.isin(np.arange(len(rows)), [suspect.row for suspect in suspects(counts.served, truth.open)])
    shares = {which: 100 * float(suspected[marked].mean()) for which, marked in (("capped", rows), ("other", ~rows))}
    print(f"{name}: MASE {scores}, suspected {shares} %", flush=True)
    best = scores["true demand"]
    loss = {kind: 100 * (score / best - 1) for kind, score in scores.items()}
    return [
        Figure(f"{name}: loss of MASE, capped counts used as demand", loss["capped counts"], "%"),
        Figure(
            f"{name}: loss of MASE, declared",
            loss["declared"],
            "%",
            f"<= {MOST_LOSS:g}",
            bool(loss["declared"] <= MOST_LOSS),
        ),
        Figure(
            f"{name}: capped depots suspected",
            shares["capped"],
            "%",
            f">= {LEAST_SUSPECTED:g}",
            bool(shares["capped"] >= LEAST_SUSPECTED),
        ),
        Figure(
            f"{name}: other depots suspected",
            shares["other"],
            "%",
            f"<= {MOST_SUSPECTED:g}",
            bool(shares["other"] <= MOST_SUSPECTED),
        ),
    ]


def capped(truth: Panel) -> tuple[CappedCounts, Bools]:
    """Return the counts of a panel with a third of the depots capped at their 70 % quantile, and a
    mask of these depots."""
    depots = len(truth.depot_ids)
    rows = np.zeros(depots, np.bool_)
    rows[np.random.default_rng(0).permutation(depots)[: depots // 3]] = True
    counts = np.where(truth.open[:, : truth.history], truth.demand, np.nan)
    limits = np.full((depots, 1), np.inf)
    for row in np.flatnonzero(rows & np.isfinite(counts).any(axis=1)).tolist():
        limits[row] = np.nanquantile(counts[row], QUANTILE)
    is_capped = counts >= limits
    served = np.where(is_capped, limits, truth.demand).astype(np.float32)
    return CappedCounts(served, is_capped), rows


def _mase(panel: Panel, truth: Panel, spec: Spec) -> float:
    """Return the MASE on true demand of a model that trains on `panel` and forecasts from it."""
    at = backtest.cutoffs(truth, DAYS)
    before = truth.at(at[0])
    scale = seasonal_scale(before.demand, before.open[:, : before.history])
    judged = spec.model_copy(update={"backtest": spec.backtest.model_copy(update={"days": DAYS})})
    predict = fitted(OURS, panel, panel.at(at[0]), judged)
    return float(measure(backtest.folds(predict, truth, at, panel.at), scale)["mase"])


def _sample() -> tuple[Spec, Panel]:
    spec = load(real.ROOT / "data" / "harbor_fleet" / "pipeline.yaml")
    with tempfile.TemporaryDirectory() as folder:
        spec = spec.model_copy(update={"lake": str(Path(folder) / "lake")})
        ingest(spec, now=datetime.now(UTC))
        return spec, panels.build(read_as_of(spec, as_of=datetime.now(UTC)), spec)


if __name__ == "__main__":
    main()
