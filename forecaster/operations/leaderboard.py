"""Model comparison (leaderboard) by rolling-origin backtest: a fresh model, the champion and the
baselines on the same unseen days (it states if the champion saw them), with a paired significance
test of the first against the second."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from pathlib import Path

from forecaster.config import Spec
from forecaster.core.forecast import Candidate, Forecast, Scores
from forecaster.core.panel import Panel
from forecaster.core.progress import NightProgress as Progress
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import read_as_of
from forecaster.demand.panel import build as panels
from forecaster.evaluation import baselines
from forecaster.evaluation.backtest import Predictor, cutoffs, first_weeks, folds
from forecaster.evaluation.metrics import scored
from forecaster.evaluation.paired_test import difference
from forecaster.ledger.store import Ledger
from forecaster.model.fitting.train import VALIDATION
from forecaster.plugins import plugin
from forecaster.staffing import cost_backtest
from forecaster.staffing.cost_backtest import Bills
from forecaster.staffing.shift_values import ShiftShares
from forecaster.training import fit_candidate, train
from forecaster.training.backtest import CANDIDATE, backtest

RETRAINED = "retrained"
COLUMNS = {"mape": "MAPE", "wape": "WAPE", "mase": "MASE", "bias": "bias", "wql": "WQL", "coverage": "80 % covers"}
_PLAIN = ("mase", "wql")  # not percentages


@dataclass(frozen=True)
class Leaderboard:
    """The models' backtest scores, best first, and a sentence on the winner."""

    metric: str
    scores: tuple[Scores, ...]
    days: str
    verdict: str
    rosters: Bills | None = None  # cost of rosters from the candidate's forecasts

    def lines(self) -> list[str]:
        """Lines of a table for the terminal."""
        width = max(len(scores.model) for scores in self.scores)
        lines = [f"{'':{width}}  " + "  ".join(f"{name:>11}" for name in COLUMNS.values())]
        for scores in self.scores:
            values = (_format_metric(name, scores.metrics[name]) for name in COLUMNS)
            lines.append(f"{scores.model:{width}}  " + "  ".join(f"{value:>11}" for value in values))
        return lines

    def to_json(self) -> dict[str, object]:
        compared = [
            {"model": scores.model, **{k: v if v == v else None for k, v in scores.metrics.items()}}
            for scores in self.scores
        ]
        content: dict[str, object] = {
            "metric": self.metric,
            "days": self.days,
            "models": compared,
            "verdict": self.verdict,
        }
        return {**content, "staffing": self.rosters.to_json()} if self.rosters else content


def board(spec: Spec, *, as_of: datetime, progress: Progress, staffing: bool = False) -> Leaderboard:
    """Backtest a model trained on the data before the held-out days against its rivals; nothing is
    changed.

    With `staffing` also compute the cost of rosters on these days. Training uses this machine
    alone, whatever `training.hosts` declares: those hosts wait for nightly runs.

    Raises MissingExtra if a declared baseline is not installed, NoUsableData if the lake holds too
    little.
    """
    for name in spec.backtest.baselines:
        baselines.ready(name)  # reports a missing package now, not after minutes of training
    if spec.training.hosts is not None:
        progress.say("           training.hosts: a backtest trains on this machine alone")
        spec = spec.model_copy(update={"training": spec.training.model_copy(update={"hosts": None})})
    with Ledger.open(spec.ledger_url) as ledger:  # reports an unreadable ledger now, too
        champion = ledger.champion(spec.name)
    with progress.stage("panel"):
        knowledge = read_as_of(spec, as_of=as_of)
        panel = panels.build(knowledge, spec)
    panel_at = Past(knowledge, panel, spec)
    with progress.stage("train"):
        models = _trained_models(panel, spec, panel_at, progress)
    with progress.stage("backtest"):
        folder = spec.paths.bundle(champion.bundle_digest) if champion else None
        scores, troubles = backtest(
            models, folder, panel, knowledge, spec, panel_at=panel_at, on_model=lambda name: progress.advance(0, name)
        )
        shares = plugin("shifts.learning").learn(spec, knowledge, panel) if staffing and spec.learns_shares else None
        rosters = _rosters(models[CANDIDATE], scores, panel, panel_at, spec, progress, shares) if staffing else None
    for trouble in troubles:
        progress.say(trouble)
    days = scored(scores[CANDIDATE].folds, scores[CANDIDATE].scale).day
    return Leaderboard(
        spec.gate.metric,
        tuple(rank_models(scores, spec.gate.metric)),
        f"{days.min()} to {days.max()}" if len(days) else "no day",
        winner_sentence(scores, spec.gate.metric),
        rosters,
    )


def _trained_models(panel: Panel, spec: Spec, panel_at: Past, progress: Progress) -> dict[str, Predictor]:
    first = fit_candidate.rolling_forecaster(
        _train_model(panel, spec, panel_at, None, progress), panel, spec, panel_at=panel_at
    )
    if not spec.backtest.retrain_days:
        return {CANDIDATE: first}
    return {CANDIDATE: first, RETRAINED: _retrained_model(first, panel, spec, panel_at, progress)}


def _rosters(
    predict: Predictor,
    scores: Mapping[str, Scores],
    panel: Panel,
    panel_at: Past,
    spec: Spec,
    progress: Progress,
    shares: ShiftShares | None,
) -> Bills:
    """Cost of rosters on the held-out days; the first buffers are chosen on the days that
    calibrated the candidate, on which it was not trained either."""
    progress.advance(0, "rosters")
    first = panel_at(cutoffs(panel, spec.backtest.days, spec.backtest.every)[0])
    earlier = first_weeks(folds(predict, first, cutoffs(first, VALIDATION), panel_at))
    held_out = first_weeks(scores[CANDIDATE].folds)
    bills = cost_backtest.backtest_costs(held_out, earlier, panel, panel_at, spec, shares)
    if spec.staffing is None or spec.staffing.notice_days is None:
        return bills
    progress.advance(0, "notice")
    nightly = folds(predict, panel, cutoffs(panel, spec.backtest.days, 1), panel_at)
    return replace(bills, notice=plugin("notice.replay").replay_notice(nightly, panel, spec, shares))


def _train_model(panel: Panel, spec: Spec, panel_at: Past, cutoff: date | None, progress: Progress) -> Candidate:
    return fit_candidate.train_and_calibrate(
        panel,
        spec,
        panel_at=panel_at,
        cutoff=cutoff,
        checkpoints=_checkpoints(panel, spec, panel_at, cutoff),
        on_epoch=lambda e: progress.advance(e.number / e.of, f"epoch {e.number}/{e.of}  loss {e.loss:.4f}"),
        on_trouble=progress.say,
    )


def _checkpoints(panel: Panel, spec: Spec, panel_at: Past, cutoff: date | None) -> Path:
    """Checkpoints of the nightly run if its training is the same, so that nothing is trained twice;
    otherwise a folder that it does not read."""
    same = cutoff is None and train.is_cached(panel, spec, panel_at)
    return spec.paths.checkpoints if same else spec.paths.backtest_checkpoints


def _retrained_model(first: Predictor, panel: Panel, spec: Spec, panel_at: Past, progress: Progress) -> Predictor:
    """The first model until `backtest.retrain_days` have passed, then a retrained one, and so on."""
    fold_cutoffs = cutoffs(panel, spec.backtest.days, spec.backtest.every)
    dated_models, since = [(fold_cutoffs[0], first)], fold_cutoffs[0]
    for cutoff in fold_cutoffs:
        if (cutoff - since).days >= (spec.backtest.retrain_days or 0):
            progress.say(f"           trained anew as of {cutoff}")
            fitted = _train_model(panel, spec, panel_at, cutoff, progress)
            dated_models.append(
                (cutoff, fit_candidate.rolling_forecaster(fitted, panel, spec, panel_at=panel_at, cutoff=cutoff))
            )
            since = cutoff

    def predict(past_panel: Panel) -> Forecast:
        before = [model for cutoff, model in dated_models if cutoff <= past_panel.cutoff]
        return (before or [first])[-1](past_panel)  # a long horizon begins before the held-out days

    return predict


def rank_models(scores: Mapping[str, Scores], metric: str) -> Sequence[Scores]:
    """Rank models by a metric: lowest first; NaN last."""
    return sorted(
        scores.values(), key=lambda model: (model.metrics[metric] != model.metrics[metric], model.metrics[metric])
    )


def winner_sentence(scores: Mapping[str, Scores], metric: str) -> str:
    """Sentence on the winner, with a paired significance test against the second."""
    first, second = rank_models(scores, metric)[:2]
    comparison = difference(first.folds, second.folds, first.scale, metric)
    return comparison.sentence(first.model, second.model, metric) + "."


def _format_metric(name: str, value: float) -> str:
    if value != value:
        return "unknown"
    return f"{value:.3f}" if name in _PLAIN else f"{value:+.1%}" if name == "bias" else f"{value:.1%}"
