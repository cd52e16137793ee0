"""The days ahead in two parts: two weeks at a glance, and the rest by week, each of which opens its
days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Generic, TypeVar

from dashboards.ops.formatting import display

GLANCE = 14  # days that are shown one by one
WEEK = 7
Line = TypeVar("Line")


@dataclass(frozen=True)
class FarWeek(Generic[Line]):
    """Seven days, or as many as are left: the sum of their medians, without a range, as ranges do
    not add up."""

    days: str
    orders: str  # in words
    number: str  # the same without them
    meant: bool  # whether the day in front is among them
    lines: tuple[Line, ...]


def far_weeks(
    days: Sequence[date], medians: Sequence[float], lines: Sequence[Line], meant: int
) -> tuple[FarWeek[Line], ...]:
    """The weeks after the first two, of days with their medians in orders and a line each; `meant`
    is the place of the day in front."""
    return tuple(
        FarWeek(
            display.days(days[first : first + WEEK]),
            display.in_orders(sum(medians[first : first + WEEK])),
            display.orders(sum(medians[first : first + WEEK])),
            first <= meant < first + WEEK,
            tuple(lines[first : first + WEEK]),
        )
        for first in range(GLANCE, len(days), WEEK)
    )
