"""The week board as a file: its depots and days as rows of a CSV, or as sheets of a workbook."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from typing import Any

from dashboards.ops.formatting.csv import harmless, sheet
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import median_and_range
from dashboards.ops.views.attention import city_of
from dashboards.ops.views.board.board import selected, shown_days
from dashboards.ops.views.board.query import BoardQuery
from forecaster.errors import MissingExtra
from forecaster.ledger.publication import PublishedDay, PublishedDepot

ORDERS, DRIVERS, PUBLISHED = "Orders", "Drivers", "Published"  # sheets of the workbook


@dataclass(frozen=True)
class BoardFileRow:
    """A depot's day, in orders and drivers; `chance_short` is None without a crew."""

    depot_id: str
    city: str
    target_date: date
    open: bool
    low: float
    median: float
    high: float
    drivers: int | None
    chance_short: float | None
    overridden: bool


def board_csv(edition: Edition, query: BoardQuery) -> bytes:
    """Return the depots of all pages of the board as CSV, one row per day."""
    depots, days = _shown(edition, query)
    rows = [_row(depot, day, edition.head.levels) for depot in depots for day in depot.days[days]]
    return sheet(BoardFileRow, rows).csv()


def _orders(day: PublishedDay, levels: tuple[float, ...]) -> float:
    """Return the orders of an open day as in the workbook."""
    return round(median_and_range(day, levels).median, 1)


def board_workbook(edition: Edition, query: BoardQuery) -> bytes:
    """Return the same as a workbook with one row per depot and one column per day.

    It has a sheet of orders, one of drivers if they are planned, and one of both as published, from
    which `board_upload` detects changes. Raises MissingExtra.
    """
    try:
        from xlsxwriter import Workbook
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; this file needs: pip install 'harbor-forecaster[shifts]'") from error
    (depots, days), levels = _shown(edition, query), edition.head.levels
    out = io.BytesIO()
    with Workbook(out, {"in_memory": True}) as book:
        book.set_properties({"created": edition.head.published_at.astimezone(UTC).replace(tzinfo=None)})
        head = book.add_format({"num_format": "ddd d mmm yyyy", "bold": True, "bottom": 1, "align": "left"})

        def add(name: str, value: Callable[[PublishedDay], float | None]) -> None:
            page = book.add_worksheet(name)
            for column, title in enumerate(("depot", "city")):
                page.write_string(0, column, title, head)
            for column, target in enumerate(edition.front.target_dates[days], 2):
                page.write_datetime(0, column, datetime.combine(target, time.min), head)
            for line, depot in enumerate(depots, 1):
                page.write_string(line, 0, harmless(depot.depot_id))
                page.write_string(line, 1, harmless(city_of(depot)))
                for column, day in enumerate(depot.days[days], 2):
                    _write(page, line, column, value(day) if day.open else None)
            page.set_column(0, 1, 20)
            page.set_column(2, 9, 16)
            page.freeze_panes(1, 2)

        add(ORDERS, lambda day: _orders(day, levels))
        if any(day.drivers is not None for depot in depots for day in depot.days[days]):
            add(DRIVERS, lambda day: day.drivers)
        _add_published(book, depots, days, levels)
    for page in book.worksheets():
        page.table.clear()  # breaks a reference cycle, which Python collects rarely
    return out.getvalue()


def _add_published(book: Any, depots: Sequence[PublishedDepot], days: slice, levels: tuple[float, ...]) -> None:
    """Add a hidden sheet with one row per depot and day: orders and drivers at the time of the
    export, empty on a closed day."""
    page = book.add_worksheet(PUBLISHED)
    page.hide()
    page.write_row(0, 0, ("depot", "day", "orders", "drivers"))
    iso = book.add_format({"num_format": "yyyy-mm-dd"})
    cells = [(depot, day) for depot in depots for day in depot.days[days]]
    for line, (depot, day) in enumerate(cells, 1):
        page.write_string(line, 0, harmless(depot.depot_id))
        page.write_datetime(line, 1, datetime.combine(day.target_date, time.min), iso)
        _write(page, line, 2, _orders(day, levels) if day.open else None)
        _write(page, line, 3, day.drivers if day.open else None)


def _write(page: Any, line: int, column: int, value: float | None) -> None:
    if value is None:
        page.write_blank(line, column, None)
    else:
        page.write_number(line, column, value)


def _shown(edition: Edition, query: BoardQuery) -> tuple[Sequence[PublishedDepot], slice]:
    return selected(edition, query)[0], shown_days(edition.front, query)[1]


def _row(depot: PublishedDepot, day: PublishedDay, levels: tuple[float, ...]) -> BoardFileRow:
    numbers = median_and_range(day, levels)
    return BoardFileRow(
        depot.depot_id,
        city_of(depot),
        day.target_date,
        day.open,
        numbers.low,
        numbers.median,
        numbers.high,
        day.drivers,
        day.roster.chance_short if day.roster else None,
        day.override is not None,
    )
