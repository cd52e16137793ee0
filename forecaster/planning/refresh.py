"""Refresh the current publication: apply the overrides in force, and record the numbers that they
replace.

Saving an override changes the rows of the shown publication, instead of being applied by each
reader: the network's page, the depot's, the API and all other readers of the ledger then agree, and
none needs to know about overrides. Rosters, since vans are shared, and totals are recomputed for
the changed days. All this is one transaction, which also writes the instant of revision, by which
readers notice the change.
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

OVERRIDE = "override"  # the part of a change that is due to planners
Crews = Mapping[Cell, Mapping[str, int]]  # drivers by shift of a depot's day


@dataclass(frozen=True)
class BindingCrews:
    """Crews that a plan keeps: the published schedule's, for their premiums, and those set by hand
    in any case."""

    scheduled: Crews = field(default_factory=dict)
    by_hand: Crews = field(default_factory=dict)


NOBODY = BindingCrews()


@dataclass(frozen=True)
class RefreshOutcome:
    """Outcome of a refresh; `trouble` is why it failed, `remark` what else was left unchanged."""

    days: int
    trouble: DeskError | None = None
    remark: str | None = None

    def later(self, for_readers: bool) -> str:
        """Addition to a sentence about a change that is not shown, or only in part; empty if it is."""
        if self.trouble is None:
            return f"; {self.remark}" if self.remark else ""
        why = _(self.trouble.for_readers) if for_readers else self.trouble
        return _("; from the next publication on, since {why}", why=why)


def refresh(ledger: Ledger, pipeline: str, paths: StatePaths) -> RefreshOutcome:
    """Refresh the shown publication in a transaction of its own.

    `paths` locate its inputs and the sealing key. Raises LedgerError if the ledger is not writable.
    """
    with ledger.transaction() as connection:
        return refresh_within(connection, pipeline, paths)


def refresh_within(
    connection: sa.Connection, pipeline: str, paths: StatePaths, head: Head | None = None
) -> RefreshOutcome:
    """Refresh a publication, by default the shown one, in the caller's transaction (idempotent).

    Do nothing if none is shown, or if planners and people have never decided anything.
    """
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
            binding = told_crews(connection, pipeline, inputs.staffing, publication.cutoff)
            revised, remark = with_overrides(publication, active, inputs, datetime.now(UTC), binding, by_people)
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
    binding: BindingCrews = NOBODY,
    by_people: tuple[Any, Any] = ({}, {}),
) -> tuple[Publication, str | None]:
    """Return the publication as if made with exactly these overrides, and a remark on what could
    not be done. Crews whose change is not worth its cost stay. `binding` are crews of the published
    schedule, `by_people` people's shifts set by hand, and their wishes."""
    model, overrides_at, forecast, crews, roster = overridden_roster(publication, active, inputs, now, binding)
    roster_at = rosters.published_rosters(roster, forecast, crews, now) if roster else {}
    # Vans are shared: if one override of a day changes, the day is recomputed for all depots.
    expected, current = _expected_overrides(publication, active), _published_overrides(publication)
    moved = {cell[1] for cell in expected.keys() | current.keys() if expected.get(cell) != current.get(cell)}
    moved |= _days_of_other_crews(publication, binding.by_hand)
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
    """Update the weeks' quantiles of depots with changed days; `weeks` is indexed by row."""
    return tuple(
        replace(depot, weeks=weeks[rows[depot.depot_id]].tolist())
        if depot.weeks and [day.quantiles for day in was.days] != [day.quantiles for day in depot.days]
        else depot
        for was, depot in zip(before, after, strict=True)
    )


def _summed(
    total: PublishedTotal, sums: Mapping[totals.Group, Doubles], days: Sequence[date], moved: set[date]
) -> PublishedTotal:
    """Update a total that includes a changed day from `sums` (days, then weeks; quantile levels)."""
    step, group = days.index(total.target_date), (total.level, total.name)
    if group not in sums or moved.isdisjoint(days[step : step + total.days]):
        return total
    place = step if total.days == 1 else len(days) + step // totals.SEASON
    return replace(total, quantiles=sums[group][place].tolist())


class OverriddenRoster(NamedTuple):
    """The model's forecast, the overrides by depot and day, the forecast with them, the published
    crews, and the roster; None without staffing."""

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
    binding: BindingCrews = NOBODY,
) -> OverriddenRoster:
    """Roster of a publication with these overrides; `binding` are the published schedule's crews."""
    model = model_forecast(publication, inputs.panel)
    overrides_at = apply.locate_overrides(model, active, openable_days(publication).__contains__)
    forecast = apply.apply_overrides(model, overrides_at)
    crews = published_crews(publication, forecast, inputs, now, binding)
    roster = rosters.roster_for(forecast, inputs.panel, inputs.staffing, crews, inputs.shares)
    return OverriddenRoster(model, overrides_at, forecast, crews, roster)


def published_crews(
    publication: Publication, forecast: Forecast, inputs: SavedInputs, now: datetime, binding: BindingCrews = NOBODY
) -> PublishedCrews | None:
    """Crews shown by the publication, if changing them is declared to cost something."""
    if inputs.staffing is None:
        return None
    crews = changes.published_crews(publication.depots, forecast, inputs.staffing, publication.timezone, now)
    zones = {depot.depot_id: depot.timezone for depot in publication.depots if depot.timezone}
    return scheduled_crews(
        crews, binding, forecast, inputs.staffing, zones, publication.timezone, noticed(publication, now)
    )


def told_crews(connection: sa.Connection, pipeline: str, staffing: Staffing | None, since: date) -> BindingCrews:
    """Crews of the published schedule from a day on, if a notice is declared, and those set by
    hand."""
    if staffing is None:
        return NOBODY
    set_crews = accepted_crews.read_set(connection, pipeline, since)
    if staffing.notice_days is None:
        return BindingCrews(by_hand=set_crews)
    return BindingCrews(plugin("notice.schedules").read_told(connection, pipeline, since), set_crews)


def scheduled_crews(
    crews: PublishedCrews | None,
    binding: BindingCrews,
    forecast: Forecast,
    staffing: Staffing,
    zones: Mapping[str, str],
    timezone: str,
    now: datetime,
) -> PublishedCrews | None:
    """Published crews, replaced by those of the schedule with the premiums of `now`, and those by
    crews set by hand."""
    if binding.scheduled:
        crews = plugin("notice").with_schedule(crews, binding.scheduled, forecast, staffing, zones, timezone, now)
    return with_set_crews(crews, binding.by_hand, forecast, staffing) if binding.by_hand else crews


def record_changes(
    connection: sa.Connection, publication: Publication, staffing: Staffing | None, now: datetime
) -> None:
    """Record each change that a publication makes to the published schedule, and its premium."""
    if staffing is not None and staffing.notice_days is not None:
        schedules = plugin("notice.schedules")
        schedules.record_changes(connection, publication, staffing, noticed=noticed(publication, now), at=now)


def noticed(publication: Publication, now: datetime) -> datetime:
    """Instant from which notice counts: the publication's `as_of`, plus the time since it was
    published."""
    return publication.as_of + (now - publication.published_at)


def model_forecast(publication: Publication, panel: Panel) -> Forecast:
    """The model's forecast of the panel's depots. Depots that are not shown are closed, as are days
    opened by a planner."""
    days = {depot.depot_id: depot.days for depot in publication.depots}
    shape = (len(panel.depot_ids), publication.horizon, len(publication.levels))
    quantiles, open_, openable = np.zeros(shape, np.float32), np.zeros(shape[:2], bool), openable_days(publication)
    for row, depot in enumerate(panel.depot_ids):
        for step, day in enumerate(days.get(depot, ())):
            quantiles[row, step] = day.override.quantiles if day.override else day.quantiles
            open_[row, step] = day.open and not (day.override and (depot, day.target_date) in openable)
    return Forecast(panel.depot_ids, publication.cutoff, panel.target_dates, publication.levels, quantiles, open_)


def openable_days(publication: Publication) -> frozenset[Cell]:
    """Days closed only for their weekday, which planners may open."""
    return frozenset(
        (depot.depot_id, day.target_date)
        for depot in publication.depots
        for day in depot.days
        if depot.may_open(day.target_date)
    )


def _published_overrides(publication: Publication) -> dict[Cell, int]:
    """Id of the override that each day shows."""
    return {
        (d.depot_id, day.target_date): day.override.id for d in publication.depots for day in d.days if day.override
    }


def _expected_overrides(publication: Publication, active: Mapping[Cell, Override]) -> dict[Cell, int]:
    """Id of the override that each day should show."""
    open_ = {(depot.depot_id, day.target_date) for depot in publication.depots for day in depot.days if day.open}
    open_ |= openable_days(publication)
    return {cell: override.id for cell, override in active.items() if cell in open_}


def _days_of_other_crews(publication: Publication, set_crews: Crews) -> set[date]:
    """Days on which the published crew and the crew set by hand differ, or a published one is no
    longer set by hand."""
    return {
        day.target_date
        for depot in publication.depots
        for day in depot.days
        if day.open and day.roster is not None and day.drivers is not None
        if (crew := set_crews.get((depot.depot_id, day.target_date))) is not None or day.roster.by_hand
        if not day.roster.by_hand or crew is None or crew != _whole_crew(day.drivers, day.roster)
    }


def _whole_crew(drivers: int, roster: PublishedRoster) -> Mapping[str, int]:
    """Drivers by shift, including missing ones; if vans are short, only drivers with a van."""
    missing = dict(roster.missing)
    return {name: count + missing.get(name, 0) for name, count in roster.shifts} or {"": drivers}


def _updated_change(before: PublishedDay, after: PublishedDay, levels: tuple[float, ...]) -> PublishedChange | None:
    """Explanation of a day's change after a new override: the other parts stay."""
    if before.change is None:
        return None
    middle = levels.index(0.5)
    further = round(after.quantiles[middle]) - round(before.quantiles[middle])
    parts = ((name, orders + (further if name == OVERRIDE else 0)) for name, orders in before.change.parts)
    return replace(before.change, parts=tuple(parts))


def _update_rows(
    connection: sa.Connection, head: Head, before: Publication, after: Publication, seal: Seal | None
) -> int:
    """Update the rows that differ; return the number of changed depot-days."""
    days, sums = tables.published, tables.published_totals
    of_publication = days.c.publication_id == head.publication_id
    of_depot = tables.published_depots.c
    weeks = tables.published_depots.update().where(of_depot.publication_id == head.publication_id)
    changed = 0
    for old, new in zip(before.depots, after.depots, strict=True):
        for was, day in zip(old.days, new.days, strict=True):
            if was != day:
                filters = (days.c.depot_id == old.depot_id, days.c.target_date == day.target_date)
                connection.execute(days.update().where(of_publication, *filters).values(**records.of_day(day)))
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
        soundness.write_digest(connection, head.publication_id, seal)
    return changed


def _record_results(connection: sa.Connection, publication: Publication) -> None:
    """Record the model's number under each shown override, and the actuals on the days of earlier
    ones."""
    middle = publication.levels.index(0.5)
    days = [day for depot in publication.depots for day in depot.days]
    model = {day.override.id: day.override.quantiles[middle] for day in days if day.override}
    override_table.record_model_orders(connection, publication.pipeline, {day.target_date for day in days}, model)
    waiting = override_table.unsettled_results(connection, publication.pipeline, publication.cutoff)
    actuals = {(d.depot_id, day.date): day.demand if day.open else None for d in publication.depots for day in d.recent}
    override_table.record_actuals(
        connection, {number: actuals[cell] for number, cell in waiting.items() if cell in actuals}
    )
