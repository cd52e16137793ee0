"""Publish by groups of depots: the publication of a fleet too large for one process.

Forecasts, overrides, rosters, totals and archive rows are bit-identical to those of `publish`.
Features that need all depots at once, or earlier forecasts, are left out: `obstacle` names the
settings of a pipeline file that groups do not support; such a run is done as a whole.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from forecaster.config import Spec
from forecaster.core.forecast import Forecast
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import joined, sentence
from forecaster.core.parallel import Fan
from forecaster.demand.history import lake_owner
from forecaster.demand.history.point_in_time import READ
from forecaster.demand.history.shuffle import Shuffle
from forecaster.errors import LakeError
from forecaster.lake import Lake
from forecaster.ledger.publication import Publication
from forecaster.ledger.staging.depot_rows import DepotRows
from forecaster.ledger.store import Ledger
from forecaster.planning import service
from forecaster.planning.overrides import active_overrides
from forecaster.publishing import caveats, content
from forecaster.publishing.caveats import Newcomers, Note
from forecaster.publishing.forecast import ModelChoice, choose, differing, ready_predictor
from forecaster.publishing.groups import depot_files, group_work
from forecaster.publishing.groups.group_work import DepotGroup, ForecastOrder, GroupForecast
from forecaster.publishing.groups.survey import Survey, survey
from forecaster.publishing.outcome import PublishedForecast, Troubles, kept
from forecaster.serving import keys, totals

# seconds after which a run that has written nothing is dead; others may share `state`
LEFT_SECONDS = 24 * 3600
NOT_LOOKED_BACK = "by groups of depots: why numbers moved and what came of earlier forecasts is not told"


def obstacle(spec: Spec, choice: ModelChoice) -> str | None:
    """Setting that requires all depots at once; None if groups are possible."""
    staffing = spec.staffing
    asked_for = {
        "no bundle forecasts": choice.bundle is None,
        "a canary runs": choice.trial is not None,
        "staffing.vans are shared by depots": staffing is not None and staffing.vans is not None,
        "staffing.shifts learn their shares": spec.learns_shares,
        "staffing.people are planned for the week": staffing is not None and bool(staffing.people),
        "staffing.change_cost or change_hour looks at what is published": staffing is not None
        and (staffing.change_cost > 0 or staffing.change_hour is not None),
        "staffing.notice_days looks at the published schedule": staffing is not None
        and staffing.notice_days is not None,
    }
    return next((reason for reason, is_so in asked_for.items() if is_so), None)


def publish_groups(
    spec: Spec,
    *,
    as_of: datetime,
    run_id: str,
    note: str | None,
    fan: Fan,
    depots: int,
    on_step: Callable[[str], None] = lambda step: None,
) -> PublishedForecast | str:
    """Forecast and publish with the champion, `depots` depots per group; or return why that must be
    done as a whole.

    Notes on a forecast are those of `publish`. Raises as `publish`, and BundleError if the champion
    is unusable.
    """
    with Ledger.open(spec.ledger_url) as ledger:
        choice = choose(spec, ledger, promoted_by=run_id)
        overrides = active_overrides(service.list_overrides(ledger, spec.name), as_of.astimezone(spec.zone).date())
    if reason := obstacle(spec, choice):
        return reason
    predictor = ready_predictor(spec, choice)
    lake_owner.refuse_half_restored(spec)
    lake = Lake.of(spec)
    lake_owner.refuse_other_fleets(spec, lake)
    folder = spec.paths.groups / run_id
    _make_room(spec, run_id)
    try:
        shuffle = Shuffle(spec, as_of, lake.versions(READ), folder)
        looked = survey(shuffle, choice, depots, fan, on_step)
        if looked.strangers:
            return f"depot {looked.strangers[0]} has neither been trained on nor any attribute"
        on_step("forecasts and rosters")
        order = ForecastOrder(choice, run_id, datetime.now(UTC), looked.totals, overrides)
        calls = (partial(group_work.forecast, looked.shuffle, looked.facts, group, order) for group in looked.groups)
        parts = fan(calls)
        notes = [*caveats.notes([note] if note else []), *_notes(looked, parts, differing(spec, predictor), choice)]
        on_step("publication")
        return _publish(spec, looked, order, parts, notes, predictor.bundle.levels, predictor.bundle.name)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _make_room(spec: Spec, run_id: str) -> None:
    """Delete leftovers of an earlier attempt, and of killed runs, untouched for a long time."""
    long_ago = datetime.now(UTC).timestamp() - LEFT_SECONDS
    for folder in spec.paths.groups.glob("*"):
        if folder.name == run_id or folder.stat().st_mtime < long_ago:
            shutil.rmtree(folder, ignore_errors=True)


def _publish(
    spec: Spec,
    looked: Survey,
    order: ForecastOrder,
    parts: Sequence[GroupForecast],
    notes: Sequence[Note],
    levels: tuple[float, ...],
    digest: str,
) -> PublishedForecast:
    """Write to archive and ledger; the archive comes first, so that all shown forecasts can be
    scored."""
    shuffle, choice, troubles = looked.shuffle, order.choice, Troubles()
    days, count = parts[0].target_dates, sum(part.depots for part in parts)
    cutoff = np.datetime64(looked.facts.last_day, "D").astype(object)
    nothing = Forecast(
        (),
        cutoff,
        days,
        levels,
        np.zeros((0, spec.horizon, len(levels)), np.float32),
        np.zeros((0, spec.horizon), np.bool_),
    )
    if head := caveats.outdated_by(spec, cutoff, shuffle.as_of):
        return kept(head, nothing, count, notes)
    with troubles.collect(LakeError, "the archive does not have these forecasts"):
        Lake.of(spec).append("forecasts", _rows(looked))
    of_groups = totals.quantiles_of_sums(chain.from_iterable(part.sums for part in parts), levels)
    publication = Publication(
        pipeline=spec.name,
        run_id=order.run_id,
        published_at=order.now,
        as_of=shuffle.as_of,
        cutoff=cutoff,
        horizon=spec.horizon,
        tier=choice.tier,
        model=choice.model,
        timezone=spec.timezone,
        levels=levels,
        depots=(),
        totals=content.published_totals(of_groups, days),
        bundle_digest=digest,
        note=joined((note.for_readers for note in notes), " "),
    )
    published = sum(part.published for part in parts)
    currency = spec.staffing.currency if spec.staffing else None
    computing = {"forecasts": count * spec.horizon, "cost_per_hour": spec.execution.cost_per_hour, "currency": currency}
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.note(
            order.run_id,
            findings=combined_findings(parts),
            lake_versions=shuffle.versions,
            computing=computing,
            measures={"depots": Counter({choice.tier: published})},
        )
        kept_publications, depots = spec.retention.publications, partial(_depots, looked)
        seal = keys.sealing(spec.paths.folder)
        number = ledger.publish(publication, keep=kept_publications, parts=depots, seal=seal)
    text = joined((note.text for note in notes), " ")
    return PublishedForecast(
        number,
        choice.tier,
        choice.model,
        digest,
        cutoff.isoformat(),
        count,
        text,
        nothing,
        troubles.summary,
        NOT_LOOKED_BACK,
    )


def _notes(looked: Survey, parts: Sequence[GroupForecast], differences: list[Note], choice: ModelChoice) -> list[Note]:
    """Notes on the forecast, as in `publishing.forecast`."""
    spec, nobody = looked.shuffle.spec, np.zeros(0, np.bool_)
    prior = []
    if choice.tier == "prior":
        prior = [Note(sentence(N_("The prior forecasts: {why}."), why=choice.absence), "")]
    names = [name for part in parts for name in part.late[0]][: caveats.MAX_NAMED]
    late = caveats.said_of_late(names, sum(part.late[1] for part in parts), spec)
    cutoff = np.datetime64(looked.facts.last_day, "D").astype(object)
    return [
        *prior,
        *Newcomers(looked.cold, looked.strangers, nobody).notes(),
        *differences,
        *caveats.stale_feed(cutoff, spec, looked.shuffle.as_of),
        *caveats.notes(late),
    ]


def combined_findings(parts: Sequence[GroupForecast]) -> Iterator[Finding]:
    """One finding per rule: that of the first group, with the count and the first places of all
    groups."""
    of_rule: dict[str, list[Finding]] = {}
    for part in parts:
        for finding in part.findings:
            of_rule.setdefault(finding.rule, []).append(finding)
    for findings in of_rule.values():
        first, further_groups = findings[0], len(findings) - 1
        if further_groups:
            further = N_("{message}; likewise in {n} more groups of depots")
            message = sentence(further, message=first.message, n=further_groups)
            places = tuple(place for finding in findings for place in finding.places)[:50]
            first = replace(first, count=sum(finding.count for finding in findings), message=message, places=places)
        yield first


def _rows(looked: Survey) -> Iterator[pa.Table]:
    for group in looked.groups:
        yield pq.read_table(group_work.rows_file(looked.shuffle, group))


def _depots(looked: Survey) -> Iterable[DepotRows]:
    def of(group: DepotGroup) -> Iterator[DepotRows]:
        return depot_files.read(group_work.depots_file(looked.shuffle, group))

    return chain.from_iterable(map(of, looked.groups))
