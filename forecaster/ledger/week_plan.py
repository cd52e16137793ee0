"""A depot's published plan of the week: the shifts of each person, uncovered shifts, and the cost
of each rule.

People are positions, by name if a people table names them, otherwise numbered within their
contract: "full-time 3". Instants are UTC; a day is a local day of the depot, the one on which the
shift begins.
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

# SEQUENCE of calendars counts seconds from here; 31 bits until 2088
EPOCH = datetime(2020, 1, 1, tzinfo=UTC)
AssignedShifts = tuple[tuple[date, str], ...]  # a person's shifts set by hand, "" for a free day
DepotShifts = Mapping[str, AssignedShifts]  # by person
DepotWishes = Mapping[str, tuple[date, ...]]  # by person: days on which they wish to be free
Rule = Literal[
    "max_shifts_week", "min_rest_hours", "max_days_in_row", "hours_week", "days_off", "per_depot", "spread_weight"
]
# `closed`: no such shift on that day; `rules`: several rules together
ForbiddingRule = Literal[
    "max_shifts_week", "min_rest_hours", "max_days_in_row", "hours_week", "days_off", "cannot_work", "closed", "rules"
]


@dataclass(frozen=True)
class Duty:
    """A shift of one person; `since` is the instant since which it is planned so, by which
    calendars detect a change."""

    date: date
    shift: str
    start: datetime
    end: datetime
    since: datetime
    lost_hours: float = 0.0  # additional hours of the shift that this one replaced

    def __post_init__(self) -> None:
        for name in ("start", "end", "since"):
            object.__setattr__(self, name, getattr(self, name).astimezone(UTC))

    @property
    def hours(self) -> float:
        """Hours between start and end; an hour more or less when clocks are put back or forward."""
        return (self.end - self.start).total_seconds() / 3600


@dataclass(frozen=True)
class Position:
    """One person's week, by the number of the contract; the lists are in date order."""

    name: str
    contract: str
    duties: tuple[Duty, ...]
    # last planned shifts of the days before, which rules take into account
    before: tuple[Duty, ...] = ()
    # planned by an earlier run on days of this plan that are free now
    cancelled: tuple[Duty, ...] = ()
    days_off: tuple[date, ...] = ()  # among this plan's days and those of the week after
    cannot_work: tuple[str, ...] = ()  # names of shifts
    is_named: bool = False  # named in a people table
    assigned: AssignedShifts = ()
    wishes: tuple[date, ...] = ()  # days on which the person wishes to be free, including those of the weeks before
    forbidden_by: ForbiddingRule | None = None  # rule that forbids `assigned`, which is ignored then

    @property
    def declined_wishes(self) -> int:
        """Shifts before the plan on days that the person wished to be free."""
        return sum(duty.date in self.wishes for duty in self.before)

    def key(self, depot_id: str) -> str:
        """Substitute for the name in URLs, which appear in logs."""
        return sha256("\0".join((depot_id, self.name)).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class ShiftCover:
    """Required and planned drivers of a shift of a day; `cost` is the expected cost of missing
    ones."""

    date: date
    shift: str
    start: datetime
    end: datetime
    wanted: int
    planned: int
    cost: float


@dataclass(frozen=True)
class RuleCost:
    """Savings without a rule of a contract; for `days_off`, with nobody off; for `per_depot`, with
    one person more; for `spread_weight`, which belongs to no contract, with neither shifts spread
    nor wishes granted."""

    contract: str
    rule: Rule
    # as declared; for `days_off` their number, for `per_depot` the number of people
    limit: float
    cost: float


@dataclass(frozen=True)
class WeekPlan:
    """The plan of a depot over the days of its publication."""

    depot_id: str
    positions: tuple[Position, ...]
    shifts: tuple[ShiftCover, ...]  # of open days, by day and time
    rules: tuple[RuleCost, ...]  # only rules that cost something, most expensive first
    cost: float  # expected, of uncovered shifts and overtime
    overtime_hours: float
    # upper bound of the distance from the optimum, as a share of the cost; 0: optimal
    gap: float
    # names of the late shifts if weekend and late shifts are spread; otherwise None
    late_shifts: tuple[str, ...] | None = None

    @property
    def missing(self) -> int:
        """Drivers without a planned person, over all shifts."""
        return sum(max(shift.wanted - shift.planned, 0) for shift in self.shifts)

    def nameless(self, person: str | None = None) -> Self:
        """Return the plan with numbers instead of all names, or of one person's, and without their
        personal details."""
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
