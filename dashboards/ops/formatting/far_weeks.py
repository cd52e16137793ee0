"""The days ahead in two parts: two weeks day by day, and the rest grouped by week, each of which
expands to its days."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Generic, TypeVar

from dashboards.ops.formatting import display

GLANCE = 14  # days shown one by one
WEEK = 7
Line = TypeVar("Line")


@dataclass(frozen=True)
class FarWeek(Generic[Line]):
    """Seven days, or the remaining ones: the sum of their medians, without a range, as ranges do
    not add up."""

    days: str
    orders: str  # with the unit
    number: str  # without the unit
    meant: bool  # True if it contains the day in front
    lines: tuple[Line, ...]


def far_weeks(
    days: Sequence[date], medians: Sequence[float], lines: Sequence[Line], front_index: int
) -> tuple[FarWeek[Line], ...]:
    """Return the weeks after the first two, from days with their medians in orders and a line each;
    `front_index` is the index of the day in front."""
    return tuple(
        FarWeek(
            display.days(days[first : first + WEEK]),
            display.in_orders(sum(medians[first : first + WEEK])),
            display.orders(sum(medians[first : first + WEEK])),
            first <= front_index < first + WEEK,
            tuple(lines[first : first + WEEK]),
        )
        for first in range(GLANCE, len(days), WEEK)
    )
