"""Catalog of the API's views, one declaration each: name, description, rows, and page.

A view answers at /api/v1/NAME as JSON, and as CSV with `format=csv`; a view of a publication also
accepts `as_of` and `publication`. A new page must add its view here; a test checks this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dashboards.ops.formatting.csv import CsvSheet, sheet
from dashboards.ops.reading.editions import Edition, Logbook
from dashboards.ops.views import api_rows
from dashboards.ops.views.api_schema import FullDepotOut, LevelOut, PublicationOut, TotalOut, publication_out
from dashboards.ops.views.money.value_rows import ValueOut, ValueRow, value_out
from dashboards.ops.views.runs import RunOut, RunsOut, runs_out
from forecaster.plugins import optional


@dataclass(frozen=True)
class View:
    """A view; `make` gets an Edition if the view is of a publication, else a Logbook, and `sheet`
    gets the result of `make`."""

    name: str
    says: str
    out: type
    make: Callable[[Any], Any]
    sheet: Callable[[Any], CsvSheet]
    page: str | None = None
    of_publication: bool = True


def rows_view(
    name: str,
    says: str,
    out: type,
    make: Callable[[Any], Any],
    row: type,
    *,
    page: str | None = None,
    of_publication: bool = True,
) -> View:
    """Return a view whose answer has its rows in `rows`."""
    return View(name, says, out, make, lambda answer: sheet(row, answer.rows), page, of_publication)


def _of_people() -> Iterator[View]:
    if people := optional("people.rows"):
        says = "Shifts of people on the days ahead, and open shifts; empty if no people are declared."
        rows = people.PersonShiftsOut, people.person_shifts, people.PersonShiftRow
        yield rows_view("shifts", says, *rows, page="/roster")


def _publication(edition: Edition) -> PublicationOut:
    return publication_out(edition.head, edition.depots(), edition.front, edition.totals())


def _publication_sheet(publication: PublicationOut) -> CsvSheet:
    rows = [
        api_rows.DepotDayRow(
            depot.depot_id,
            depot.attributes.get("city"),
            day.target_date,
            day.open,
            day.low,
            day.median,
            day.high,
            day.drivers,
        )
        for depot in publication.depots
        for day in depot.days
    ]
    return sheet(api_rows.DepotDayRow, rows)


def _runs(book: Logbook) -> RunsOut:
    return runs_out(book.runs)


VIEWS: tuple[View, ...] = (
    View(
        "publication",
        "The forecast of the network, of each city and of each depot: the median and the 80 % range, in orders.",
        PublicationOut,
        _publication,
        _publication_sheet,
        page="/",
    ),
    rows_view(
        "network",
        "Forecast of each depot for the main day, usually tomorrow.",
        api_rows.NetworkOut,
        api_rows.network,
        api_rows.DepotDayRow,
        page="/",
    ),
    rows_view(
        "depots",
        "Forecast of each depot on each day.",
        api_rows.DepotsOut,
        api_rows.depots,
        api_rows.DepotDayRow,
    ),
    rows_view(
        "totals",
        "Forecast totals of the network (no city) and of each city. Readers of some cities get theirs.",
        api_rows.TotalsOut,
        api_rows.totals,
        TotalOut,
    ),
    rows_view(
        "levels",
        "Forecast totals of the network and of each group of each level, such as cities, by day and by week. "
        "Readers of some cities get theirs.",
        api_rows.LevelsOut,
        api_rows.levels,
        LevelOut,
    ),
    rows_view(
        "wall",
        "The same as `network`, for a shared screen.",
        api_rows.NetworkOut,
        api_rows.network,
        api_rows.DepotDayRow,
        page="/wall",
    ),
    rows_view(
        "rosters",
        "Roster of each depot on each day.",
        api_rows.RostersOut,
        api_rows.rosters,
        api_rows.RosterRow,
        page="/",
    ),
    *_of_people(),
    rows_view(
        "publications",
        "The publications that `publication` and `as_of` can ask for.",
        api_rows.PublicationsOut,
        api_rows.publications,
        api_rows.PublicationRow,
        of_publication=False,
    ),
    View(
        "runs",
        "The last nights: outcome, findings, seconds by stage, and their own metrics.",
        RunsOut,
        _runs,
        lambda answer: sheet(RunOut, answer.runs),
        page="/health",
        of_publication=False,
    ),
    rows_view(
        "champions",
        "History of champions, with dates and reasons.",
        api_rows.ChampionsOut,
        api_rows.champions,
        api_rows.ChampionRow,
        page="/champion",
        of_publication=False,
    ),
    rows_view(
        "accuracy",
        "Accuracy of earlier forecasts, by week and part, as sums from which rates are computed.",
        api_rows.AccuracyOut,
        api_rows.accuracy,
        api_rows.AccuracyRow,
        page="/accuracy",
        of_publication=False,
    ),
    rows_view(
        "value",
        "Cost and savings of rosters over the last 8, 26 and 52 weeks, compared with other rostering policies.",
        ValueOut,
        value_out,
        ValueRow,
        page="/value",
        of_publication=False,
    ),
)


def depot_sheet(depot: FullDepotOut) -> CsvSheet:
    """Return the days ahead, with one column per quantile."""
    levels = tuple(f"q{level:g}" for level in depot.levels)
    rows = [[day.target_date, day.horizon, day.open, *day.quantiles, day.drivers] for day in depot.days]
    return CsvSheet(("target_date", "horizon", "open", *levels, "drivers"), rows)


def linkable() -> dict[str, tuple[str, ...]]:
    """Return the views that a wall screen's link may open: name of a page's view → the page and the
    paths of its API."""
    views: dict[str, tuple[str, ...]] = {}
    for view in VIEWS:
        if view.page:
            api_paths = tuple(f"/api/v1/{other.name}" for other in VIEWS if other.page == view.page)
            views[view.name] = (view.page, *api_paths)
    return views
