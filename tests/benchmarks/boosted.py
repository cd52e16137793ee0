"""Measure what boosted trees beside our network are worth: our quantiles, LightGBM's, and a blend of both.

make bench-boosted, or python -m tests.benchmarks.boosted [--datasets a,b] [--preset P] [--seed 0] [--rows N]
[--trees baseline|small|graph|member] [--again]

Eight weekly cutoffs on the 56 days before the last 56, by which choices are made: the last 56 days are not looked at.
Both models are trained once, on what lies before the first cutoff, LightGBM as among our baselines. Their quantiles are
averaged as logs, as those of members are. The trees' weight is the one with the least pinball loss on log counts on the
28 days before the first cutoff, which stopped both trainings and weighed our members; or it is chosen anew at each
cutoff, on these days and all that have come since; or our ranges are moved as they are to the blended median, so that
the trees need say no more than that. Every line's intervals are calibrated by its own earlier
forecasts, as nights calibrate ours. What was measured before is kept. `small` trees are fewer and of fewer leaves, as a
night might have them; `graph` are such over what the network's graph computes for trees (`graph_trees`). `member` is
what a night has: where the other kinds show trees, it shows our network blended with its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path
from statistics import geometric_mean

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines import lightgbm
from forecaster.evaluation.metrics import measure, seasonal_scale
from forecaster.evaluation.rolling_calibration import RollingCalibration
from forecaster.model.fitting import ensemble, jax_setup
from forecaster.model.fitting.train import VALIDATION
from tests.benchmarks import graph_trees, real
from tests.benchmarks.accuracy import DAYS
from tests.benchmarks.report import FOLDER, Figure, tell

HERE = FOLDER / "boosted"
OURS, TREES, HALF, ONCE = "ours", "lightgbm", "half and half", "weighed once"
ROLLED, MOVED = "weighed at each cutoff", "ours, moved to the weighed median"
BLENDS = (HALF, ONCE, ROLLED, MOVED)
WEIGHTS = np.linspace(0, 1, 11)  # of the trees
SHOWN = ("mase", "wql", "wape", "coverage")
SMALL_ROWS, SMALL_ROUNDS, SMALL = 300_000, 150, {"num_leaves": 31, "learning_rate": 0.1}
AIM = 0.98  # ratio to ours, in the geometric mean, by which a blend would be the default


@dataclass(frozen=True)
class Forecasts:
    """What one model said at each cutoff, those of the validation days first, and what it took to fit."""

    quantiles: NDArray[np.float32]  # (cutoffs, depots, horizon, levels), not calibrated by what came after training
    seconds: float  # of a processor


@dataclass(frozen=True)
class Measured:
    """One dataset: the metrics of each line, weights of the trees, and seconds to fit."""

    dataset: str
    metrics: Mapping[str, Mapping[str, float]]
    weights: tuple[float, ...]  # at each cutoff
    seconds: Mapping[str, float]  # of a processor, to fit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(real.NAMES))
    parser.add_argument("--preset", default="quick", choices=("quick", "nightly", "best"))
    parser.add_argument("--seed", type=int, default=0, help="of our training")
    parser.add_argument("--rows", type=int, default=lightgbm.ROWS, help="that the trees learn from at most")
    parser.add_argument("--trees", default="baseline", choices=("baseline", "small", "graph", "member"))
    parser.add_argument("--again", action="store_true", help="measure anew what was measured before")
    options = parser.parse_args()
    jax_setup.configure(HERE / "programs")
    rows = []
    for dataset in options.datasets.split(","):
        rows.append(_measured(dataset, options.preset, options.seed, options.rows, options.trees, options.again))
        print(_table(rows[-1]), flush=True)
    tell("boosted", figures(rows))


def _measured(dataset: str, preset: str, seed: int, rows: int, kind: str, again: bool) -> Measured:
    panel, spec = real.panel_of(dataset), real.spec_of(dataset)
    panel = panel.at(panel.cutoff - timedelta(days=DAYS))
    changes = {
        "model": spec.model.model_copy(update={"boosted": False}),
        "training": spec.training.model_copy(update={"preset": preset, "seed": seed}),
        "backtest": spec.backtest.model_copy(update={"days": DAYS}),
    }
    spec = spec.model_copy(update=changes)
    ours = _forecasts(HERE / f"{dataset}-{preset}-{seed}.npz", again, lambda: _our_predictor(panel, spec), panel)
    most = "" if rows == lightgbm.ROWS else f"-{rows}"
    of_network = f"-{preset}-{seed}" if kind == "member" else ""
    file = HERE / f"{dataset}-{'lightgbm' if kind == 'baseline' else kind}{of_network}{most}.npz"
    trees = _forecasts(file, again, lambda: _tree_predictor(panel, spec, rows, kind), panel)
    return compared(dataset, panel, tuple(spec.model.quantiles), ours, trees)


def compared(
    dataset: str, panel: Panel, levels: tuple[float, ...], ours: Forecasts, trees: Forecasts, days: int = DAYS
) -> Measured:
    """The lines on the panel's last days; no weight knows a day after its cutoff."""
    earlier, held_out = _cutoffs(panel, days)
    every, first = [*earlier, *held_out], panel.at(held_out[0])
    scale = seasonal_scale(first.demand, first.open[:, : first.history])
    actuals = np.stack([fold.actuals for fold in backtest.folds(_asked(ours.quantiles, every, levels), panel, every)])
    rolled = [tree_weight(ours, trees, actuals, levels, known) for known in range(len(earlier), len(every))]
    weights_of = {
        OURS: [0.0] * len(every),
        TREES: [1.0] * len(every),
        HALF: [0.5] * len(every),
        ONCE: rolled[:1] * len(every),
        ROLLED: rolled[:1] * len(earlier) + rolled,
    }
    quantiles = {
        line: blended(ours.quantiles, trees.quantiles, np.array(weights)) for line, weights in weights_of.items()
    }
    moved = replace(trees, quantiles=_moved(ours.quantiles, trees.quantiles[..., [levels.index(0.5)]], levels))
    weight = tree_weight(ours, moved, actuals, levels, len(earlier))
    quantiles[MOVED] = blended(ours.quantiles, moved.quantiles, np.full(len(every), weight))
    metrics = {}
    for line, said in quantiles.items():
        predict = _asked(said, every, levels)
        rolling = RollingCalibration(predict, [predict(panel.at(day)) for day in earlier])
        measured = measure(backtest.folds(rolling, panel, held_out), scale)
        metrics[line] = {name: float(measured[name]) for name in SHOWN}
    return Measured(dataset, metrics, tuple(rolled), {OURS: ours.seconds, TREES: trees.seconds})


def tree_weight(
    ours: Forecasts, trees: Forecasts, actuals: NDArray[np.float32], levels: tuple[float, ...], known: int
) -> float:
    """The trees' weight with the least pinball loss on log counts over the first `known` cutoffs; 0.5 where no count of
    them is known."""
    scored = np.isfinite(actuals[:known])
    if not scored.any():
        return 0.5
    log = np.log1p(actuals[:known][scored].astype(float))
    mine, theirs = (np.log1p(model.quantiles[:known][scored].astype(float)) for model in (ours, trees))
    losses = [ensemble.pinball((1 - weight) * mine + weight * theirs, log, levels) for weight in WEIGHTS]
    return float(WEIGHTS[int(np.argmin(losses))])


def blended(ours: NDArray[np.float32], trees: NDArray[np.float32], weights: NDArray[np.float64]) -> NDArray[np.float32]:
    """Quantiles (cutoffs, depots, horizon, levels), averaged as logs by the trees' weight at each cutoff."""
    weight = weights[:, None, None, None]
    return np.expm1((1 - weight) * np.log1p(ours.astype(float)) + weight * np.log1p(trees.astype(float))).astype(
        np.float32
    )


def _moved(
    quantiles: NDArray[np.float32], median: NDArray[np.float32], levels: tuple[float, ...]
) -> NDArray[np.float32]:
    """Quantiles moved as logs, so that their median is another."""
    log = np.log1p(quantiles.astype(float))
    by = np.log1p(median.astype(float)) - log[..., [levels.index(0.5)]]
    return np.expm1(np.maximum(log + by, 0)).astype(np.float32)


def _cutoffs(panel: Panel, days: int) -> tuple[list[date], list[date]]:
    """Those of the validation days before the held-out ones, and those of the held-out days."""
    held_out = backtest.cutoffs(panel, days)
    return backtest.cutoffs(panel.at(held_out[0]), VALIDATION), held_out


def _asked(quantiles: NDArray[np.float32], cutoffs: Sequence[date], levels: tuple[float, ...]) -> Predictor:
    """What was said at each cutoff, as a model that says it."""
    place = {cutoff: number for number, cutoff in enumerate(cutoffs)}

    def predict(panel: Panel) -> Forecast:
        said = quantiles[place[panel.cutoff]]
        return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, levels, said, panel.open[:, panel.history :])

    return predict


def _forecasts(file: Path, again: bool, fit: Callable[[], Predictor], panel: Panel) -> Forecasts:
    """What a model said, from its file where it was measured before."""
    if again or not file.exists():
        begun = time.process_time()
        predict = fit()
        seconds = time.process_time() - begun
        earlier, held_out = _cutoffs(panel, DAYS)
        quantiles = np.stack([predict(panel.at(day)).quantiles for day in (*earlier, *held_out)])
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez_compressed(file, quantiles=quantiles.astype(np.float32), seconds=seconds)
    with np.load(file) as saved:
        return Forecasts(saved["quantiles"], float(saved["seconds"]))


def _our_predictor(panel: Panel, spec: Spec) -> Predictor:
    from forecaster.model.export import to_onnx
    from forecaster.training import fit_candidate

    with tempfile.TemporaryDirectory() as folder:  # not what an earlier training left
        candidate = fit_candidate.train_and_calibrate(panel, spec, checkpoints=Path(folder))
    predictor: Predictor = to_onnx.forecaster(candidate)
    return predictor


def _tree_predictor(panel: Panel, spec: Spec, rows: int, kind: str) -> Predictor:
    if kind == "member":
        return _our_predictor(panel, spec.model_copy(update={"model": spec.model.model_copy(update={"boosted": True})}))
    before, levels = panel.at(backtest.cutoffs(panel, DAYS)[0]), tuple(spec.model.quantiles)
    if kind == "baseline":
        return lightgbm.lightgbm(before, levels, rows)
    fit = lightgbm.lightgbm if kind == "small" else graph_trees.predictor
    return fit(before, levels, min(rows, SMALL_ROWS), SMALL_ROUNDS, SMALL)


def figures(rows: Sequence[Measured]) -> list[Figure]:
    """Each line's MASE and WQL relative to ours, and what the trees took to fit relative to our network."""
    numbers = []
    for line in (TREES, *BLENDS):
        for metric in ("mase", "wql"):
            ratios = [row.metrics[line][metric] / row.metrics[OURS][metric] for row in rows]
            mean, name = geometric_mean(ratios), f"{metric.upper()} of {line} relative to ours"
            aim = (f"<= {AIM:g}", mean <= AIM) if line != TREES else (None, None)
            numbers.append(Figure(f"{name}, geometric mean", mean, "ratio", *aim, len(ratios)))
            numbers.append(Figure(f"{name}, worst dataset", max(ratios), "ratio", n=len(ratios)))
    seconds = [sum(row.seconds[model] for row in rows) for model in (TREES, OURS)]
    return [
        *numbers,
        Figure("seconds of processor to fit the trees, to the network's", seconds[0] / seconds[1], "ratio"),
    ]


def _table(row: Measured) -> str:
    weights = " ".join(f"{weight:.1f}" for weight in row.weights)
    head = f"{row.dataset}: weight of the trees at each cutoff {weights}"
    lines = [
        f"  {line:36}"
        + "  ".join(f"{name} {row.metrics[line][name]:.4f}" for name in SHOWN)
        + (f"  {row.seconds[line]:.0f} s to fit" if line in row.seconds else "")
        for line in (OURS, TREES, *BLENDS)
    ]
    return "\n".join([head, *lines])


if __name__ == "__main__":
    main()
