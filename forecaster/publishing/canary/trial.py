"""Life cycle of a canary: it starts when the gate admits a model, and each nightly run judges it by
the actuals since."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.config import Canary, Spec
from forecaster.core.arrays import Days, Floats
from forecaster.core.forecast import CanaryOutcome, CanaryTrial, Fold, Forecast
from forecaster.core.language import N_
from forecaster.core.language.sentences import counted, sentence
from forecaster.core.panel import Panel
from forecaster.evaluation.canary import CanaryVerdict, coverage_objection, judge
from forecaster.evaluation.metrics import seasonal_scale
from forecaster.evaluation.paired_test import Pairs, pairs
from forecaster.lake import Lake
from forecaster.ledger import lease, records, store
from forecaster.ledger.store import Ledger
from forecaster.ledger.trials import canaries
from forecaster.publishing.archive_rows import CANARY, CHAMPION
from forecaster.publishing.canary.cohort import cohort
from forecaster.serving.bundle import MANIFEST

CANDIDATE = "candidate"  # name of a run's new model in the backtest


@dataclass(frozen=True)
class CanaryStart:
    """Start of an admitted model: whether it is promoted at once, and why."""

    promotes: bool
    sentence: str


def start(spec: Spec, ledger: Ledger, panel: Panel, *, run_id: str, bundle: str, now: datetime) -> CanaryStart | None:
    """Start an admitted bundle as a canary; None if there is no champion to compare it with.

    A running canary is judged first: runs train every day, and if each new model replaced it none
    would ever be judged. The first model admitted after that is tried next. Raises LedgerError,
    LostLease.
    """
    champion = ledger.champion(spec.name)
    if spec.canary is None or champion is None or champion.bundle_digest == bundle:
        return None
    with ledger.transaction() as connection:
        lease.admit(connection, spec.name, run_id)
        current = canaries.running(connection, spec.name)
        if current is not None and current.bundle_digest == bundle:
            return CanaryStart(False, sentence(N_("canary {bundle} is running already"), bundle=bundle))
        if current is not None:
            since = current.since.astimezone(spec.zone).date()
            template = N_(
                "bundle {bundle} was admitted and is not tried: canary {canary} has run since {day}, and is judged "
                "first"
            )
            values = {"bundle": bundle, "canary": current.bundle_digest, "day": since}
            return CanaryStart(False, sentence(template, **values))
        if (earlier := canaries.was_taken_back(connection, spec.name, bundle)) is not None:
            template = N_("bundle {bundle} is not tried again: it was withdrawn: {reason}")
            return CanaryStart(False, sentence(template, bundle=bundle, reason=earlier.reason or ""))
        depots = cohort(panel, bundle, spec.canary.share)
        alone = _cannot_be_compared(spec, champion.bundle_digest, bundle)
        if alone is None and not depots:
            alone = sentence(N_("there is one depot alone"))
        if alone is not None:
            template = N_("bundle {bundle} is promoted without a canary: {why}")
            return CanaryStart(True, sentence(template, bundle=bundle, why=alone))
        canaries.start(connection, spec.name, run_id=run_id, bundle_digest=bundle, cohort=depots, now=now)
    template = N_("canary {bundle} is shown at {n} of {depots}, next to champion {champion}")
    of_all = counted(len(panel.depot_ids), "{n} depot", "{n} depots")
    values = {"bundle": bundle, "n": len(depots), "depots": of_all, "champion": champion.bundle_digest}
    return CanaryStart(False, sentence(template, **values))


def _cannot_be_compared(spec: Spec, champion: str, bundle: str) -> str | None:
    """Reason why two bundles cannot be shown together; None if they can."""
    manifests = []
    for name in (champion, bundle):
        try:
            manifests.append(json.loads((spec.paths.bundle(name) / MANIFEST).read_text("utf-8")))
        except (OSError, ValueError):
            return sentence(N_("bundle {bundle} cannot be read"), bundle=name)
    before, new = manifests
    for key in ("horizon", "levels"):
        if before[key] != new[key]:
            template = N_("the champion has the {key} {before}, and this model has {new}")
            return sentence(template, key=key, before=str(before[key]), new=str(new[key]))
    return None


def look(
    spec: Spec, ledger: Ledger, panel: Panel, *, run_id: str, now: datetime, frozen: str | None = None
) -> CanaryOutcome | None:
    """Judge the running canary by the days with actuals since; None if none runs, or there is no
    new day.

    It is promoted or rolled back in one transaction with its own row. `frozen` is the reason why
    nothing may be promoted now. Raises LakeError, LedgerError, LostLease.
    """
    with ledger.transaction() as connection:
        trial = canaries.running(connection, spec.name)
        champion = records.champion(connection, spec.name)
    if trial is None or spec.canary is None:
        return None
    # e.g. after the ledger was restored from a backup
    if champion is None or champion.bundle_digest != trial.champion_digest:
        why = sentence(N_("its champion was replaced"))
        with ledger.transaction() as connection:
            lease.admit(connection, spec.name, run_id)
            canaries.end(connection, trial, "superseded", by=store.CANARY, reason=why, now=now)
        ended = sentence(N_("canary {bundle} has ended: {why}"), bundle=trial.bundle_digest, why=why)
        return CanaryOutcome(trial.bundle_digest, "superseded", ended)
    verdict = _verdict(spec, spec.canary, trial, panel)
    if verdict is None:
        return None
    with ledger.transaction() as connection:
        lease.admit(connection, spec.name, run_id)
        canaries.keep_judgement(connection, trial, verdict.numbers(), verdict.look)
        if verdict.decision == "go back":
            canaries.take_back(connection, trial, reason=verdict.reason, now=now)
            back = sentence(
                N_("canary {bundle} was withdrawn: {reason}"), bundle=trial.bundle_digest, reason=verdict.reason
            )
            return CanaryOutcome(trial.bundle_digest, "rolled_back", back)
        if verdict.decision == "promote" and frozen is None:
            canaries.promote(connection, trial, reason=verdict.reason, now=now)
            won = N_("canary {bundle} is champion now: {reason}")
            message = sentence(won, bundle=trial.bundle_digest, reason=verdict.reason)
            return CanaryOutcome(trial.bundle_digest, "promoted", message)
    further = N_("canary {bundle} continues, night {night}: {reason}")
    goes_on: str = sentence(further, bundle=trial.bundle_digest, night=verdict.look, reason=verdict.reason)
    if verdict.decision == "promote":
        goes_on = sentence(N_("{outcome}; not promoted: {why}"), outcome=goes_on, why=frozen or "")
    return CanaryOutcome(trial.bundle_digest, "running", goes_on)


def _verdict(spec: Spec, canary: Canary, trial: CanaryTrial, panel: Panel) -> CanaryVerdict | None:
    lake, scale = Lake.of(spec), seasonal_scale(panel.demand, panel.open[:, : panel.history])
    folds = came_in(lake, trial, panel)
    if not folds[CANARY]:
        return None
    trial_pairs = pairs(folds[CANARY], folds[CHAMPION], scale, spec.gate.metric)
    if len(np.unique(trial_pairs.day)) <= trial.days:
        return None
    before = _in_backtest(lake, trial, panel, spec.gate.metric)
    objection = coverage_objection(folds[CANARY], folds[CHAMPION], scale, spec.gate)
    return judge(trial_pairs, before, trial.nights + 1, canary, spec.gate, objection)


def came_in(lake: Lake, trial: CanaryTrial, panel: Panel) -> dict[str, list[Fold]]:
    """Role → its forecasts from each cutoff at which both forecast, with the actuals since. Raises
    LakeError."""
    bundles = pa.array([trial.champion_digest, trial.bundle_digest])
    where = (
        pc.field("bundle").isin(bundles)
        & (pc.field("recorded_at") >= pa.scalar(trial.since, pa.timestamp("us", "UTC")))
        & (pc.field("cutoff") < pa.scalar(panel.cutoff))
    )
    rows = lake.read("canary_forecasts", where=where)
    folds = {role: _folds(rows.filter(pc.equal(rows["role"], role)), panel) for role in (CHAMPION, CANARY)}
    common = folds[CHAMPION].keys() & folds[CANARY].keys()
    return {role: [of_role[cutoff] for cutoff in sorted(common)] for role, of_role in folds.items()}


def _in_backtest(lake: Lake, trial: CanaryTrial, panel: Panel, metric: str) -> Pairs | None:
    """Losses of both in the backtest of the run that made the canary; None if the lake has none.

    Raises LakeError.
    """
    rows = lake.read("scores", where=pc.field("run_id") == trial.run_id)
    scale = seasonal_scale(panel.demand, panel.open[:, : panel.history])
    folds = [_folds(rows.filter(pc.equal(rows["model"], model)), panel) for model in (CANDIDATE, CHAMPION)]
    if not all(folds):
        return None
    return pairs(list(folds[0].values()), list(folds[1].values()), scale, metric)


def _folds(rows: pa.Table, panel: Panel) -> dict[date, Fold]:
    """Cutoff → its last forecast, on the panel's depots, with the actuals known by now."""
    folds = dict[date, Fold]()
    for cutoff in sorted(set(rows["cutoff"].to_pylist())):
        of_cutoff = rows.filter(pc.equal(rows["cutoff"], pa.scalar(cutoff)))
        newest = of_cutoff.filter(pc.equal(of_cutoff["recorded_at"], pc.max(of_cutoff["recorded_at"])))
        folds[cutoff] = _fold(newest, cutoff, panel)
    return folds


def _fold(rows: pa.Table, cutoff: date, panel: Panel) -> Fold:
    levels = tuple(rows["levels"][0].as_py())
    horizon = int(pc.max(rows["horizon"]).as_py())
    places: Mapping[str, int] = {depot: row for row, depot in enumerate(panel.depot_ids)}
    row = np.array([places.get(depot, -1) for depot in rows["depot_id"].to_pylist()], np.intp)
    step = rows["horizon"].to_numpy().astype(np.intp) - 1
    values = rows["quantiles"].combine_chunks().flatten().to_numpy(zero_copy_only=False).reshape(len(row), len(levels))
    quantiles = np.full((len(panel.depot_ids), horizon, len(levels)), np.nan, np.float32)
    quantiles[row[row >= 0], step[row >= 0]] = values[row >= 0]
    first = np.datetime64(cutoff, "D") + 1
    days = first + np.arange(horizon)
    actuals = _counts(panel, days)
    actuals[~np.isfinite(quantiles).all(axis=2)] = np.nan  # a depot not forecast at that time
    forecast = Forecast(panel.depot_ids, cutoff, tuple(days.astype(object)), levels, quantiles, np.isfinite(actuals))
    return Fold(forecast, actuals)


def _counts(panel: Panel, days: Days) -> Floats:
    """Actuals of these days, (depots, days); NaN if unknown, or the depot was closed."""
    counts = np.full((len(panel.depot_ids), len(days)), np.nan, np.float32)
    actuals = np.where(panel.open[:, : panel.history], panel.demand, np.nan)
    place = (days - panel.days[0]).astype(np.intp)
    is_inside = (place >= 0) & (place < panel.history)
    counts[:, is_inside] = actuals[:, place[is_inside]]
    return counts
