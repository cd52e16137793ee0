"""Refresh the current publication: bring it into line with the overrides that hold, and record what
they replace.

Saving an override changes the rows of the publication that is shown, rather than what readers make
of them: the network's page, the depot's, the API and whatever else reads the ledger then say the
same, and none of them needs to know of overrides. Rosters, since vans are shared, and totals are
computed anew for the days that moved. It happens in one transaction, which also writes down the
instant, by which readers know that something else is shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sa

from forecaster.config import Staffing
from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Forecast
from forecaster.core.language import _
from forecaster.core.panel import Panel
from forecaster.core.state_paths import StatePaths
from forecaster.errors import DeskError
from forecaster.ledger import plan_rows, records, soundness, tables
from forecaster.ledger.publication import (
    Publication,
    PublishedChange,
    PublishedDay,
    PublishedDepot,
    PublishedRoster,
    PublishedTotal,
)
from forecaster.ledger.records import Head
from forecaster.ledger.soundness import Seal
from forecaster.ledger.store import Ledger
from forecaster.planning import accepted_crews, apply, override_table, saved_inputs
from forecaster.planning.overrides import Cell, Override, active_overrides, as_of_day
from forecaster.planning.saved_inputs import SavedInputs
from forecaster.plugins import optional, plugin
from forecaster.serving import keys, totals
from forecaster.staffing import changes, rosters
from forecaster.staffing.changes import PublishedCrews, with_set_crews
from forecaster.staffing.newsvendor import Roster

OVERRIDE = "override"  # the part of a change that planners made
Crews = Mapping[Cell, Mapping[str, int]]  # drivers by shift of a depot's day


@dataclass(frozen=True)
class BindingCrews:
    """Crews that a plan keeps: of the published schedule for its premiums, and those set by hand in any case."""

    scheduled: Crews = field(default_factory=dict)
    by_hand: Crews = field(default_factory=dict)


NOBODY = BindingCrews()


@dataclass(frozen=True)
class RefreshOutcome:
    """Outcome for the shown publication; `trouble` says why it could not be brought into line,
    `remark` what next to the numbers was left as it was."""

    days: int
    trouble: DeskError | None = None
    remark: str | None = None

    def later(self, for_readers: bool) -> str:
        """Addition to a sentence about a change that could not be shown, or not with all that hangs
        on it; empty where it could."""
        if self.trouble is None:
            return f"; {self.remark}" if self.remark else ""
        why = _(self.trouble.for_readers) if for_readers else self.trouble
        return _("; from the next publication on, since {why}", why=why)


def refresh(ledger: Ledger, pipeline: str, paths: StatePaths) -> RefreshOutcome:
    """Bring what is shown into line, in a transaction of its own; `paths` have its saved inputs, and the key that
    seals.

    Raises LedgerError when the ledger cannot be written.
    """
    with ledger.transaction() as connection:
        return refresh_within(connection, pipeline, paths)


def refresh_within(
    connection: sa.Connection, pipeline: str, paths: StatePaths, head: Head | None = None
) -> RefreshOutcome:
    """Bring a publication into line, by default the shown one, in the caller's transaction.
    Idempotent: nothing happens where nothing is shown, or where planners and people never decided
    anything."""
    head = head or records.head(connection, pipeline)
    people_days = optional("people.days")
    by_hand = people_days.last_change(connection, pipeline) if people_days else None
    decided = by_hand or accepted_crews.last_change(connection, pipeline)
    if head is None or not (decided or override_table.has_overrides(connection, pipeline)):
        return RefreshOutcome(0)
    publication = records.whole(connection, head)
    by_people = people_days.read_decisions(connection, pipeline, publication.cutoff) if by_hand else ({}, {})
    active = active_overrides(
        override_table.read_overrides(connection, pipeline, publication.cutoff), as_of_day(publication)
    )
    trouble, remark, revised, inputs = None, None, publication, None
    set_crews = accepted_crews.read_set(connection, pipeline, publication.cutoff)
    if (
        _published_overrides(publication) != _expected_overrides(publication, active)
        or _days_of_other_crews(publication, set_crews)
        or (by_hand and plugin("people.replan").reassigned(publication, *by_people))
    ):
        try:
            inputs = saved_inputs.read(paths.saved_inputs, publication.desk)
            told = told_crews(connection, pipeline, inputs.staffing, publication.cutoff)
            revised, remark = with_overrides(publication, active, inputs, datetime.now(UTC), told, by_people)
        except DeskError as error:
            trouble = error
    changed = _update_rows(connection, head, publication, revised, keys.sealing(paths.folder))
    _record_results(connection, revised)
    if inputs is not None and revised != publication:
        record_changes(connection, revised, inputs.staffing, datetime.now(UTC))
    return RefreshOutcome(changed, trouble, remark)


def with_overrides(
    publication: Publication,
    active: Mapping[Cell, Override],
    inputs: SavedInputs,
    now: datetime,
    told: BindingCrews = NOBODY,
    by_people: tuple[Any, Any] = ({}, {}),
) -> tuple[Publication, str | None]:
    """The publication as it would have gone out with these overrides and no others, but for crews
    whose change is not worth what it costs; and what could not be done. `told` are crews of the
    published schedule, `by_people` people's shifts set by hand, and their wishes."""
    model, overrides_at, forecast, crews, roster = overridden_roster(publication, active, inputs, now, told)
    roster_at = rosters.published_rosters(roster, forecast, crews, now) if roster else {}
    # Vans are shared, so a day is written anew for all depots once one of its overrides is another.
    expected, current = _expected_overrides(publication, active), _published_overrides(publication)
    moved = {cell[1] for cell in expected.keys() | current.keys() if expected.get(cell) != current.get(cell)}
    moved |= _days_of_other_crews(publication, told.by_hand)
    rows = {depot: row for row, depot in enumerate(model.depot_ids)}

    def update_depot(depot: PublishedDepot) -> PublishedDepot:
        row = rows[depot.depot_id]
        days = []
        for step, day in enumerate(depot.days):
            if day.target_date not in moved:
                days.append(day)
                continue
            override = overrides_at.get((row, step))
            quantiles = tuple(forecast.quantiles[row, step].tolist())
            changed = replace(
                day,
                open=bool(forecast.open[row, step]),
                quantiles=quantiles,
                override=override.to_published(model.quantiles[row, step].tolist()) if override else None,
                drivers=int(roster.drivers[row, step]) if roster else None,
                roster=roster_at.get((row, step)),
            )
            days.append(replace(changed, change=_updated_change(day, changed, publication.levels)))
        return replace(depot, days=tuple(days))

    depots, summed = tuple(map(update_depot, publication.depots)), publication.totals
    if moved and publication.totals:
        levels = tuple(dict.fromkeys(total.level for total in publication.totals))
        joint = totals.joint_totals(forecast, inputs.panel, levels)
        depots = _with_weeks(publication.depots, depots, rows, joint.depot_weeks)
        summed = tuple(_summed(total, joint.of_groups, forecast.target_dates, moved) for total in publication.totals)
    revised = replace(publication, depots=depots, totals=summed)
    remark = None
    if publication.plans:
        revised, remark = plugin("people.replan").replanned(
            publication, revised, roster, forecast, inputs, now, *by_people
        )
    return revised, remark


def _with_weeks(
    before: Sequence[PublishedDepot], after: Sequence[PublishedDepot], rows: Mapping[str, int], weeks: Doubles
) -> tuple[PublishedDepot, ...]:
    """The depots with quantiles of their weeks where a day's are others; `weeks` are those of the rows."""
    return tuple(
        replace(depot, weeks=weeks[rows[depot.depot_id]].tolist())
        if depot.weeks and [day.quantiles for day in was.days] != [day.quantiles for day in depot.days]
        else depot
        for was, depot in zip(before, after, strict=True)
    )


def _summed(
    total: PublishedTotal, sums: Mapping[totals.Group, Doubles], days: Sequence[date], moved: set[date]
) -> PublishedTotal:
    """The total with quantiles of `sums` (days, then weeks; levels), where it has a day that moved."""
    step, group = days.index(total.target_date), (total.level, total.name)
    if group not in sums or moved.isdisjoint(days[step : step + total.days]):
        return total
    place = step if total.days == 1 else len(days) + step // totals.SEASON
    return replace(total, quantiles=sums[group][place].tolist())


class OverriddenRoster(NamedTuple):
    """The model's forecast, the overrides at its depots and days, the forecast with them, the crews that are
    published, and the roster; None where nobody is rostered."""

    model: Forecast
    overrides_at: dict[tuple[int, int], Override]
    forecast: Forecast
    crews: PublishedCrews | None
    roster: Roster | None


def overridden_roster(
    publication: Publication,
    active: Mapping[Cell, Override],
    inputs: SavedInputs,
    now: datetime,
    told: BindingCrews = NOBODY,
) -> OverriddenRoster:
    """The roster of a publication with these overrides; `told` are crews of the published schedule."""
    model = model_forecast(publication, inputs.panel)
    overrides_at = apply.locate_overrides(model, active, openable_days(publication).__contains__)
    forecast = apply.apply_overrides(model, overrides_at)
    crews = published_crews(publication, forecast, inputs, now, told)
    roster = rosters.roster_for(forecast, inputs.panel, inputs.staffing, crews, inputs.shares)
    return OverriddenRoster(model, overrides_at, forecast, crews, roster)


def published_crews(
    publication: Publication, forecast: Forecast, inputs: SavedInputs, now: datetime, told: BindingCrews = NOBODY
) -> PublishedCrews | None:
    """The crews that the publication shows, where changing them is declared to cost something."""
    if inputs.staffing is None:
        return None
    crews = changes.published_crews(publication.depots, forecast, inputs.staffing, publication.timezone, now)
    zones = {depot.depot_id: depot.timezone for depot in publication.depots if depot.timezone}
    return scheduled_crews(
        crews, told, forecast, inputs.staffing, zones, publication.timezone, noticed(publication, now)
    )


def told_crews(connection: sa.Connection, pipeline: str, staffing: Staffing | None, since: date) -> BindingCrews:
    """Crews of the published schedule from a day on, where a notice is declared, and those set by hand."""
    if staffing is None:
        return NOBODY
    set_crews = accepted_crews.read_set(connection, pipeline, since)
    if staffing.notice_days is None:
        return BindingCrews(by_hand=set_crews)
    return BindingCrews(plugin("notice.schedules").read_told(connection, pipeline, since), set_crews)


def scheduled_crews(
    crews: PublishedCrews | None,
    told: BindingCrews,
    forecast: Forecast,
    staffing: Staffing,
    zones: Mapping[str, str],
    timezone: str,
    now: datetime,
) -> PublishedCrews | None:
    """Published crews, in which those of the schedule come first with the premiums of `now`, and those set by hand
    before them."""
    if told.scheduled:
        crews = plugin("notice").with_schedule(crews, told.scheduled, forecast, staffing, zones, timezone, now)
    return with_set_crews(crews, told.by_hand, forecast, staffing) if told.by_hand else crews


def record_changes(
    connection: sa.Connection, publication: Publication, staffing: Staffing | None, now: datetime
) -> None:
    """Write down each change of the published schedule that a publication makes, with its premium."""
    if staffing is not None and staffing.notice_days is not None:
        schedules = plugin("notice.schedules")
        schedules.record_changes(connection, publication, staffing, noticed=noticed(publication, now), at=now)


def noticed(publication: Publication, now: datetime) -> datetime:
    """The instant from which people have notice: that as of which the publication was made, and the
    time since then."""
    return publication.as_of + (now - publication.published_at)


def model_forecast(publication: Publication, panel: Panel) -> Forecast:
    """The model's forecast of the panel's depots; one that is not shown is closed, and so is a day
    that a planner opened."""
    days = {depot.depot_id: depot.days for depot in publication.depots}
    shape = (len(panel.depot_ids), publication.horizon, len(publication.levels))
    quantiles, open_, openable = np.zeros(shape, np.float32), np.zeros(shape[:2], bool), openable_days(publication)
    for row, depot in enumerate(panel.depot_ids):
        for step, day in enumerate(days.get(depot, ())):
            quantiles[row, step] = day.override.quantiles if day.override else day.quantiles
            open_[row, step] = day.open and not (day.override and (depot, day.target_date) in openable)
    return Forecast(panel.depot_ids, publication.cutoff, panel.target_dates, publication.levels, quantiles, open_)


def openable_days(publication: Publication) -> frozenset[Cell]:
    """The days that are closed for their weekday alone, until a planner opens them."""
    return frozenset(
        (depot.depot_id, day.target_date)
        for depot in publication.depots
        for day in depot.days
        if depot.may_open(day.target_date)
    )


def _published_overrides(publication: Publication) -> dict[Cell, int]:
    """Override that each day shows, by its number."""
    return {
        (d.depot_id, day.target_date): day.override.id for d in publication.depots for day in d.days if day.override
    }


def _expected_overrides(publication: Publication, active: Mapping[Cell, Override]) -> dict[Cell, int]:
    """Override that each day should show."""
    open_ = {(depot.depot_id, day.target_date) for depot in publication.depots for day in depot.days if day.open}
    open_ |= openable_days(publication)
    return {cell: override.id for cell, override in active.items() if cell in open_}


def _days_of_other_crews(publication: Publication, set_crews: Crews) -> set[date]:
    """Days on which a crew set by hand is not the published one, or a published one is set by hand no more."""
    return {
        day.target_date
        for depot in publication.depots
        for day in depot.days
        if day.open and day.roster is not None and day.drivers is not None
        if (crew := set_crews.get((depot.depot_id, day.target_date))) is not None or day.roster.by_hand
        if not day.roster.by_hand or crew is None or crew != _whole_crew(day.drivers, day.roster)
    }


def _whole_crew(drivers: int, roster: PublishedRoster) -> Mapping[str, int]:
    """Drivers by shift, those who are missing too; of a crew that lacks vans those for whom there are vans."""
    missing = dict(roster.missing)
    return {name: count + missing.get(name, 0) for name, count in roster.shifts} or {"": drivers}


def _updated_change(before: PublishedDay, after: PublishedDay, levels: tuple[float, ...]) -> PublishedChange | None:
    """The change of a day whose override is another one now: what else changed it stays."""
    if before.change is None:
        return None
    middle = levels.index(0.5)
    further = round(after.quantiles[middle]) - round(before.quantiles[middle])
    parts = ((name, orders + (further if name == OVERRIDE else 0)) for name, orders in before.change.parts)
    return replace(before.change, parts=tuple(parts))


def _update_rows(
    connection: sa.Connection, head: Head, before: Publication, after: Publication, seal: Seal | None
) -> int:
    """Change the rows that differ; returns how many days of depots."""
    days, sums = tables.published, tables.published_totals
    of_publication = days.c.publication_id == head.publication_id
    of_depot = tables.published_depots.c
    weeks = tables.published_depots.update().where(of_depot.publication_id == head.publication_id)
    changed = 0
    for old, new in zip(before.depots, after.depots, strict=True):
        for was, day in zip(old.days, new.days, strict=True):
            if was != day:
                here = (days.c.depot_id == old.depot_id, days.c.target_date == day.target_date)
                connection.execute(days.update().where(of_publication, *here).values(**records.of_day(day)))
                changed += 1
        if old.weeks != new.weeks:
            connection.execute(weeks.where(of_depot.depot_id == old.depot_id).values(weeks=list(map(list, new.weeks))))
    for old_total, new_total in zip(before.totals, after.totals, strict=True):
        if old_total != new_total:
            key = ((sums.c[name], getattr(old_total, name)) for name in ("level", "name", "target_date", "days"))
            query = sums.update().where(sums.c.publication_id == head.publication_id, *(c == word for c, word in key))
            connection.execute(query.values(quantiles=list(new_total.quantiles)))
    plans = {plan.depot_id: plan for plan in before.plans}
    replanned = [plan for plan in after.plans if plan != plans[plan.depot_id]]
    plan_rows.update(connection, head.publication_id, replanned)
    if changed or replanned:
        publications = tables.publications
        of_publication = publications.c.publication_id == head.publication_id
        connection.execute(publications.update().where(of_publication).values(revised_at=datetime.now(UTC)))
    if changed or replanned or before.totals != after.totals:
        soundness.renew_digest(connection, head.publication_id, seal)
    return changed


def _record_results(connection: sa.Connection, publication: Publication) -> None:
    """Note what the model says under each override that is shown, and what came on the days of
    earlier ones."""
    middle = publication.levels.index(0.5)
    days = [day for depot in publication.depots for day in depot.days]
    model = {day.override.id: day.override.quantiles[middle] for day in days if day.override}
    override_table.record_model_orders(connection, publication.pipeline, {day.target_date for day in days}, model)
    waiting = override_table.unsettled_results(connection, publication.pipeline, publication.cutoff)
    actuals = {(d.depot_id, day.date): day.demand if day.open else None for d in publication.depots for day in d.recent}
    override_table.record_actuals(
        connection, {number: actuals[cell] for number, cell in waiting.items() if cell in actuals}
    )
