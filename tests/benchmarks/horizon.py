"""How far ahead can be seen: error, bias and coverage of each week ahead, and what a long horizon costs.

`python -m tests.benchmarks.horizon [--datasets a,b] [--horizons 7,28,56] [--preset quick] [--again]` prints the tables
of `docs/results.md`. One model forecasts all days of a horizon at once. It is trained on what lies before the last 56
days of a window that itself ends 200 days before the data do: nothing is chosen, or seen, of these. Each of the 56 days
is forecast from each week ahead, from cutoffs a week apart.

The 80 % range is calibrated in two ways on the same forecasts: `near` by those that began within the 28 validation
days alone, so that days beyond them take the factor of all days; `by week` also by those that began earlier, whose far
days lie in the validation days (`backtest.reaching_cutoffs`). The latter is what nights do. MASE is by the weekly
change of what lay before the window. Beside them the seasonal naive that goes out as the fallback, and the network's
total along joint paths.
"""

from __future__ import annotations

import argparse
import pickle
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Fold, Forecast, Scale
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest, calibration
from forecaster.evaluation.metrics import of_days, scored, seasonal_scale
from forecaster.evaluation.rolling_calibration import RollingCalibration
from forecaster.model.export import to_onnx
from forecaster.model.fitting import train
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.totals import score_totals
from forecaster.training import fit_candidate
from tests.benchmarks import real
from tests.benchmarks.report import FOLDER, working_folder

UNSEEN, DAYS, WEEK = 200, 56, 7
DATASETS = ("muenster_bike_counters", "favorita_transactions")
SHOWN = ("mase", "wape", "bias", "coverage")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--horizons", default="7,28,56")
    parser.add_argument("--preset", default="quick", choices=["quick", "nightly", "best"])
    parser.add_argument("--again", action="store_true", help="measure anew what was measured before")
    options = parser.parse_args()
    for dataset in options.datasets.split(","):
        for horizon in map(int, options.horizons.split(",")):
            file = FOLDER / "horizon" / f"{dataset}-{horizon}-{options.preset}.pickle"
            file.parent.mkdir(parents=True, exist_ok=True)
            _print(dataset, horizon, measured(dataset, horizon, options.preset, file, again=options.again))


def measured(dataset: str, horizon: int, preset: str, file: Path, *, again: bool) -> dict[str, Any]:
    """What a model that forecasts so many days at once cost and missed; `file` keeps its forecasts as they are before
    calibration."""
    spec = real.spec_of(dataset)
    training = spec.training.model_copy(update={"preset": preset})
    held_out = spec.backtest.model_copy(update={"days": DAYS})
    spec = spec.model_copy(update={"horizon": horizon, "training": training, "backtest": held_out})
    whole = real.panel_of(dataset, horizon)
    panel = whole.at(whole.cutoff - timedelta(days=UNSEEN))
    before = panel.at(fit_candidate.first_cutoff(panel, spec))
    scale = seasonal_scale(before.demand, before.open[:, : before.history])
    at, first = backtest.reaching_cutoffs(panel, DAYS), before.cutoff
    calibrating = backtest.reaching_cutoffs(before, train.VALIDATION)
    if again or not file.exists():
        file.write_bytes(pickle.dumps(_forecasts(panel, before, spec, [*calibrating, *at])))
    cost, forecasts = pickle.loads(file.read_bytes())  # our own
    raw = Remembered(forecasts)
    models: dict[str, Callable[[Panel], Forecast]] = {
        "near": calibrated(raw, panel, before, backtest.cutoffs(before, train.VALIDATION)),
        "by week": calibrated(raw, panel, before, calibrating),
        "seasonal naive": partial(seasonal_naive, levels=spec.model.quantiles),
    }
    folds = {name: backtest.folds(model, panel, at, scored_after=first) for name, model in models.items()}
    return {
        "depots": len(panel.depot_ids),
        "history": before.history,
        **cost,
        "weeks": {name: by_week(of_model, scale) for name, of_model in folds.items()},
        "network": [
            score_totals(_only_week(folds["by week"], week), panel)["network_coverage"]
            for week in range(-(-horizon // WEEK))
        ],
    }


def _forecasts(
    panel: Panel, before: Panel, spec: Spec, at: Sequence[date]
) -> tuple[dict[str, float], dict[date, Forecast]]:
    """The seconds of processor time that training and a forecast took, and the forecasts from these cutoffs."""
    begun = time.process_time()
    with working_folder(None, "horizon-") as folder:
        candidate = fit_candidate.train_uncalibrated(before, spec, checkpoints=folder)
    cost = {"training_seconds": time.process_time() - begun}
    predict = to_onnx.forecaster(candidate)
    predict(before)
    begun = time.process_time()
    predict(panel)
    cost["forecast_seconds"] = time.process_time() - begun
    return cost, {cutoff: predict(panel.at(cutoff)) for cutoff in at}


class Remembered:
    """A predictor of forecasts that were made already."""

    def __init__(self, forecasts: Mapping[date, Forecast]) -> None:
        self._forecasts = forecasts

    def __call__(self, panel: Panel) -> Forecast:
        return self._forecasts[panel.cutoff]


def calibrated(raw: Remembered, panel: Panel, before: Panel, at: Sequence[date]) -> RollingCalibration:
    """A model's forecasts calibrated as a night does it, first by what it said from the cutoffs `at`."""
    until = before.cutoff - timedelta(days=train.VALIDATION)
    factors = calibration.factors(backtest.folds(raw, before, at, scored_after=until))

    def predict(of: Panel) -> Forecast:
        return calibration.stretched(raw(of), factors)

    return RollingCalibration(predict, [predict(panel.at(day)) for day in at], trained_until=until)


def by_week(folds: Sequence[Fold], scale: Scale) -> list[dict[str, float]]:
    """Metrics of each week ahead."""
    days = scored(folds, scale)
    week = (days.ahead - 1) // WEEK
    return [
        {name: value for name, value in of_days(days[week == place]).items() if name in (*SHOWN, "days")}
        for place in range(int(week.max()) + 1)
    ]


def _only_week(folds: Sequence[Fold], week: int) -> list[Fold]:
    def of_week(fold: Fold) -> Fold:
        inside = np.arange(fold.actuals.shape[1]) // WEEK == week
        return replace(fold, actuals=np.where(inside, fold.actuals, np.nan).astype(np.float32))

    return [of_week(fold) for fold in folds]


def _print(dataset: str, horizon: int, result: dict[str, Any]) -> None:
    print(
        f"\n{dataset}, {horizon} days ahead: {result['depots']} depots, {result['history']} days; training "
        f"{result['training_seconds']:.0f} s of processor time, compiling among it, a forecast "
        f"{1000 * result['forecast_seconds']:.0f} ms\n"
    )
    print(
        "| week ahead | MASE | WAPE | bias | 80 % range, near | by week | naive MASE | naive range | network's range |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    near, ours, naive = (result["weeks"][name] for name in ("near", "by week", "seasonal naive"))
    for week, (before, now, rival) in enumerate(zip(near, ours, naive, strict=True)):
        print(
            f"| {week + 1} | {now['mase']:.3f} | {now['wape']:.1%} | {now['bias']:+.1%} | {before['coverage']:.1%} | "
            f"{now['coverage']:.1%} | {rival['mase']:.3f} | {rival['coverage']:.1%} | {result['network'][week]:.0%} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
