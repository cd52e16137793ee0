"""Read of a publication what a page of all depots shows, fast, and what the publications before it said.

Columns of JSON are read as text and parsed many at once: one by one, the days of 5,000 depots take a second and a half.
Each function works on a connection whose transaction the caller holds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import sqlalchemy as sa

from forecaster.migrations import tables
from forecaster.publication import PublishedDay, PublishedDepot, PublishedRoster, RecentDay
from forecaster.records import Head

NEWEST = 2  # days up to the cutoff that a depot is given with
AT_ONCE = 500  # texts that are parsed together; other threads wait for a millisecond


def outline(connection: sa.Connection, publication_id: int) -> tuple[PublishedDepot, ...]:
    """The depots of a publication in their order, with the last two days before it and without marks."""
    days = _days(connection, publication_id)
    table = tables.published_depots.c
    wanted = [table.depot_id, _text(table.attributes), _text(table.recent), table.timezone, table.tier]
    query = sa.select(*wanted).where(table.publication_id == publication_id).order_by(table.position)
    rows = connection.execute(query).all()
    attributes = _parsed([row[1] for row in rows])
    newest = _parsed([_tail(row[2]) for row in rows])
    return tuple(
        PublishedDepot(row[0], tuple(days[row[0]]), _recent(last), said, (), row[3], row[4])
        for row, said, last in zip(rows, attributes, newest, strict=True)
    )


def before(connection: sa.Connection, head: Head) -> int | None:
    """The newest kept publication that ended on an earlier day; None where there is none."""
    table = tables.publications.c
    query = sa.select(table.publication_id).where(table.pipeline == head.pipeline, table.cutoff < head.cutoff)
    found: int | None = connection.execute(
        query.order_by(table.cutoff.desc(), table.publication_id.desc()).limit(1)
    ).scalar()
    return found


def medians(connection: sa.Connection, publication_id: int) -> Mapping[tuple[str, date], float]:
    """(Depot, day) → what a publication expected there, in orders."""
    levels = connection.execute(
        sa.select(tables.publications.c.levels).where(tables.publications.c.publication_id == publication_id)
    ).scalar()
    if levels is None:
        return {}
    table, middle = tables.published.c, levels.index(0.5)
    query = sa.select(table.depot_id, table.target_date, _text(table.quantiles))
    rows = connection.execute(query.where(table.publication_id == publication_id)).all()
    said = _parsed([row[2] for row in rows])
    return {(row[0], row[1]): values[middle] for row, values in zip(rows, said, strict=True)}


def said_before(connection: sa.Connection, head: Head, depot_id: str) -> Mapping[date, PublishedDay]:
    """Day up to the cutoff → what the last kept publication before it said of a depot; only of the same levels."""
    table, about = tables.published, tables.publications.c
    query = (
        sa.select(table, about.levels)
        .join(tables.publications, about.publication_id == table.c.publication_id)
        .where(about.pipeline == head.pipeline, table.c.depot_id == depot_id, table.c.target_date <= head.cutoff)
        .order_by(about.cutoff, about.publication_id)
    )
    return {
        row["target_date"]: PublishedDay(row["target_date"], row["horizon"], row["open"], tuple(row["quantiles"]))
        for row in connection.execute(query).mappings()
        if tuple(row["levels"]) == head.levels
    }


def _days(connection: sa.Connection, publication_id: int) -> Mapping[str, Sequence[PublishedDay]]:
    table = tables.published.c
    wanted = [table.depot_id, table.target_date, table.horizon, table.open, table.drivers]
    query = sa.select(*wanted, _text(table.quantiles), _text(table.roster))
    query = query.where(table.publication_id == publication_id).order_by(table.target_date)
    rows = connection.execute(query).all()
    quantiles = _parsed([row[5] for row in rows])
    rosters = _parsed([row[6] or "null" for row in rows])
    found: defaultdict[str, list[PublishedDay]] = defaultdict(list)
    for row, values, roster in zip(rows, quantiles, rosters, strict=True):
        made = None if roster is None else PublishedRoster(**roster)
        found[row[0]].append(PublishedDay(row[1], row[2], row[3], tuple(values), row[4], made))
    return found


def _text(column: sa.Column[Any]) -> sa.ColumnElement[str]:
    return sa.cast(column, sa.Text)


def _parsed(texts: Sequence[str]) -> list[Any]:
    found: list[Any] = []
    for at in range(0, len(texts), AT_ONCE):
        found += json.loads(f"[{','.join(texts[at : at + AT_ONCE])}]")
    return found


def _tail(text: str) -> str:
    """The last items of a list of lists, still as text."""
    at = len(text)
    for _ in range(NEWEST):
        at = max(text.rfind("[", 0, at), 0)
    return "[" + text[at:] if at > 0 else text


def _recent(days: Sequence[Sequence[Any]]) -> tuple[RecentDay, ...]:
    return tuple(RecentDay(date.fromisoformat(day), demand, is_open) for day, demand, is_open in days)
