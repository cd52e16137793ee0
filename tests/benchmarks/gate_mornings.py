"""Replay the gate over past mornings: how often it rejects a model, and how often the rejected
model was better.

    python -m tests.benchmarks.gate_mornings [--datasets sample,bayarea_bikeshare14] [--horizons 7,28] [--mornings 30]

Each morning trains a candidate. Two rules judge it, each with its own champion: `strict`, under
which every objection rejects, and the product's. A rejected candidate is compared, on the days
after that morning, with the forecast published in its place. The last 56 days of each real dataset
are left out. To bound the time, panels have at most 32 depots and the last 500 days of history, and
the presets have one member.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial

import numpy as np

from forecaster.config import Spec
from forecaster.core.forecast import Candidate, Fold, Forecast, Scores, Verdict
from forecaster.core.panel import Panel
from forecaster.evaluation import backtest as backtests
from forecaster.evaluation import calibration, gate
from forecaster.evaluation.metrics import seasonal_scale
from forecaster.evaluation.paired_test import difference
from forecaster.model.export import to_onnx
from forecaster.serving.fallback import seasonal_naive
from forecaster.training import fit_candidate, preview
from forecaster.training import gate as training_gate
from forecaster.training.backtest import CANDIDATE, CHAMPION, NAIVE, PRIOR
from tests.benchmarks import real, worked_example
from tests.benchmarks.report import Figure, write_report

SAMPLE, UNSEEN, MOST_DEPOTS, HISTORY = "sample", 56, 32, 500
DATASETS = (SAMPLE, "bayarea_bikeshare14", "muenster_bike_counters", "melbourne_pedestrians", "nyc_taxi_apps_geo")
STRICT, PRODUCT = "strict", "product"


@dataclass
class Chain:
    """The champion under one rule, and the outcome of each morning."""

    champion: Candidate | None = None
    rejections: int = 0
    surely_better: int = 0  # rejected candidates that beat the published forecast by more than chance
    gains: list[float] = field(default_factory=list)  # relative loss of rejected candidates, below 0 = better
    error: float = 0.0  # absolute error of the first day after each morning, as published
    actual: float = 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", default=",".join(DATASETS))
    parser.add_argument("--horizons", default="7,28")
    parser.add_argument("--mornings", type=int, default=30)
    parser.add_argument("--every", type=int, default=1, help="days from one morning to the next")
    parser.add_argument("--preset", default="quick")
    arguments = parser.parse_args()
    figures: list[Figure] = []
    for horizon in map(int, arguments.horizons.split(",")):
        for name in arguments.datasets.split(","):
            spec, panel = _pipeline(name, horizon, arguments.preset)
            chains = replayed(spec, panel, arguments.mornings, arguments.every)
            figures += _figures(f"{name}, {horizon} days", chains, arguments.mornings)
    write_report("gate_mornings", figures)


def replayed(spec: Spec, panel: Panel, mornings: int, every: int) -> dict[str, Chain]:
    """Run the gate on each morning, the oldest first."""
    chains = {STRICT: Chain(), PRODUCT: Chain()}
    last = panel.cutoff - timedelta(days=spec.horizon)
    for back in range((mornings - 1) * every, -1, -every):
        cutoff = last - timedelta(days=back)
        before = _recent(panel.at(cutoff))
        with tempfile.TemporaryDirectory() as folder:
            of_morning = spec.model_copy(update={"state": folder})
            candidate = fit_candidate.train_and_calibrate(before, of_morning)
        rolling = fit_candidate.rolling_forecaster(candidate, before, spec)
        naive = partial(seasonal_naive, levels=tuple(spec.model.quantiles))
        models: dict[str, backtests.Predictor] = {CANDIDATE: rolling, NAIVE: naive}
        scores = backtests.run(models, before, spec.backtest.days)
        final = fit_candidate.calibrated_after_backtest(candidate, rolling, before)
        prior, prior_scores = preview.judged(before, spec)
        for rule, chain in chains.items():
            rivals: Mapping[str, Scores] = scores
            instead: Candidate | None = chain.champion
            if instead is not None:
                rivals = {**rivals, CHAMPION: _scored(instead, before, spec, scores[NAIVE])}
            elif preview.is_better(prior_scores, spec.gate.metric):
                instead, rivals = prior, {**rivals, PRIOR: prior_scores[PRIOR]}
            published = naive if instead is None else to_onnx.forecaster(instead)
            verdict = _judge(rule, rivals, spec)
            ours, theirs = (backtests.folds(model, panel, [cutoff]) for model in (to_onnx.forecaster(final), published))
            scale = seasonal_scale(before.demand, before.open[:, : before.history])
            if verdict.admitted:
                chain.champion = final
            else:
                compared = difference(ours, theirs, scale, spec.gate.metric)
                chain.rejections += 1
                chain.surely_better += compared.high < 0
                chain.gains.append(compared.relative)
            _add(chain, (ours if verdict.admitted else theirs)[0])
            print(f"{spec.name}, {spec.horizon} days, {cutoff}, {rule}: {verdict.sentence()}", flush=True)
    return chains


def _recent(panel: Panel) -> Panel:
    """Return the last days of a panel's history, the same number each morning, so that programs are
    compiled once."""
    first = max(panel.history - HISTORY, 0)
    arrays = {name: getattr(panel, name)[:, first:] for name in ("demand", "open", "covariates", "calendar")}
    return replace(panel, days=panel.days[first:], **arrays)


def _judge(rule: str, rivals: Mapping[str, Scores], spec: Spec) -> Verdict:
    if rule == PRODUCT:
        return training_gate.judge(rivals, spec)
    others = {name: scores for name, scores in rivals.items() if name != CANDIDATE}
    return gate.judge(rivals[CANDIDATE], others, spec.gate)


def _scored(champion: Candidate, before: Panel, spec: Spec, naive: Scores) -> Scores:
    """Score the champion as a nightly run does, with the calibration from before its own backtest."""
    stretch = [np.asarray(champion.summary[key]) for key in (fit_candidate.FIRST, fit_candidate.LAST)]
    ratio, predict = (stretch[0] / stretch[1]).astype(np.float32), to_onnx.forecaster(champion)

    def uncalibrated(panel: Panel) -> Forecast:
        return calibration.stretched(predict(panel), ratio)

    return backtests.run({CHAMPION: uncalibrated}, before, spec.backtest.days)[CHAMPION]


def _add(chain: Chain, fold: Fold) -> None:
    is_known = np.isfinite(fold.actuals[:, 0])
    chain.error += float(np.abs(fold.forecast.median - fold.actuals)[is_known, 0].sum())
    chain.actual += float(fold.actuals[is_known, 0].sum())


def _pipeline(name: str, horizon: int, preset: str) -> tuple[Spec, Panel]:
    if name == SAMPLE:
        with tempfile.TemporaryDirectory() as folder:
            spec = worked_example.spec_of("pipeline", folder)
            spec = spec.model_copy(update={"horizon": horizon})
            panel = worked_example.panel_of(spec)
    else:
        spec, panel = real.spec_of(name), real.panel_of(name, horizon)
        panel = panel.at(panel.cutoff - timedelta(days=UNSEEN))
    places = np.linspace(0, len(panel.depot_ids) - 1, min(MOST_DEPOTS, len(panel.depot_ids))).astype(int)
    panel = panel.among(tuple(panel.depot_ids[place] for place in places))
    training = spec.training.model_copy(update={"preset": preset, "members": 1})
    return spec.model_copy(update={"horizon": horizon, "training": training}), panel


def _figures(name: str, chains: Mapping[str, Chain], mornings: int) -> list[Figure]:
    figures = []
    for rule, chain in chains.items():
        figures += [
            Figure(f"{name}, {rule}: mornings with a rejected model", chain.rejections / mornings, "share", n=mornings),
            Figure(
                f"{name}, {rule}: rejected models surely better", chain.surely_better, "mornings", n=chain.rejections
            ),
            Figure(f"{name}, {rule}: WAPE of the next day", chain.error / chain.actual, "share", n=mornings),
        ]
        if chain.gains:
            mean = float(np.mean(chain.gains))
            figures.append(
                Figure(f"{name}, {rule}: rejected model relative to the published one, mean", mean, "relative loss")
            )
    return figures


if __name__ == "__main__":
    main()
