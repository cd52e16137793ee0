"""Measure the model on what other people's data may look like: real datasets made smaller, shorter, quieter or broken.

make bench-variants, or python -m tests.benchmarks.variants [--variants NAME …] [--models x,y] [--seed N] [--last]

Eight weekly cutoffs on the 56 days before the last 56, so that choices may be made here, or on the 56 days up to a day
after Christmas; `--last` measures the last 56 days instead. Fifty depots of many years say little of ten depots of one
year, and nothing of a customer who leaves.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date, timedelta

import numpy as np

from forecaster.config import Spec
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest
from forecaster.evaluation.metrics import measure, seasonal_scale
from tests.benchmarks import real
from tests.benchmarks.accuracy import DAYS, OURS, fitted, only
from tests.benchmarks.report import Figure, tell

MODELS = ("seasonal_window_average", "theta", "lightgbm", OURS)
REPORTED = 0.6  # share of the days that a depot must have reported to be drawn

Change = Callable[[Panel], Panel]


def some(depots: int, days: int) -> Change:
    """So many depots, drawn by chance, over the last so many days before the first cutoff."""

    def change(panel: Panel) -> Panel:
        often = np.flatnonzero(np.isfinite(panel.demand[:, -(days + DAYS) :]).mean(axis=1) > REPORTED)
        sample = np.random.default_rng(0).choice(often, min(depots, len(often)), replace=False)
        return recent(days)(only(panel, np.sort(sample)))

    return change


def recent(days: int) -> Change:
    """The last so many days before the first cutoff alone."""

    return lambda panel: panel.last(days + DAYS)


def until(year: int, month: int, day: int) -> Change:
    """Up to that day, the last of the 56: most panels end in summer, and holidays are what people roster for."""
    return lambda panel: panel.at(date(year, month, day))


def thinned(mean: float) -> Change:
    """So few orders a day of each depot, each kept by chance."""

    def change(panel: Panel) -> Panel:
        is_known = np.isfinite(panel.demand)
        counts = np.where(is_known, panel.demand, 0).astype(np.int64)
        share = np.minimum(1, mean / np.maximum(np.nanmean(panel.demand, axis=1, keepdims=True), mean))
        thinned_counts = np.random.default_rng(0).binomial(counts, np.broadcast_to(share, counts.shape))
        return replace(panel, demand=np.where(is_known, thinned_counts, np.nan).astype(np.float32))

    return change


def shifted(days: int, factor: float) -> Change:
    """All demand times a factor, from so many days before the first cutoff on."""

    def change(panel: Panel) -> Panel:
        demand = panel.demand.copy()
        demand[:, -(DAYS + days) :] *= factor
        return replace(panel, demand=np.round(demand))

    return change


def holed(share: float) -> Change:
    """Days lost by chance."""

    def change(panel: Panel) -> Panel:
        is_hole = np.random.default_rng(0).random(panel.demand.shape) < share
        return replace(panel, demand=np.where(is_hole, np.float32(np.nan), panel.demand))

    return change


def grown(a_year: float) -> Change:
    """Demand that grows by so many log counts a year."""

    def change(panel: Panel) -> Panel:
        factor = np.exp(a_year / 364 * np.arange(panel.history)).astype(np.float32)
        return replace(panel, demand=np.round(panel.demand * factor))

    return change


def bare(panel: Panel) -> Panel:
    """Without what else is known of a day."""
    return replace(panel, covariates=panel.covariates[:, :, :0], encoding=replace(panel.encoding, covariates=()))


def untold(panel: Panel) -> Panel:
    """Closed days as zeros that nobody explains, as in most files."""
    demand = np.where(panel.open[:, : panel.history], panel.demand, np.float32(0))
    return replace(panel, demand=demand, open=np.ones_like(panel.open))


def zeros(panel: Panel) -> Panel:
    """Unknown days as zeros."""
    return replace(panel, demand=np.nan_to_num(panel.demand), open=np.ones_like(panel.open))


def resized(panel: Panel) -> Panel:
    """Depots a hundredth to a thousand times as large."""
    factor = 10 ** np.random.default_rng(0).uniform(-2, 3, (len(panel.depot_ids), 1))
    return replace(panel, demand=np.round(panel.demand * factor).astype(np.float32))


def both(first: Change, then: Change) -> Change:
    return lambda panel: then(first(panel))


TWO_YEARS = some(1_000, 730)
VARIANTS: Mapping[str, tuple[str, Change]] = {
    "favorita, 1 depot": ("favorita_transactions", some(1, 900)),
    "favorita, 10 depots of 400 days": ("favorita_transactions", some(10, 400)),
    "favorita, 15 orders a day": ("favorita_transactions", thinned(15)),
    "favorita, 2 orders a day": ("favorita_transactions", both(TWO_YEARS, thinned(2))),
    "favorita, no covariates": ("favorita_transactions", both(TWO_YEARS, bare)),
    "favorita, doubling a year": ("favorita_transactions", both(TWO_YEARS, grown(0.7))),
    "favorita, 30 % of days lost": ("favorita_transactions", both(TWO_YEARS, holed(0.3))),
    "favorita, halved 5 days before": ("favorita_transactions", both(TWO_YEARS, shifted(5, 0.5))),
    "chicago, two years": ("chicago_l_stations", recent(730)),
    "chicago, 330 days": ("chicago_l_stations", recent(330)),
    "chicago, two years, 60 % more 12 days before": ("chicago_l_stations", both(recent(730), shifted(12, 1.6))),
    "nyc, a year and a half": ("nyc_taxi_apps_geo", recent(550)),
    "melbourne, 10 depots": ("melbourne_pedestrians", some(10, 700)),
    "muenster, two years": ("muenster_bike_counters", recent(730)),
    "muenster, 5 depots": ("muenster_bike_counters", some(5, 1500)),
    "recruit, 100 depots of 200 days": ("recruit_restaurants", some(100, 200)),
    "recruit, half as much again 3 days before": ("recruit_restaurants", both(some(100, 330), shifted(3, 1.5))),
    "rossmann, 60 depots of 500 days": ("rossmann", some(60, 500)),
    "rossmann, 3 depots": ("rossmann", some(3, 800)),
    "rossmann, no covariates": ("rossmann", both(some(200, 600), bare)),
    "bayarea, 15 depots": ("bayarea_bikeshare14", some(15, 280)),
    "bayarea, 40 % less 20 days before": ("bayarea_bikeshare14", shifted(20, 0.6)),
    "bayarea, 120 days": ("bayarea_bikeshare14", some(40, 120)),
    "favorita, two years, Christmas": ("favorita_transactions", both(until(2017, 1, 27), TWO_YEARS)),
    "chicago, two years, Christmas": ("chicago_l_stations", both(until(2016, 1, 17), TWO_YEARS)),
    "muenster, two years, Christmas": ("muenster_bike_counters", both(until(2026, 1, 23), TWO_YEARS)),
    "melbourne, 10 depots, Christmas": ("melbourne_pedestrians", both(until(2014, 2, 16), some(10, 700))),
    "favorita, an order every third day": ("favorita_transactions", both(TWO_YEARS, thinned(0.3))),
    "favorita, depots of all sizes": ("favorita_transactions", both(TWO_YEARS, resized)),
    "rossmann, closed days not told": ("rossmann", both(some(60, 800), untold)),
    "recruit, unknown days as zeros": ("recruit_restaurants", both(some(100, 400), zeros)),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="*", default=[""], help="beginnings of names, by default all")
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--seed", type=int, help="of our training")
    parser.add_argument("--last", action="store_true", help="the last 56 days, by which nothing may be chosen")
    options = parser.parse_args()
    for begun in options.variants:
        if not any(name.startswith(begun) for name in VARIANTS):
            parser.error(f"no variant begins with {begun!r}, wanted one of: {'; '.join(VARIANTS)}")
    figures: list[Figure] = []
    for name, (dataset, change) in VARIANTS.items():
        if not name.startswith(tuple(options.variants)):
            continue
        panel, spec = real.panel_of(dataset), real.spec_of(dataset)
        if options.seed is not None:
            spec = spec.model_copy(update={"training": spec.training.model_copy(update={"seed": options.seed})})
        panel = change(panel if options.last else panel.at(panel.cutoff - timedelta(days=DAYS)))
        for model in options.models.split(","):
            started = time.perf_counter()
            metrics = _measure(model, panel, spec)
            numbers = "  ".join(f"{metric} {metrics[metric]:.3f}" for metric in ("mase", "wql", "bias", "coverage"))
            print(f"{name:46}{model:24}{numbers}  {time.perf_counter() - started:.0f} s", flush=True)
            figures += [
                Figure(f"{name}: {model}: {metric}", metrics[metric], "") for metric in ("mase", "wql", "coverage")
            ]
    tell("variants", figures)


def _measure(model: str, panel: Panel, spec: Spec) -> Mapping[str, float]:
    spec = spec.model_copy(update={"backtest": spec.backtest.model_copy(update={"days": DAYS})})
    at = backtest.cutoffs(panel, DAYS)
    before = panel.at(at[0])
    scale = seasonal_scale(before.demand, before.open[:, : before.history])
    return measure(backtest.folds(fitted(model, panel, before, spec), panel, at), scale)


if __name__ == "__main__":
    main()
