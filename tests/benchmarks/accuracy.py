"""Measure the accuracy of our model and its rivals on eight real datasets, all on the same folds.

    python -m tests.benchmarks.accuracy [--datasets a,b] [--models x,y] [--back DAYS] [--preset P]
        [--retrain] [--again]

There are eight weekly cutoffs over the last 56 days, seven days ahead; every model is trained once,
on the days before the first cutoff. Two models are LightGBM: that of our baselines, and
`mlforecast`, whose module `usual` describes its installation. `--back 56` first cuts off the last
56 days: choices are made there, and the last 56 days are only for reports. `--retrain` adds two
lines of our model, retrained at each cutoff (`retrained`), which takes sixteen trainings per
dataset.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import timedelta
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Fold
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra, NoUsableData
from forecaster.evaluation import backtest, baselines
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.metrics import measure, seasonal_scale
from tests.benchmarks import real, retrained
from tests.benchmarks.report import FOLDER, Figure, below, write_report

DAYS = 56
FEW = 60  # depots of a model that takes seconds for each
OURS = "gru"
USUAL = "mlforecast"
TORCH = "neuralforecast"
WEEKLY, NIGHTS = "gru-weekly", "gru-nights"
RETRAINED = {WEEKLY: retrained.weekly, NIGHTS: retrained.nights}
MODELS = (OURS, *baselines.NAMES, USUAL, TORCH)
SLOW = ("prophet",)
SHOWN = ("mase", "wape", "mape", "wql", "bias", "coverage")


@dataclass(frozen=True)
class Result:
    """One model on one dataset; values of depots are by id, so that models can be compared on some
    of the depots."""

    dataset: str
    model: str
    seconds: float  # of fitting
    forecasting: float  # seconds for all folds
    metrics: Mapping[str, float]
    mase: Mapping[str, float | None]
    mape: Mapping[str, tuple[float, int]]  # sum of |forecast - actual| / actual, and its number of days


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(real.NAMES))
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--back", type=int, default=0, help="days to cut off first")
    parser.add_argument(
        "--preset",
        choices=("quick", "nightly", "best"),
        help="preset of our trainings; default: that of each pipeline file",
    )
    parser.add_argument("--retrain", action="store_true", help="also retrain our model at each cutoff")
    parser.add_argument("--again", action="store_true", help="measure again instead of reading earlier results")
    options = parser.parse_args()
    models = [*options.models.split(","), *((WEEKLY, NIGHTS) if options.retrain else ())]
    results = [
        result
        for dataset in options.datasets.split(",")
        for result in _results_on(dataset, models, options.back, options.preset, options.again)
    ]
    _table(results)
    write_report("accuracy", figures(results))


def _results_on(dataset: str, models: Sequence[str], back: int, preset: str | None, again: bool) -> list[Result]:
    """Return the results of the models on one dataset; earlier ones are read from their files."""
    files = {model: _file(dataset, model, back, preset) for model in models}
    results, panel = [], None
    for model, file in files.items():
        if again or not file.exists():
            try:
                panel = panel or _panel(dataset, back)
                _save(_measured(dataset, model, panel, preset), file)
            except MissingExtra as error:
                print(f"{dataset}: {model} is skipped: {error}", flush=True)
                continue
            except NoUsableData as error:
                print(f"{dataset} is skipped: {error}", flush=True)
                return []
        results.append(_saved_result(file))
        print(_line(results[-1]), flush=True)
    return results


def _file(dataset: str, model: str, back: int, preset: str | None) -> Path:
    of_preset = f"-{preset}" if preset and model in (OURS, *RETRAINED) else ""
    return FOLDER / "accuracy" / f"{dataset}-{back}-{model}{of_preset}.json"


def _panel(dataset: str, back: int) -> Panel:
    panel = real.panel_of(dataset)
    return panel.at(panel.cutoff - timedelta(days=back))


def _measured(dataset: str, model: str, panel: Panel, preset: str | None) -> Result:
    if model in SLOW and len(panel.depot_ids) > FEW:
        chosen = np.random.default_rng(0).choice(len(panel.depot_ids), FEW, replace=False)
        panel = only(panel, np.sort(chosen))
    spec = real.spec_of(dataset)
    if preset:
        spec = spec.model_copy(update={"training": spec.training.model_copy(update={"preset": preset})})
    at = backtest.cutoffs(panel, DAYS)
    before = panel.at(at[0])
    scale = seasonal_scale(before.demand, before.open[:, : before.history])
    started = time.perf_counter()
    if model in RETRAINED:
        predict = retrained.retrain_at(panel, at, spec, RETRAINED[model])
    else:
        judged = spec.model_copy(update={"backtest": spec.backtest.model_copy(update={"days": DAYS})})
        predict = fitted(model, panel, before, judged)
    ready = time.perf_counter()
    folds = backtest.folds(predict, panel, at)
    seconds = time.perf_counter() - ready
    mase, mape = _per_depot(folds, scale.absolute)
    ids, metrics = panel.depot_ids, measure(folds, scale)
    return Result(
        dataset,
        model,
        ready - started,
        seconds,
        metrics,
        dict(zip(ids, mase, strict=True)),
        dict(zip(ids, mape, strict=True)),
    )


def _per_depot(folds: Sequence[Fold], scale: Doubles) -> tuple[list[float | None], list[tuple[float, int]]]:
    """Return each depot's MASE, None if undefined, and the sum and number of its relative errors."""
    actual = np.concatenate([fold.actuals for fold in folds], axis=1).astype(float)
    error = np.abs(np.concatenate([fold.forecast.median for fold in folds], axis=1) - actual)
    is_known, positive = np.isfinite(actual), actual > 0
    mean = np.sum(error, axis=1, where=is_known) / np.maximum(is_known.sum(axis=1), 1)
    scored = is_known.any(axis=1) & np.isfinite(scale)
    relative = np.sum(error / np.where(positive, actual, 1), axis=1, where=positive)
    mase = [float(m / s) if usable else None for m, s, usable in zip(mean, scale, scored, strict=True)]
    return mase, list(zip(relative.tolist(), positive.sum(axis=1).tolist(), strict=True))


def fitted(model: str, panel: Panel, before: Panel, spec: Spec) -> Predictor:
    """Return a model that knows the panel up to the first cutoff, where `before` ends."""
    if model == OURS:
        from forecaster.training import fit_candidate

        with tempfile.TemporaryDirectory() as folder:  # no checkpoint of an earlier training
            return fit_candidate.rolling_forecaster(
                fit_candidate.train_and_calibrate(panel, spec, checkpoints=Path(folder)), panel, spec
            )
    if model == USUAL:
        from tests.benchmarks import usual

        return usual.mlforecast(before, tuple(spec.model.quantiles))
    if model == TORCH:
        from tests.benchmarks import neural

        return neural.neuralforecast(before, tuple(spec.model.quantiles))
    return baselines.fit(model, before, tuple(spec.model.quantiles))


def only(panel: Panel, rows: NDArray[np.intp]) -> Panel:
    """Return the panel of some of its depots."""
    return panel.among([panel.depot_ids[row] for row in rows])


def figures(results: Sequence[Result]) -> list[Figure]:
    """Compare our model with each rival over the datasets that both were measured on."""
    of = {(result.dataset, result.model): result for result in results}
    ours = [result for result in results if result.model == OURS]
    comparisons: list[Figure] = []
    for rival, name, metric, aim in (
        ("lightgbm", "LightGBM", "MASE", 0.95),
        (USUAL, "LightGBM by mlforecast", "MASE", 0.95),
        (TORCH, "the GRU of neuralforecast", "MASE", 1.0),
        ("prophet", "Prophet", "MAPE", 0.72),
        ("seasonal_naive", "seasonal naive", "MASE", 0.60),
        ("auto_ets", "AutoETS", "MASE", 0.75),
    ):
        ratios = [_ratio(mine, of[mine.dataset, rival], metric) for mine in ours if (mine.dataset, rival) in of]
        if ratios:
            mean = float(np.exp(np.mean(np.log(ratios))))
            comparisons.append(
                _at_most(f"geometric mean of {metric} relative to {name}", mean, "ratio", aim, len(ratios))
            )
        if ratios and rival == "lightgbm":
            comparisons.append(
                _at_most(f"{metric} relative to {name}, worst dataset", max(ratios), "ratio", 1.03, len(ratios))
            )
    for line in RETRAINED:
        for metric in ("mase", "wql"):
            ratios = [
                of[mine.dataset, line].metrics[metric] / mine.metrics[metric]
                for mine in ours
                if (mine.dataset, line) in of
            ]
            if ratios:
                name = f"geometric mean of {metric.upper()} of {line} relative to one training"
                comparisons.append(Figure(name, float(np.exp(np.mean(np.log(ratios)))), "ratio", n=len(ratios)))
    if ours:
        bias = 100 * max(abs(result.metrics["bias"]) for result in ours)
        comparisons.append(replace(below("largest absolute bias", bias, "%", 2), n=len(ours)))
    return comparisons


def _ratio(ours: Result, rival: Result, metric: str) -> float:
    """Return our error relative to the rival's, on the depots that the rival forecast."""
    return _error(ours, rival.mase, metric) / _error(rival, rival.mase, metric)


def _error(result: Result, depots: Iterable[str], metric: str) -> float:
    if metric == "MASE":
        return float(np.mean([value for depot in depots if (value := result.mase[depot]) is not None]))
    total, days = np.sum([result.mape[depot] for depot in depots], axis=0)
    return float(total / days)


def _at_most(figure: str, value: float, unit: str, limit: float, n: int) -> Figure:
    return Figure(figure, value, unit, f"<= {limit:g}", bool(value <= limit), n)


def _table(results: Sequence[Result]) -> None:
    print(f"\n| dataset | model | {' | '.join(SHOWN)} | seconds to fit |\n|{'---|' * (len(SHOWN) + 3)}")
    for result in results:
        numbers = " | ".join(f"{result.metrics[name]:.4f}" for name in SHOWN)
        print(f"| {result.dataset} | {result.model} | {numbers} | {result.seconds:.1f} |")


def _line(result: Result) -> str:
    numbers = " ".join(f"{name} {result.metrics[name]:.4f}" for name in SHOWN)
    return (
        f"{result.dataset:24}{result.model:24}{numbers}  {len(result.mase)} depots, "
        f"{result.seconds:.1f} s to fit, {result.forecasting:.1f} s to forecast"
    )


def _save(result: Result, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(asdict(result)) + "\n", "utf-8")


def _saved_result(file: Path) -> Result:
    return Result(**json.loads(file.read_text("utf-8")))


if __name__ == "__main__":
    main()
