"""What-if scenarios: what may be supposed of a depot's day, and what the answer says; `what_if`
makes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

ORDERS, PERCENT, CLOSED, OPEN = "orders", "percent", "closed", "open"
# every other kind is a covariate of the model: a promotion, an event
BUILT_IN = (ORDERS, PERCENT, CLOSED, OPEN)
WITHOUT_VALUE = (CLOSED, OPEN)  # kinds that say all by themselves


@dataclass(frozen=True)
class Supposition:
    """One thing that may be otherwise on a depot's day; `value` is a number of orders, of per cent
    more than the model says, or of a covariate, mostly 1. It may be so at further depots, and up to
    a last day."""

    depot_id: str
    target_date: date
    kind: str
    value: float = 1.0
    others: tuple[str, ...] = ()  # depots next to the first
    last: date | None = None  # None: the day alone

    @property
    def depot_ids(self) -> tuple[str, ...]:
        """All depots of it, each once, the first first."""
        return tuple(dict.fromkeys((self.depot_id, *self.others)))


@dataclass(frozen=True)
class Side:
    """A depot's day, as it is published or would be; money is what the crew is expected to cost in
    missing and idle drivers, of this depot and of all that day whose numbers the reader sees."""

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
    """One day of the question: orders and drivers of the supposed depots together, and what all
    depots are expected to cost whose numbers the reader sees, before and after. The orders are a
    sum of medians."""

    target_date: date
    orders_before: float
    orders_after: float
    drivers_before: int | None
    drivers_after: int | None
    cost_before: float | None
    cost_after: float | None


@dataclass(frozen=True)
class MovedVans:
    """A depot that has other vans on a day than are published, among those that the reader sees."""

    target_date: date
    depot_id: str
    before: int
    after: int


@dataclass(frozen=True)
class WhatIfAnswer:
    """A depot's day before and after; `week` are its orders on all days ahead, before and after,
    since one day may move another; `days` are the days of the question, and `moved_vans` which
    depots lose or win a van by it."""

    supposed: Supposition
    before: Side
    after: Side
    week: tuple[tuple[date, float, float], ...]
    overridden: int | None  # an override that holds on this day on both sides
    days: tuple[SupposedDay, ...] = ()
    moved_vans: tuple[MovedVans, ...] = ()
    closed: int = 0  # days of the question that are closed, and left so
