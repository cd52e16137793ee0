"""What-if scenarios: possible suppositions about a depot's day, and the form of the answer;
`what_if` computes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

ORDERS, PERCENT, CLOSED, OPEN = "orders", "percent", "closed", "open"
# every other kind is a covariate of the model, e.g. a promotion or an event
BUILT_IN = (ORDERS, PERCENT, CLOSED, OPEN)
WITHOUT_VALUE = (CLOSED, OPEN)  # kinds without a value


@dataclass(frozen=True)
class Supposition:
    """One supposed change on a depot's day, optionally also at other depots and up to a last day.

    `value` is a number of orders, a percentage above the model's, or a covariate's value, mostly 1.
    """

    depot_id: str
    target_date: date
    kind: str
    value: float = 1.0
    others: tuple[str, ...] = ()  # further depots
    last: date | None = None  # None: only this day

    @property
    def depot_ids(self) -> tuple[str, ...]:
        """All its depots without duplicates, the first one first."""
        return tuple(dict.fromkeys((self.depot_id, *self.others)))


@dataclass(frozen=True)
class Side:
    """A depot's day, as published or supposed.

    Costs are expected costs of missing and idle drivers, of this depot, and of all depots whose
    numbers the reader may see.
    """

    open: bool
    low: float
    orders: float
    high: float
    drivers: int | None
    vans: int | None
    cost: float | None
    cost_of_all: float | None


@dataclass(frozen=True)
class SupposedDay:
    """One day of the question: orders and drivers of its depots together, and the expected cost of
    all depots whose numbers the reader may see, before and after. Orders are a sum of medians."""

    target_date: date
    orders_before: float
    orders_after: float
    drivers_before: int | None
    drivers_after: int | None
    cost_before: float | None
    cost_after: float | None


@dataclass(frozen=True)
class MovedVans:
    """A depot with other vans on a day than published, among those that the reader may see."""

    target_date: date
    depot_id: str
    before: int
    after: int


@dataclass(frozen=True)
class WhatIfAnswer:
    """A depot's day before and after.

    `week` holds its orders on all forecast days, before and after, since one day may affect others;
    `days` are the days of the question, and `moved_vans` the depots that lose or gain vans.
    """

    supposed: Supposition
    before: Side
    after: Side
    week: tuple[tuple[date, float, float], ...]
    overridden: int | None  # override in force on this day on both sides
    days: tuple[SupposedDay, ...] = ()
    moved_vans: tuple[MovedVans, ...] = ()
    closed: int = 0  # days of the question that stay closed
