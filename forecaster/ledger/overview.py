"""Bulk reads of a publication for a page of all depots, and of the forecasts of earlier
publications.

JSON columns are read as text and parsed in batches: parsed one by one, the days of 5,000 depots
take a second and a half. Not all at once either: that takes half as much memory again, and blocks
other threads. Each function works on a connection whose transaction the caller holds.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa
from pydantic_core import from_json

from forecaster.ledger import records, tables
from forecaster.ledger.publication import (
    PublishedDay,
    PublishedDepot,
    PublishedOverride,
    PublishedRoster,
    RecentDay,
)
from forecaster.ledger.records import Head, Run

NEWEST = 8  # recent days per depot, up to the cutoff
AT_ONCE = 500  # rows read and parsed per batch, in about a millisecond


def outline(connection: sa.Connection, publication_id: int) -> tuple[PublishedDepot, ...]:
    """Depots of a publication in their order, with the last `NEWEST` recent days and without marks."""
    days = _days(connection, publication_id)
    table = tables.published_depots.c
    columns = [
        table.depot_id,
        _text(table.attributes),
        _text(table.recent),
        table.timezone,
        table.tier,
        table.bundle_digest,
        table.weeks,
    ]
    query = sa.select(*columns).where(table.publication_id == publication_id).order_by(table.position)
    depots: list[PublishedDepot] = []
    for rows in connection.execute(query).partitions(AT_ONCE):
        attributes = _parse_many([row[1] for row in rows])
        newest = _parse_many([_tail(row[2]) for row in rows])
        depots += (
            PublishedDepot(
                row[0], tuple(days.pop(row[0])), _recent(last), values, (), row[3], row[4], row[5], row[6] or ()
            )
            for row, values, last in zip(rows, attributes, newest, strict=True)
        )
    return tuple(depots)


def capped_depots(connection: sa.Connection, publication_id: int) -> tuple[PublishedDepot, ...]:
    """Depots of a publication with a recent day whose count is a lower bound of demand.

    They have all their recent days and no day ahead.
    """
    table = tables.published_depots.c
    query = sa.select(table.depot_id, table.attributes, _text(table.recent))
    # only such a day has a value after its open flag (`RecentDay.to_row`)
    query = query.where(table.publication_id == publication_id, _text(table.recent).like("%true, %"))
    return tuple(
        PublishedDepot(depot_id, (), _recent(json.loads(recent)), attributes)
        for depot_id, attributes, recent in connection.execute(query)
    )


def previous_publication_id(connection: sa.Connection, head: Head) -> int | None:
    """The newest kept publication with an earlier cutoff; None if there is none."""
    table = tables.publications.c
    query = sa.select(table.publication_id).where(table.pipeline == head.pipeline, table.cutoff < head.cutoff)
    publication_id: int | None = connection.execute(
        query.order_by(table.cutoff.desc(), table.publication_id.desc()).limit(1)
    ).scalar()
    return publication_id


def medians(connection: sa.Connection, publication_id: int) -> Mapping[tuple[str, date], float]:
    """(Depot, day) → median forecast of a publication, in orders."""
    levels = connection.execute(
        sa.select(tables.publications.c.levels).where(tables.publications.c.publication_id == publication_id)
    ).scalar()
    if levels is None:
        return {}
    table, middle = tables.published.c, levels.index(0.5)
    query = sa.select(table.depot_id, table.target_date, _text(table.quantiles))
    by_day: dict[tuple[str, date], float] = {}
    for rows in connection.execute(query.where(table.publication_id == publication_id)).partitions(AT_ONCE):
        quantiles = _parse_many([row[2] for row in rows])
        by_day |= {(row[0], row[1]): values[middle] for row, values in zip(rows, quantiles, strict=True)}
    return by_day


def earlier_forecasts(connection: sa.Connection, head: Head, depot_id: str) -> Mapping[date, PublishedDay]:
    """Day up to the cutoff → forecast of a depot by the last kept publication before the day; only
    with the same quantile levels."""
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


def _days(connection: sa.Connection, publication_id: int) -> defaultdict[str, list[PublishedDay]]:
    """Depot → its days, in date order."""
    table = tables.published.c
    columns = [table.depot_id, table.target_date, table.horizon, table.open, table.drivers]
    query = sa.select(*columns, _text(table.quantiles), _text(table.roster), _text(table.override))
    query = query.where(table.publication_id == publication_id).order_by(table.target_date)
    by_depot: defaultdict[str, list[PublishedDay]] = defaultdict(list)
    for rows in connection.execute(query).partitions(AT_ONCE):
        quantiles = _parse_many([row[5] for row in rows])
        rosters = _parse_many([row[6] or "null" for row in rows])
        for row, values, roster in zip(rows, quantiles, rosters, strict=True):
            published_roster = None if roster is None else PublishedRoster.from_json(roster)
            override = None if row[7] in (None, "null") else PublishedOverride.from_json(json.loads(row[7]))
            by_depot[row[0]].append(
                PublishedDay(row[1], row[2], row[3], tuple(values), row[4], published_roster, override=override)
            )
    return by_depot


def _text(column: sa.Column[Any]) -> sa.ColumnElement[str]:
    return sa.cast(column, sa.Text)


def _parse_many(texts: Sequence[str]) -> list[Any]:
    values: list[Any] = from_json(f"[{','.join(texts)}]")
    return values


def _tail(text: str) -> str:
    """The last `NEWEST` items of a list of lists, as text."""
    at = len(text)
    for _ in range(NEWEST):
        at = max(text.rfind("[", 0, at), 0)
    return "[" + text[at:] if at > 0 else text


def _recent(days: Sequence[Sequence[Any]]) -> tuple[RecentDay, ...]:
    return tuple(map(RecentDay.of_row, days))


def override_changes(connection: sa.Connection, pipeline: str, since: datetime) -> tuple[tuple[str, datetime], ...]:
    """Depot and instant of each override saved or withdrawn after an instant."""
    saved, withdrawn = tables.overrides.c, tables.withdrawals.c
    of_withdrawals = sa.select(saved.depot_id, withdrawn.at).join(tables.withdrawals)
    return tuple(
        (depot_id, at)
        for query, at_column in ((sa.select(saved.depot_id, saved.at), saved.at), (of_withdrawals, withdrawn.at))
        for depot_id, at in connection.execute(query.where(saved.pipeline == pipeline, at_column > since))
    )


def heads(connection: sa.Connection, pipelines: Collection[str]) -> dict[str, Head]:
    """Shown publication of each pipeline; pipelines that have not published are omitted."""
    slot = tables.slot.c
    query = (
        sa.select(tables.publications, slot.previous_id, slot.flipped_at)
        .join(tables.slot, slot.publication_id == tables.publications.c.publication_id)
        .where(slot.pipeline.in_(pipelines))
    )
    rows = connection.execute(query).mappings()
    return {row["pipeline"]: records.head_of_row(row) for row in rows}


def last_nights(connection: sa.Connection, pipelines: Collection[str]) -> dict[str, Run]:
    """Newest finished run of each pipeline that was meant to publish."""
    runs = tables.runs.c
    ended = runs.finished_at.is_not(None) & runs.kind.not_in(("maintain", "backfill")) & (runs.outcome != "busy")
    newest = (
        sa.select(runs.pipeline, sa.func.max(runs.started_at).label("started_at"))
        .where(ended, runs.pipeline.in_(pipelines))
        .group_by(runs.pipeline)
        .subquery()
    )
    same = (runs.pipeline == newest.c.pipeline) & (runs.started_at == newest.c.started_at)
    query = sa.select(tables.runs).join(newest, same).where(ended).order_by(runs.run_id.desc())
    rows = connection.execute(query).mappings()
    return {row["pipeline"]: records.run_of_row(row) for row in rows}
