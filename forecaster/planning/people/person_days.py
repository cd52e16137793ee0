"""People's shifts in the ledger: those set by planners, and people's answers to theirs.

Of a person's day the newest binding row counts: an assignment, a refusal, or a swap between two
people; the plan of the week follows it (`WeekTask.assigned`). Rows are deleted when a person is
forgotten, and together with old names. Each function works on a connection whose transaction the
caller holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

import sqlalchemy as sa

from forecaster.ledger import tables
from forecaster.ledger.week_plan import AssignedShifts, DepotShifts, DepotWishes
from forecaster.planning.overrides import Cell

_TABLE = tables.person_days
Kind = Literal["assigned", "declined", "swapped", "confirmed", "offered", "wished"]
BINDING = ("assigned", "declined", "swapped")
ANSWERS = ("declined", "confirmed", "offered")
BY_PEOPLE = ("declined", "swapped")  # decided by people themselves
WISHED = ("wished",)  # a free day, granted by the plan if that costs little
WISH_DAYS = timedelta(days=56)  # period in which a declined wish counts
Assigned = Mapping[str, DepotShifts]  # by depot
Wishes = Mapping[str, DepotWishes]  # by depot


@dataclass(frozen=True)
class PersonDay:
    """A person's day as set or answered; the `shift` "" is a free day."""

    depot_id: str
    target_date: date
    person: str
    shift: str
    kind: Kind
    by: str
    at: datetime

    @property
    def assigned(self) -> str:
        """The shift that binds the plan; "" if the person declined."""
        return "" if self.kind == "declined" else self.shift

    def confirms(self, shift: str | None) -> bool:
        """Return true if the person confirmed this shift, which may have changed since."""
        return (self.kind, self.shift) == ("confirmed", shift)

    def offers(self, shift: str | None) -> bool:
        """Return true if the person offers this shift to others; it may have changed since."""
        return (self.kind, self.shift) == ("offered", shift)


Answers = Mapping[tuple[date, str], PersonDay]  # by day and person


def write(connection: sa.Connection, pipeline: str, rows: Iterable[PersonDay]) -> int:
    """Insert rows (idempotent), and return the number of rows that change something."""
    new = []
    for row in rows:
        newest = _newest(connection, pipeline, row.target_date, row.depot_id, _same_kinds(row.kind))
        before = newest.get((row.depot_id, row.target_date, row.person))
        if before is None or (before.kind, before.shift) != (row.kind, row.shift):
            new.append({"pipeline": pipeline, **vars(row)})
    if new:
        connection.execute(_TABLE.insert(), new)
    return len(new)


def answer(connection: sa.Connection, pipeline: str, row: PersonDay) -> bool:
    """Replace a person's earlier answer with a new one; False if it is the same."""
    newest = read_answers(connection, pipeline, row.target_date, row.depot_id).get((row.target_date, row.person))
    if newest is not None and (newest.kind, newest.shift) == (row.kind, row.shift):
        return False
    withdraw(connection, pipeline, (row.depot_id, row.target_date), row.person, row.at, ANSWERS)
    return write(connection, pipeline, [row]) > 0


def withdraw(
    connection: sa.Connection, pipeline: str, cell: Cell, person: str, at: datetime, kinds: tuple[str, ...] = BINDING
) -> int:
    """Withdraw the binding rows of a person's day, or rows of other kinds, and return their number."""
    row = _TABLE.c
    filters = (row.pipeline == pipeline, row.depot_id == cell[0], row.target_date == cell[1], row.person == person)
    change = _TABLE.update().where(*filters, row.kind.in_(kinds), row.withdrawn_at.is_(None))
    return connection.execute(change.values(withdrawn_at=at)).rowcount


def read_decisions(connection: sa.Connection, pipeline: str, since: date) -> tuple[Assigned, Wishes]:
    """Binding shifts from a day on, "" for a free day; and wishes, including those of the
    `WISH_DAYS` before."""
    return _read_assigned(connection, pipeline, since), _read_wishes(connection, pipeline, since)


def _read_assigned(connection: sa.Connection, pipeline: str, since: date) -> Assigned:
    shifts: dict[str, dict[str, AssignedShifts]] = {}
    for row in sorted(_newest(connection, pipeline, since).values(), key=lambda row: row.target_date):
        of_depot = shifts.setdefault(row.depot_id, {})
        of_depot[row.person] = (*of_depot.get(row.person, ()), (row.target_date, row.assigned))
    return shifts


def _read_wishes(connection: sa.Connection, pipeline: str, since: date) -> Wishes:
    wishes: dict[str, dict[str, tuple[date, ...]]] = {}
    for depot_id, day, person in sorted(_newest(connection, pipeline, since - WISH_DAYS, kinds=WISHED)):
        of_depot = wishes.setdefault(depot_id, {})
        of_depot[person] = (*of_depot.get(person, ()), day)
    return wishes


def read_answers(
    connection: sa.Connection, pipeline: str, since: date, depot_id: str
) -> dict[tuple[date, str], PersonDay]:
    """Newest row of each day and person of a depot from a day on, of any kind but wishes."""
    kinds = (*BINDING, "confirmed", "offered")
    newest = _newest(connection, pipeline, since, depot_id, kinds)
    return {(day, person): row for (_, day, person), row in newest.items()}


def read_by_people(connection: sa.Connection, pipeline: str, since: date) -> frozenset[tuple[str, date, str]]:
    """Depot, day and person of people's own decisions from a day on, for which no premium is owed."""
    newest = _newest(connection, pipeline, since)
    return frozenset(key for key, row in newest.items() if row.kind in BY_PEOPLE)


def read_last_edit(
    connection: sa.Connection, pipeline: str, since: date, depot_id: str
) -> list[tuple[PersonDay, PersonDay | None]]:
    """Rows of a planner's last edit of a depot from a day on, each with the binding row before it.

    Rows answered by the person since are left out.
    """
    rows = _rows(connection, pipeline, since, depot_id, BINDING)
    newest = {(row.target_date, row.person): row for row in rows}
    edits = [row for row in newest.values() if row.kind == "assigned"]
    edits.sort(key=lambda row: row.at)
    last = [row for row in edits if row.at == edits[-1].at]

    def before(row: sa.Row[Any]) -> PersonDay | None:
        same = [edit for edit in rows if (edit.target_date, edit.person) == (row.target_date, row.person)]
        earlier = [edit for edit in same if edit.at < row.at]
        return _person_day(earlier[-1]) if earlier else None

    return [(_person_day(row), before(row)) for row in last]


def last_change(connection: sa.Connection, pipeline: str) -> datetime | None:
    """Instant of the last row or withdrawal; None if there was none."""
    row = _TABLE.c
    query = sa.select(sa.func.max(row.at), sa.func.max(row.withdrawn_at)).where(row.pipeline == pipeline)
    return max((at for at in connection.execute(query).one() if at is not None), default=None)


def _same_kinds(kind: Kind) -> tuple[str, ...]:
    return BINDING if kind in BINDING else (kind,)


def _newest(
    connection: sa.Connection,
    pipeline: str,
    since: date,
    depot_id: str | None = None,
    kinds: tuple[str, ...] = BINDING,
) -> dict[tuple[str, date, str], PersonDay]:
    """The newest row of each depot, day and person that was not withdrawn."""
    rows = _rows(connection, pipeline, since, depot_id, kinds)
    return {(row.depot_id, row.target_date, row.person): _person_day(row) for row in rows}


def _rows(
    connection: sa.Connection, pipeline: str, since: date, depot_id: str | None, kinds: tuple[str, ...]
) -> Sequence[sa.Row[Any]]:
    """Rows from a day on that were not withdrawn, oldest first."""
    row = _TABLE.c
    filters = (row.pipeline == pipeline, row.target_date >= since, row.kind.in_(kinds), row.withdrawn_at.is_(None))
    query = sa.select(_TABLE).where(*filters)
    if depot_id is not None:
        query = query.where(row.depot_id == depot_id)
    return connection.execute(query.order_by(row.at)).all()


def _person_day(row: sa.Row[Any]) -> PersonDay:
    return PersonDay(**{name: getattr(row, name) for name in PersonDay.__dataclass_fields__})
