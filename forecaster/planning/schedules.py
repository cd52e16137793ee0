"""Published schedules in the ledger: the crews announced to people, and each later change with its
premium.

A row of `schedule_days` publishes a depot's day, or changes a published one; rows are never
deleted, and of a day the newest counts. Any change of a crew, by a run or by a planner's override,
is recorded in the transaction that shows it, so that no change lacks its price. Each function works
on a connection whose transaction the caller holds.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Literal
from zoneinfo import ZoneInfo

import numpy as np
import sqlalchemy as sa

from forecaster.config import Staffing
from forecaster.ledger import tables
from forecaster.ledger.publication import Publication, PublishedDay, PublishedDepot
from forecaster.ledger.week_plan import Duty, WeekPlan
from forecaster.planning.overrides import Cell
from forecaster.plugins import plugin
from forecaster.staffing.changes import WHOLE_DAY
from forecaster.staffing.need import DIGITS, Need
from forecaster.staffing.notice.premiums import NoticePeriod, Premium, ShiftCrews, change_premium

_TABLE = tables.schedule_days
State = Literal["draft", "published", "changed"]


@dataclass(frozen=True)
class ScheduleChange:
    """A change of a published day, or its publication, which has no premium."""

    depot_id: str
    target_date: date
    at: datetime
    by: str
    before: ShiftCrews  # empty for a publication
    crews: ShiftCrews  # drivers by shift; by "" if no shifts are declared
    premium: float | None
    saving: float | None  # expected saving on missing and idle drivers


@dataclass(frozen=True)
class WeekState:
    """State of a week's published schedule."""

    monday: date
    state: State
    days: int  # published depot-days
    drafts: int  # unpublished depot-days
    at: datetime | None  # of the last publication
    by: tuple[str, ...]  # who published it
    depots: int  # number of depots with published days
    changes: int  # total drivers added and removed since; one if only the people of a crew changed
    premium: float  # of these changes


def read_told(connection: sa.Connection, pipeline: str, since: date) -> dict[Cell, ShiftCrews]:
    """Crews last announced to people, by depot and day from `since` on."""
    return {(row.depot_id, row.target_date): row.crews for row in _rows(connection, pipeline, since)}


def read_changes(
    connection: sa.Connection, pipeline: str, since: date, depot_id: str | None = None
) -> list[ScheduleChange]:
    """Publications and changes of days from `since` on, oldest first; of one depot or all."""
    crews: dict[Cell, ShiftCrews] = {}
    changes = []
    for row in _rows(connection, pipeline, since, depot_id):
        cell = row.depot_id, row.target_date
        changes.append(ScheduleChange(*cell, row.at, row.by, crews.get(cell, {}), row.crews, row.premium, row.saving))
        crews[cell] = row.crews
    return changes


def publish_days(
    connection: sa.Connection,
    pipeline: str,
    depots: Iterable[PublishedDepot],
    days: tuple[date, date],
    staffing: Staffing,
    *,
    by: str,
    at: datetime,
) -> int:
    """Publish the shown crews of the depots' days, from the first to the last (idempotent).

    Return the number of new days; a day published before keeps its notice.
    """
    scheduled_crews = read_told(connection, pipeline, days[0])
    rows = [
        _row(pipeline, (depot.depot_id, day.target_date), at, by, _crews(day, staffing))
        for depot in depots
        for day in depot.days
        if days[0] <= day.target_date <= days[1] and (depot.depot_id, day.target_date) not in scheduled_crews
        if day.drivers is not None
    ]
    if rows:
        connection.execute(_TABLE.insert(), rows)
    return len(rows)


def record_changes(
    connection: sa.Connection, publication: Publication, staffing: Staffing, *, noticed: datetime, at: datetime
) -> int:
    """Record differences between the crews of a publication and those announced to people, with
    premiums; return the number of changed days.

    Notice counts from the instant `noticed`; days that are over do not count. If people are
    planned, the premiums are those of their shifts, and a change of people within the same crew is
    a change. `at` is the instant of writing.
    """
    rows_told = _rows(connection, publication.pipeline, publication.cutoff)
    latest_rows = {(row.depot_id, row.target_date): row for row in rows_told}
    plans = {plan.depot_id: plan for plan in publication.plans}
    by_people: frozenset[tuple[str, date, str]] = frozenset()
    if plans and latest_rows:
        by_people = plugin("people.days").read_by_people(connection, publication.pipeline, publication.cutoff)
    rows = []
    for depot in publication.depots if latest_rows else ():
        zone = ZoneInfo(depot.timezone or publication.timezone)
        for day in depot.days:
            cell = depot.depot_id, day.target_date
            if cell not in latest_rows or day.target_date < noticed.astimezone(zone).date():
                continue
            before, after = latest_rows[cell].crews, _crews(day, staffing)
            plan, owed = plans.get(depot.depot_id), _Premiums(staffing, day.target_date, zone, noticed)
            plan = plan if plan and _was_planned(plan, latest_rows[cell].at) else None
            moves = _moves(plan, day.target_date, latest_rows[cell].at, by_people) if plan else []
            if before != after or moves:
                premium = owed.of_people(moves) if plan else owed.of_crews(before, after)
                saving = _cost(before, day, publication, staffing) - _cost(after, day, publication, staffing)
                by = day.override.by if day.override else publication.run_id
                row = _row(publication.pipeline, cell, at, by, after)
                rows.append({**row, "premium": premium, "saving": saving})
    if rows:
        connection.execute(_TABLE.insert(), rows)
    return len(rows)


def first_day(connection: sa.Connection, pipeline: str, since: datetime) -> date | None:
    """The first day published or changed from an instant on; None if there is none."""
    newer = sa.and_(_TABLE.c.pipeline == pipeline, _TABLE.c.at >= since)
    first: date | None = connection.scalar(sa.select(sa.func.min(_TABLE.c.target_date)).where(newer))
    return first


def last_change(connection: sa.Connection, pipeline: str) -> datetime | None:
    """Instant of the last publication or change; None if there was none."""
    at: datetime | None = connection.execute(
        sa.select(sa.func.max(_TABLE.c.at, type_=_TABLE.c.at.type)).where(_TABLE.c.pipeline == pipeline)
    ).scalar()
    return at


def week_states(changes: Iterable[ScheduleChange], cells: Collection[Cell]) -> list[WeekState]:
    """States of the weeks of the depot-days `cells`, from their changes."""
    weeks: dict[date, list[ScheduleChange]] = {_monday(day): [] for _, day in sorted(cells, key=lambda cell: cell[1])}
    for change in changes:
        if (change.depot_id, change.target_date) in cells:
            weeks[_monday(change.target_date)].append(change)
    return [_week_state(monday, of_week, cells) for monday, of_week in weeks.items()]


def drivers_changed(before: ShiftCrews, after: ShiftCrews) -> int:
    """Drivers added plus drivers removed, over all shifts."""
    return sum(abs(after.get(name, 0) - before.get(name, 0)) for name in {*before, *after})


def _week_state(monday: date, changes: list[ScheduleChange], cells: Collection[Cell]) -> WeekState:
    published = [change for change in changes if change.premium is None]
    since = [change for change in changes if change.premium is not None]
    published_cells = {(change.depot_id, change.target_date) for change in published}
    state: State = "draft" if not published else "changed" if since else "published"
    return WeekState(
        monday,
        state,
        len(published_cells),
        sum(1 for cell in cells if _monday(cell[1]) == monday and cell not in published_cells),
        max((change.at for change in published), default=None),
        tuple(sorted({change.by for change in published})),
        len({depot for depot, _ in published_cells}),
        sum(max(drivers_changed(change.before, change.crews), 1) for change in since),
        round(sum(change.premium or 0.0 for change in since), 2),
    )


def _monday(day: date) -> date:
    return day - timedelta(days=day.weekday())


def _crews(day: PublishedDay, staffing: Staffing) -> dict[str, int]:
    """Wanted crew of each shift, including drivers for whom the week's plan has nobody."""
    none = {shift.name: 0 for shift in staffing.shifts} or {WHOLE_DAY: 0}
    if not day.open:
        return none
    if day.roster is None:
        return none if staffing.shifts else {WHOLE_DAY: day.drivers or 0}
    missing = dict(day.roster.missing)
    shifts = {name: crew + missing.get(name, 0) for name, crew in day.roster.shifts}
    return shifts or {WHOLE_DAY: (day.drivers or 0) + day.roster.missing_drivers}


def _row(pipeline: str, cell: Cell, at: datetime, by: str, crews: ShiftCrews) -> dict[str, object]:
    values = {"pipeline": pipeline, "depot_id": cell[0], "target_date": cell[1], "at": at, "by": by}
    return {**values, "crews": dict(crews), "premium": None, "saving": None}


def _rows(
    connection: sa.Connection, pipeline: str, since: date, depot_id: str | None = None
) -> Iterator[sa.Row[tuple[object, ...]]]:
    query = sa.select(_TABLE).where(_TABLE.c.pipeline == pipeline, _TABLE.c.target_date >= since)
    if depot_id is not None:
        query = query.where(_TABLE.c.depot_id == depot_id)
    yield from connection.execute(query.order_by(_TABLE.c.at, _TABLE.c.target_date, _TABLE.c.depot_id))


def _was_planned(plan: WeekPlan, at: datetime) -> bool:
    """Return true if people were planned at an instant: in a depot's first plan, nobody's shift has
    changed."""
    return any(duty.since <= at for who in plan.positions for duty in (*who.before, *who.duties, *who.cancelled))


def _moves(
    plan: WeekPlan, day: date, since: datetime, by_people: Collection[tuple[str, date, str]]
) -> list[tuple[Duty, bool]]:
    """People's shifts added or moved after an instant, and those cancelled, marked by the second
    value."""
    moves = []
    for who in plan.positions:
        if (plan.depot_id, day, who.name) not in by_people:
            moves += [(duty, False) for duty in who.duties if duty.date == day and duty.since > since]
            moves += [(duty, True) for duty in who.cancelled if duty.date == day and duty.since > since]
    return moves


@dataclass(frozen=True)
class _Premiums:
    """Premiums for changes of a depot's day at an instant."""

    staffing: Staffing
    day: date
    zone: ZoneInfo
    noticed: datetime

    def of_crews(self, before: ShiftCrews, after: ShiftCrews) -> float:
        """Premiums of drivers added and removed, if no people are planned."""
        total = 0.0
        for name in sorted({*before, *after}):
            further = after.get(name, 0) - before.get(name, 0)
            premium = self._of(name)
            total += premium.added * max(further, 0) + premium.removed * max(-further, 0)
        return round(total, 2)

    def of_people(self, moves: Iterable[tuple[Duty, bool]]) -> float:
        """Premiums of people's shifts that are cancelled, added, or replace another one."""
        total = 0.0
        for duty, is_cancelled in moves:
            premium = self._of(duty.shift, duty.lost_hours if not is_cancelled else None)
            total += premium.removed if is_cancelled or duty.lost_hours > 0 else premium.added
        return round(total, 2)

    def _of(self, name: str, lost_hours: float | None = None) -> Premium:
        shift = next((shift for shift in self.staffing.shifts if shift.name == name), None)
        hours = lost_hours or (shift.minutes / 60 if shift else self.staffing.shift_hours)
        start = shift.starts if shift else datetime.min.time()
        return change_premium(self.staffing, NoticePeriod.of(self.noticed, self.day, start, self.zone), hours)


def _cost(crews: ShiftCrews, day: PublishedDay, publication: Publication, staffing: Staffing) -> float:
    """Expected cost of missing and idle drivers with these crews."""
    day_need = Need.of(np.array(day.quantiles), publication.levels, staffing.orders_per_driver)
    learned = day.roster.shares if day.roster else None
    shares: Mapping[str, float] = dict(learned.shares) if learned else _declared(staffing)
    if not shares or set(crews) != set(shares):
        return float(day_need.cost(np.asarray(sum(crews.values()), np.int32), staffing))
    needs = {name: Need(np.round(day_need.knots * share, DIGITS), day_need.levels) for name, share in shares.items()}
    return sum(float(needs[name].cost(np.asarray(crew, np.int32), staffing)) for name, crew in crews.items())


def _declared(staffing: Staffing) -> dict[str, float]:
    """Declared shares of shifts, summing to 1; empty if they are learned or there are no shifts."""
    if not staffing.shifts or staffing.learns_shares:
        return {}
    total = sum(shift.declared_share for shift in staffing.shifts)
    return {shift.name: shift.declared_share / total for shift in staffing.shifts}
