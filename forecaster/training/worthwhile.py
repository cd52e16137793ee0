"""Decide whether a training is worthwhile this night: one is skipped if the last trainings gained
nothing in rosters.

The gain of a training is measured in money on the days with actuals since: on each of them, the new
champion and its predecessor roster from the knowledge of the evening before, and the costs of their
crews are compared, depot by depot and day by day (the paired test of `evaluation.paired_test`). A
candidate that was not admitted gained nothing. A training is worthwhile if the gain of the last
three is more than chance, and a day's gain is no less than the cost of a training
(`execution.cost_per_hour`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import partial

import numpy as np

from forecaster.config import Spec
from forecaster.core.arrays import Days, Doubles
from forecaster.core.forecast import Fold, Scores
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, sentence
from forecaster.core.panel import Panel
from forecaster.demand.history.past_panels import Past
from forecaster.errors import BundleError
from forecaster.evaluation import gate
from forecaster.evaluation.metrics import measure, seasonal_scale
from forecaster.evaluation.paired_test import Pairs
from forecaster.ledger.records import Promotion, Run
from forecaster.ledger.store import GATE, Ledger
from forecaster.serving import bundle as bundles
from forecaster.serving.fallback import seasonal_naive
from forecaster.serving.predict import Predictor
from forecaster.staffing.roster_ways import RosterWays
from forecaster.staffing.rosters import van_pool

LAST_TRAININGS = 3  # number of trainings whose gain is measured
LAST_DAYS = 7  # days on which accuracy is checked
MOST_DAYS = 28  # days that are forecast again, at most
MOST_RUNS = 400  # runs that are searched, at most
STAGES = ("train", "backtest", "gate", "export")  # stages that a night without training skips
NAIVE = "seasonal_naive"
WEEKDAYS = (
    N_("Monday"),
    N_("Tuesday"),
    N_("Wednesday"),
    N_("Thursday"),
    N_("Friday"),
    N_("Saturday"),
    N_("Sunday"),
)


@dataclass(frozen=True)
class Decision:
    """Decision to train or not, and the reason as a sentence."""

    trains: bool
    reason: str


@dataclass(frozen=True)
class PastTraining:
    """A night that trained, with the replaced and the new champion. If it promoted none, both are
    the reigning champion."""

    night: date
    old: str
    new: str


@dataclass(frozen=True)
class Gain:
    """Gain of trainings, in the unit of `staffing`, and the cost of one of them."""

    trainings: int
    pairs: Pairs  # costs of the new champion's crews and of the old one's
    compared: int  # days, each counted once per training
    training_cost: float

    @property
    def a_day(self) -> float:
        """Gain per day, above zero if the new champions' rosters were cheaper; 0 without actuals
        since."""
        return float((self.pairs.theirs - self.pairs.ours).sum()) / self.compared if self.compared else 0.0

    @property
    def is_noticed(self) -> bool:
        """True if the gain is more than chance, and no less than the cost of a training."""
        return self.pairs.difference().high < 0 and self.a_day >= self.training_cost

    def sentence(self) -> str:
        difference = self.pairs.difference()
        if self.compared and np.array_equal(self.pairs.ours, self.pairs.theirs):
            same = N_("the last {n} did not improve rosters (their crews cost the same as before)")
            return sentence(same, n=self.trainings)
        gain = sentence(N_("{amount} per day over {n} days"), amount=amount(self.a_day, "+,.2f"), n=difference.days)
        values = {"n": self.trainings, "gain": gain}
        if not np.isfinite(difference.high):
            few = N_("the last {n} did not improve rosters (too few days to judge: {gain})")
            return sentence(few, **values)
        values |= {"low": amount(-difference.high, "+.1%"), "high": amount(-difference.low, "+.1%")}
        if self.is_noticed:
            return sentence(N_("the last {n} improved rosters by {gain}, {low} to {high} of their cost"), **values)
        nothing = N_("the last {n} did not improve rosters ({gain}, {low} to {high} of their cost)")
        too_little = N_(
            "the last {n} did not improve rosters ({gain}, {low} to {high} of their cost; a training costs {cost})"
        )
        if not self.training_cost:
            return sentence(nothing, **values)
        return sentence(too_little, **values, cost=amount(self.training_cost, ",.2f"))


def weigh(spec: Spec, ledger: Ledger, panel: Panel, panel_at: Past, as_of: datetime) -> Decision:
    """Decide on this night's training; `panel_at` returns the panel as of an earlier cutoff.

    Raises BundleError for a champion that cannot be read.
    """
    if reason := _due(spec, ledger, as_of):
        return Decision(True, reason)
    trainings = past_trainings(spec, ledger, as_of)[:LAST_TRAININGS]
    if len(trainings) < LAST_TRAININGS:
        return Decision(
            True, f"fewer than {LAST_TRAININGS} trainings have followed another, by which to weigh this one"
        )
    champion = _champion(ledger, spec)
    predictor = Predictor(bundles.load(spec.paths.bundle(champion.bundle_digest), spec.paths.folder))
    if new := set(panel.depot_ids) - set(predictor.bundle.manifest.get("depots", panel.depot_ids)):
        names = ", ".join(sorted(new)[:3]) + (f" and {len(new) - 3} more" if len(new) > 3 else "")
        return Decision(True, f"depots are new: {names}")
    folds = _replays(spec, panel, panel_at, champion.bundle_digest, trainings)
    if slips := list(_slips(spec, panel, panel_at, folds[champion.bundle_digest])):
        return Decision(True, f"accuracy slips on the last {LAST_DAYS} days: {slips[0]}")
    gain = gain_of(spec, panel, trainings, folds, training_cost(spec, _training_nights(spec, ledger, as_of)))
    if gain.is_noticed:
        return Decision(True, gain.sentence())
    last = latest(spec, ledger, as_of)
    if last is None:
        return Decision(False, sentence(N_("{gain}; next at the latest tomorrow"), gain=gain.sentence()))
    weekday = sentence(WEEKDAYS[last.weekday()])
    again = N_("{gain}; next at the latest on {weekday} {day}")
    return Decision(False, sentence(again, gain=gain.sentence(), weekday=weekday, day=last))


def latest(spec: Spec, ledger: Ledger, as_of: datetime) -> date | None:
    """Return the night of the next training at the latest, whatever the last trainings gained; None
    before the first training."""
    nights = _training_nights(spec, ledger, as_of)
    return _night(spec, nights[0]) + timedelta(days=spec.training.at_least_every) if nights else None


def past_trainings(spec: Spec, ledger: Ledger, as_of: datetime) -> list[PastTraining]:
    """Return the nights that trained while there was a champion, the newest first."""
    promotions = ledger.promotions(spec.name)
    by_run: Mapping[str, Promotion] = {promotion.run_id: promotion for promotion in promotions if promotion.by == GATE}
    trainings = []
    for run in _training_nights(spec, ledger, as_of):
        promoted = by_run.get(run.run_id)
        reigned = [promotion for promotion in promotions if promotion.at < run.started_at]
        if promoted is not None and promoted.previous_digest is not None:
            trainings.append(PastTraining(_night(spec, run), promoted.previous_digest, promoted.bundle_digest))
        elif promoted is None and reigned:
            trainings.append(PastTraining(_night(spec, run), reigned[-1].bundle_digest, reigned[-1].bundle_digest))
    return trainings


def gain_of(
    spec: Spec, panel: Panel, trainings: Sequence[PastTraining], folds: Mapping[str, Mapping[date, Fold]], cost: float
) -> Gain:
    """Compute the gain of trainings from each champion's forecasts of single days: digest → cutoff
    → fold."""
    assert spec.staffing is not None
    # whole days, regardless of declared shifts
    by_day = spec.staffing.model_copy(update={"shifts": ()})
    ways, paid = RosterWays(by_day, van_pool(panel, spec)), dict[tuple[str, date], Doubles]()

    def bill(digest: str, cutoff: date) -> Doubles:
        if (digest, cutoff) not in paid:
            fold = folds[digest][cutoff]
            paid[digest, cutoff] = ways.billed(ways.cheapest(fold), fold).cost[:, 0]
        return paid[digest, cutoff]

    ours, theirs, depots, days, compared = [], [], [], list[Days](), 0
    for training in trainings:
        for cutoff in _cutoffs_since(training, panel):
            new, old = bill(training.new, cutoff), bill(training.old, cutoff)
            known_rows = np.flatnonzero(np.isfinite(new) & np.isfinite(old))
            ours.append(new[known_rows])
            theirs.append(old[known_rows])
            depots.append(known_rows)
            days.append(np.full(len(known_rows), np.datetime64(cutoff + timedelta(days=1), "D")))
            compared += bool(len(known_rows))
    empty = np.zeros(0)
    pairs = Pairs(
        np.concatenate([*depots, np.zeros(0, np.intp)]),
        np.concatenate([*days, np.zeros(0, "datetime64[D]")]),
        np.concatenate([*ours, empty]),
        np.concatenate([*theirs, empty]),
    )
    return Gain(len(trainings), pairs, compared, cost)


def training_cost(spec: Spec, nights: Sequence[Run]) -> float:
    """Return the mean cost of one of the last trainings, including all stages that a night without
    training skips."""
    seconds = [sum(run.timings.get(stage, 0.0) for stage in STAGES) for run in nights[:LAST_TRAININGS]]
    return (spec.execution.cost_per_hour or 0.0) * sum(seconds) / 3600 / max(len(seconds), 1)


def _due(spec: Spec, ledger: Ledger, as_of: datetime) -> str | None:
    """Return the reason to train without measuring a gain; None if the gain decides."""
    if ledger.champion(spec.name) is None:
        return "no model reigns yet"
    nights = _training_nights(spec, ledger, as_of)
    if not nights:
        return "no night has trained yet"
    if nights[0].spec_digest != spec.digest:
        return f"the pipeline file has changed since the training of {_night(spec, nights[0])}"
    age = (as_of.astimezone(spec.zone).date() - _night(spec, nights[0])).days
    if age >= spec.training.at_least_every:
        nights_ago = "night" if age == 1 else "nights"
        return f"the last training is {age} {nights_ago} old, and training.at_least_every is reached"
    return None


def _champion(ledger: Ledger, spec: Spec) -> Promotion:
    champion = ledger.champion(spec.name)
    if champion is None:
        raise BundleError("no model reigns")
    return champion


def _training_nights(spec: Spec, ledger: Ledger, as_of: datetime) -> list[Run]:
    """Return the earlier nights that trained and judged a candidate, the newest first."""
    runs = ledger.runs(spec.name, limit=MOST_RUNS, ended=True, nights=True)
    nights = [run for run in runs if run.kind == "night" and run.verdict is not None and run.as_of < as_of]
    return sorted(nights, key=lambda run: run.as_of, reverse=True)


def _replays(
    spec: Spec, panel: Panel, panel_at: Past, champion: str, trainings: Sequence[PastTraining]
) -> dict[str, dict[date, Fold]]:
    """Forecast with each champion the single day after each cutoff that is needed: digest → cutoff
    → fold."""
    cutoffs_by_digest: dict[str, set[date]] = {champion: set(_last_cutoffs(panel))}
    for training in trainings:
        for digest in (training.old, training.new):
            cutoffs_by_digest.setdefault(digest, set()).update(_cutoffs_since(training, panel))
    predictors = {
        digest: Predictor(bundles.load(spec.paths.bundle(digest), spec.paths.folder))
        for digest, cutoffs in cutoffs_by_digest.items()
        if cutoffs
    }
    folds: dict[str, dict[date, Fold]] = {digest: {} for digest in cutoffs_by_digest}
    for cutoff in sorted(set().union(*cutoffs_by_digest.values())):
        panels: dict[str, Panel] = {}  # by encoding, because most champions share one
        for digest, predictor in predictors.items():
            if cutoff in cutoffs_by_digest[digest]:
                encoding = predictor.bundle.encoding
                key = repr(encoding.to_json())
                panels[key] = panels.get(key) or panel_at.under(encoding)(cutoff)
                folds[digest][cutoff] = _first_day(predictor, panels[key], panel)
    return folds


def _first_day(predictor: Predictor, before: Panel, panel: Panel) -> Fold:
    """Return the forecast of the day after a cutoff, with the actuals known by now."""
    full_forecast = predictor(before)
    forecast = replace(
        full_forecast,
        target_dates=full_forecast.target_dates[:1],
        quantiles=full_forecast.quantiles[:, :1],
        open=full_forecast.open[:, :1],
    )
    scored = panel.at(before.cutoff).open[:, -panel.horizon :] & before.open.any(axis=1, keepdims=True)
    actuals = np.where(scored, panel.actuals(before.cutoff), np.nan)[:, :1].astype(np.float32)
    return Fold(forecast, actuals)


def _slips(spec: Spec, panel: Panel, panel_at: Past, champion: Mapping[date, Fold]) -> Iterator[str]:
    """Yield the gate's objections to the champion's forecasts of the last days: bias and coverage
    significantly outside their bounds, and no better than the seasonal naive if the gate requires
    that."""
    cutoffs = _last_cutoffs(panel)
    naive = partial(seasonal_naive, levels=tuple(spec.model.quantiles))
    rivals = [_first_day(naive, panel_at(cutoff), panel) for cutoff in cutoffs]  # type: ignore[arg-type]
    before = panel_at(cutoffs[0])
    scale = seasonal_scale(before.demand, before.open[:, : before.history])

    def scores(name: str, folds: Sequence[Fold]) -> Scores:
        return Scores(name, tuple(folds), measure(folds, scale), scale)

    bounds = spec.gate.model_copy(update={"beat": (NAIVE,) if NAIVE in spec.gate.beat else (), "margin": 0.0})
    mine = scores("champion", [champion[cutoff] for cutoff in cutoffs])
    yield from gate.judge(mine, {NAIVE: scores(NAIVE, rivals)}, bounds).objections


def _last_cutoffs(panel: Panel) -> list[date]:
    return [panel.cutoff - timedelta(days=back) for back in range(LAST_DAYS, 0, -1)]


def _cutoffs_since(training: PastTraining, panel: Panel) -> list[date]:
    """Return the cutoffs of the days with actuals since a training's night, at most the newest
    `MOST_DAYS`."""
    days = (panel.cutoff - training.night).days + 1
    return [panel.cutoff - timedelta(days=back) for back in range(min(days, MOST_DAYS), 0, -1)]


def _night(spec: Spec, run: Run) -> date:
    return run.as_of.astimezone(spec.zone).date()
