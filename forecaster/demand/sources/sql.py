"""SQL reader: one statement with streamed rows, starting at the watermark of the last batch
(incremental load)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

import sqlalchemy as sa

from forecaster.config import Spec, SqlSource
from forecaster.demand.sources import database, driver_types
from forecaster.demand.sources.feed import Columns, Ending, Pieces, numbered

ROWS = 20_000  # fetched from the database at a time


def name(source: SqlSource) -> str:
    """Table as declared; for a query, its database."""
    if source.table is not None:
        return source.table
    database_path = source.url.partition("?")[0].partition("://")[2].rpartition("@")[2].partition("/")[2]
    return f"query of {PurePosixPath(database_path).name or 'the database'}"


def pieces(source: SqlSource, spec: Spec, columns: Columns, *, name: str, since: str | None) -> Pieces:
    """Rows from `since` on, ordered by the watermark if one is declared, and rows without a
    watermark.

    The digest covers the rows' content in any order.
    """
    with database.reading(source, spec, name) as (connection, place):
        available = list(connection.execute(_nothing(source)).keys())
        read_columns = columns.of(place, available)
        if source.watermark is not None:
            Columns((source.watermark,)).of(f"{place}: watermark", available)
        dates = _dates_as_text(connection, source)
        yield name, numbered(driver_types.table(read_columns, []), 1)
        content, row, watermark = driver_types.Content(), 1, since
        for rows in _partitions(connection, _statement(source, read_columns, since)):
            table = driver_types.table(read_columns, rows, dates)
            content.add(table)
            yield name, numbered(table, row)
            row += len(rows)
            watermark = _highest(source, rows) or watermark
    return Ending(content.digest, watermark)


def _from(source: SqlSource) -> Any:
    if source.table is not None:
        schema, _, table = source.table.rpartition(".")
        return sa.table(table, schema=schema or None)
    query = (source.query or "").strip().rstrip(";")
    # a colon begins no parameter, and the line break ends a trailing comment
    return sa.text(query.replace(":", r"\:") + "\n").columns().subquery("source")


def _nothing(source: SqlSource) -> sa.Select[Any]:
    """All columns, but no row."""
    return sa.select(sa.literal_column("*")).select_from(_from(source)).where(sa.false())


def _statement(source: SqlSource, read_columns: Sequence[str], since: str | None) -> sa.Select[Any]:
    """Select the chosen columns, then the watermark.

    Rows equal to the watermark are read again: more of them may have been written since. So are
    rows without one: nothing shows when they were written.
    """
    query = sa.select(*(sa.column(column) for column in read_columns)).select_from(_from(source))
    if source.watermark is None:
        return query
    mark: sa.ColumnClause[Any] = sa.column(source.watermark)
    query = query.add_columns(mark).order_by(mark)
    value = driver_types.since(since, source.watermark)
    if value is None:
        return query
    bound = sa.bindparam("since", value, type_=sa.types.NullType())  # typed by the driver
    return query.where(sa.or_(mark >= bound, mark.is_(None)))


def _partitions(connection: sa.Connection, statement: sa.Select[Any]) -> Iterator[Sequence[sa.Row[Any]]]:
    with connection.execution_options(stream_results=True, max_row_buffer=ROWS).execute(statement) as result:
        yield from result.partitions(ROWS)


def _highest(source: SqlSource, rows: Sequence[sa.Row[Any]]) -> str | None:
    """Last watermark of the rows, which are ordered by it; None if they have none."""
    if source.watermark is None:
        return None
    last = next((row[-1] for row in reversed(rows) if row[-1] is not None), None)
    return None if last is None else driver_types.watermark(source.watermark, last)


def _dates_as_text(connection: sa.Connection, source: SqlSource) -> frozenset[str]:
    """Columns of an SQLite table declared as dates; SQLite itself has no such type."""
    if connection.dialect.name != "sqlite" or source.table is None:
        return frozenset()
    schema, _, table = source.table.rpartition(".")
    declared = sa.inspect(connection).get_columns(table, schema=schema or None)
    return frozenset(column["name"] for column in declared if isinstance(column["type"], sa.Date | sa.DateTime))
