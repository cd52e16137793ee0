"""What-if scenarios: what may be supposed of a depot's day, and what the answer says; `what_if` makes it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

ORDERS, CLOSED, OPEN = "orders", "closed", "open"
BUILT_IN = (ORDERS, CLOSED, OPEN)  # every other kind is a covariate of the model: a promotion, an event


@dataclass(frozen=True)
class Supposition:
    """One thing that may be otherwise on a depot's day; `value` is a number of orders, or of a covariate, mostly 1."""

    depot_id: str
    target_date: date
    kind: str
    value: float = 1.0


@dataclass(frozen=True)
class Side:
    """A depot's day, as it is published or would be; money is what the crew is expected to cost in missing and idle
    drivers, of this depot and of all that day whose numbers the reader sees."""

    open: bool
    low: float
    orders: float
    high: float
    drivers: int | None
    vans: int | None
    cost: float | None
    cost_of_all: float | None


@dataclass(frozen=True)
class WhatIfAnswer:
    """A depot's day before and after; `week` are its orders on all days ahead, before and after, since one day may move
    another."""

    supposed: Supposition
    before: Side
    after: Side
    week: tuple[tuple[date, float, float], ...]
    overridden: int | None  # an override that holds on this day on both sides
