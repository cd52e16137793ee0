"""Links of the week board to its other views: weeks, levels that group the depots, and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dashboards.ops.formatting import display
from dashboards.ops.formatting.far_weeks import WEEK
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import Front
from dashboards.ops.views.board.query import ACTUAL, BESIDE, BoardQuery
from dashboards.ops.views.network import CITY
from forecaster.core.language import _


@dataclass(frozen=True)
class BoardLink:
    """A link to another view of the board."""

    text: str
    href: str
    chosen: bool


def published_levels(edition: Edition) -> tuple[str, ...]:
    """Return the levels with totals for the reader, the default one first."""
    if edition.cities is not None:  # a group of another level may include depots elsewhere
        return (CITY,)
    levels = dict.fromkeys(total.level for total in edition.totals() if total.name)
    return tuple(sorted(levels, key=lambda level: (level != CITY, level))) or (CITY,)


def level_choices(levels: Sequence[str], query: BoardQuery) -> tuple[BoardLink, ...]:
    if len(levels) < 2:
        return ()
    return tuple(
        BoardLink(
            _("by city") if level == CITY else _("by “{level}”", level=level),
            query.to(by=level, city=""),
            level == query.level,
        )
        for level in levels
    )


def week_choices(front: Front, weeks: int, query: BoardQuery) -> tuple[BoardLink, ...]:
    if weeks < 2:
        return ()
    return tuple(
        BoardLink(
            display.days(front.target_dates[WEEK * (number - 1) : WEEK * number]),
            query.to(week=number),
            number == query.week,
        )
        for number in range(1, weeks + 1)
    )


def beside_choices(query: BoardQuery, past: bool) -> tuple[BoardLink, ...]:
    return tuple(
        BoardLink(
            _(text), query.to(beside="" if comparison == query.beside else comparison), comparison == query.beside
        )
        for comparison, text in BESIDE.items()
        if past or comparison != ACTUAL
    )
