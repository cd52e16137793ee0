"""A depot's plan of the week, as it is published: who works which shift, what is uncovered, what
each rule costs.

People are positions, by their names where a table names them, else numbered within their contract:
"full-time 3". Instants are UTC; a day is a local day of the depot, the one on which the shift
begins.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cache
from hashlib import sha256
from typing import Any, Literal, Self

from pydantic import TypeAdapter

# from which SEQUENCE of calendars counts seconds; 31 bits until 2088
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
AssignedShifts = tuple[tuple[date, str], ...]  # a person's shifts set by hand, "" for a free day
DepotShifts = Mapping[str, AssignedShifts]  # by person
DepotWishes = Mapping[str, tuple[date, ...]]  # by person: days on which they wish to be free
Rule = Literal[
    "max_shifts_week", "min_rest_hours", "max_days_in_row", "hours_week", "days_off", "per_depot", "spread_weight"
]
# `closed`: the day has no such shift; `rules`: several rules together
ForbiddingRule = Literal[
    "max_shifts_week", "min_rest_hours", "max_days_in_row", "hours_week", "days_off", "cannot_work", "closed", "rules"
]


@dataclass(frozen=True)
class Duty:
    """A shift of one person; `since`: as of when it is planned so, by which calendars know that it
    changed."""

    date: date
    shift: str
    start: datetime
    end: datetime
    since: datetime
    lost_hours: float = 0.0  # hours of the shift that it took the place of, beyond its own

    def __post_init__(self) -> None:
        for name in ("start", "end", "since"):
            object.__setattr__(self, name, getattr(self, name).astimezone(UTC))

    @property
    def hours(self) -> float:
        """Hours between start and end, an hour more or less where clocks are put back or
        forward."""
        return (self.end - self.start).total_seconds() / 3600


@dataclass(frozen=True)
class Position:
    """One person's week, by the number of the contract; the lists rise by day."""

    name: str
    contract: str
    duties: tuple[Duty, ...]
    # of the days before, as they were planned last; rules look back at them
    before: tuple[Duty, ...] = ()
    # planned by an earlier night for a day of this plan that is free now
    cancelled: tuple[Duty, ...] = ()
    days_off: tuple[date, ...] = ()  # of this plan's days and those of the week after
    cannot_work: tuple[str, ...] = ()  # names of shifts
    is_named: bool = False  # whether a table of people names it
    assigned: AssignedShifts = ()
    wishes: tuple[date, ...] = ()  # days on which the person wishes to be free, those of the weeks before too
    forbidden_by: ForbiddingRule | None = None  # rule by which they cannot hold; they are not followed then

    @property
    def declined_wishes(self) -> int:
        """Shifts before the plan on days that the person wished to be free."""
        return sum(duty.date in self.wishes for duty in self.before)

    def key(self, depot_id: str) -> str:
        """Substitute for the name in addresses, which appear in logs."""
        return sha256("\0".join((depot_id, self.name)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ShiftCover:
    """Required and actual drivers of a shift of a day; `cost` is expected, of those that are
    missing."""

    date: date
    shift: str
    start: datetime
    end: datetime
    wanted: int
    planned: int
    cost: float


@dataclass(frozen=True)
class RuleCost:
    """Savings without a rule of a contract; of `days_off`, with nobody off; of `per_depot`, with
    one person more; of `spread_weight`, which is of no contract, with neither shifts spread nor wishes granted."""

    contract: str
    rule: Rule
    # as declared; of `days_off` how many there are, of `per_depot` the number of people
    limit: float
    cost: float


@dataclass(frozen=True)
class WeekPlan:
    """The plan of a depot over the days of its publication."""

    depot_id: str
    positions: tuple[Position, ...]
    shifts: tuple[ShiftCover, ...]  # of open days, by day and time
    rules: tuple[RuleCost, ...]  # those that cost something, the dearest first
    cost: float  # expected, of what is uncovered, and of overtime
    overtime_hours: float
    # how far this cost may lie above the least one, as a share of it; 0: it is the least
    gap: float
    late_shifts: tuple[str, ...] | None = None  # where weekend and late shifts are spread: names of the late ones

    @property
    def missing(self) -> int:
        """Drivers that no one is planned for, over all shifts."""
        return sum(max(shift.wanted - shift.planned, 0) for shift in self.shifts)

    def nameless(self, person: str | None = None) -> Self:
        """With numbers in the place of names, or of one person's, and without days off."""
        numbers: Counter[str] = Counter()
        positions = []
        for position in self.positions:
            numbers[position.contract] += position.is_named
            if position.is_named and person in (None, position.name):
                name = f"{position.contract}, {numbers[position.contract]}"
                position = replace(
                    position,
                    name=name,
                    days_off=(),
                    cannot_work=(),
                    is_named=False,
                    assigned=(),
                    wishes=(),
                    forbidden_by=None,
                )
            positions.append(position)
        return replace(self, positions=tuple(positions))

    @classmethod
    def from_json(cls, content: Any) -> Self:
        plan: Self = _adapter().validate_python(content)
        return plan

    def to_json(self) -> dict[str, Any]:
        content: dict[str, Any] = _adapter().dump_python(self, mode="json")
        return content


@cache
def _adapter() -> TypeAdapter[Any]:
    return TypeAdapter(WeekPlan)
