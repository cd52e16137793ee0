"""Measure forecasts of depots that have just opened: of real ones, of which only the last days are shown.

make bench-cold, or python -m tests.benchmarks.cold [--datasets a,b] [--models x,y]

A fifth of the depots, drawn by chance, is hidden from training as if it had not opened yet. At eight weekly cutoffs
over the last 56 days these depots then have a few days of history, before which all models see what is guessed
(`forecaster.core.cold_start`), and their next seven days are forecast. The MASE is scaled by their own true history.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from forecaster.config import Spec
from forecaster.core.arrays import Bools
from forecaster.core.forecast import Fold
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest, baselines
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.metrics import measure, seasonal_scale
from tests.benchmarks import real
from tests.benchmarks.accuracy import DAYS, OURS
from tests.benchmarks.report import Figure, tell

DATASETS = ("favorita_transactions", "recruit_restaurants")
MODELS = (OURS, "seasonal_naive", "lightgbm")
KNOWN = (0, 1, 3, 7, 14, 28, None)  # days of history at a cutoff; None is all
SHARE = 5  # one depot of so many is hidden


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--models", default=",".join(MODELS))
    options = parser.parse_args()
    figures: list[Figure] = []
    for dataset in options.datasets.split(","):
        for figure in _on(dataset, options.models.split(",")):
            print(f"{figure.figure}: {figure.value:.4f} {figure.unit}", flush=True)
            figures.append(figure)
    tell("cold", figures)


def _on(dataset: str, models: Sequence[str]) -> Iterator[Figure]:
    panel, spec = real.panel_of(dataset), real.spec_of(dataset)
    depots = len(panel.depot_ids)
    new = np.zeros(depots, bool)
    new[np.random.default_rng(0).choice(depots, depots // SHARE, replace=False)] = True
    at = backtest.cutoffs(panel, DAYS)
    before = panel.at(at[0])
    scale = seasonal_scale(before.demand, before.open[:, : before.history])
    for model in models:
        predict = _fitted(model, opened(before, new, 0), spec)
        for days in KNOWN:
            folds = [_fold(predict, panel.at(cutoff), panel, new, days) for cutoff in at]
            metrics = measure(folds, scale)
            name = f"{dataset}: {model}, {'all' if days is None else days} days known"
            yield from (Figure(f"{name}: {metric}", metrics[metric], "") for metric in ("mase", "wape", "coverage"))


def _fitted(model: str, before: Panel, spec: Spec) -> Predictor:
    if model == OURS:
        from forecaster.model.export import to_onnx
        from forecaster.model.fitting import devices, train

        devices.one_device_per_core()
        return to_onnx.forecaster(train.fit(before, spec))
    return baselines.fit(model, before, tuple(spec.model.quantiles))


def _fold(predict: Predictor, at: Panel, panel: Panel, new: Bools, days: int | None) -> Fold:
    forecast = predict(at if days is None else opened(at, new, days))
    scored = at.open[:, at.history :] & new[:, None]
    return Fold(forecast, np.where(scored, panel.actuals(at.cutoff), np.nan).astype(np.float32))


def opened(panel: Panel, new: Bools, days: int) -> Panel:
    """The panel as if the `new` depots had opened so many days before the day after its cutoff."""
    demand, open_, first = panel.demand.copy(), panel.open.copy(), panel.history - days
    demand[new, :first] = np.nan
    open_[new, :first] = False
    return replace(panel, demand=demand, open=open_)


if __name__ == "__main__":
    main()
