"""Rows of published depots: made from `PublishedDepot`, written into the ledger, read back for
comparison.

The same code writes fleets of all sizes. Processes exchange groups of depots as Arrow batches of
these rows; JSON columns are text from the start, so that writing and comparing convert nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, repeat
from typing import Any

import pyarrow as pa
import sqlalchemy as sa

from forecaster.ledger import records, tables
from forecaster.ledger.columns.json_text import json_text
from forecaster.ledger.publication import PublishedDepot

AT_A_TIME = 512  # depots per batch
TEXT = pa.string()
DAY_FIELDS = (
    ("target_date", pa.date32()),
    ("horizon", pa.int32()),
    ("open", pa.bool_()),
    ("quantiles", TEXT),
    ("drivers", pa.int32()),
    ("roster", TEXT),
    ("override", TEXT),
    ("change", TEXT),
)
DEPOT_FIELDS = tuple(
    (name, TEXT) for name in ("depot_id", "attributes", "recent", "marks", "timezone", "tier", "bundle_digest", "weeks")
)
DAYS = "days"
SCHEMA = pa.schema([*DEPOT_FIELDS, (DAYS, pa.list_(pa.struct(list(DAY_FIELDS))))])
Row = tuple[Any, ...]


def published_batches(depots: Iterable[PublishedDepot]) -> Iterator[pa.RecordBatch]:
    """Batches of `SCHEMA` with `AT_A_TIME` depots each; a depot has a list of its days."""
    iterator = iter(depots)
    while chunk := list(islice(iterator, AT_A_TIME)):
        rows = [
            _with_json_text(records.of_depot(depot))
            | {DAYS: [_with_json_text(records.of_day(day)) for day in depot.days]}
            for depot in chunk
        ]
        yield pa.RecordBatch.from_pylist(rows, SCHEMA)


def _with_json_text(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: json_text(value) if isinstance(value, list | dict) else value for name, value in row.items()}


@dataclass(frozen=True)
class DepotRows:
    """Depots and their days as rows without the publication's id, in the order of the columns
    above."""

    depots: list[Row]
    days: list[Row]  # each begins with its depot's id

    @classmethod
    def from_batch(cls, batch: pa.RecordBatch) -> DepotRows:
        """Rows of a batch of `SCHEMA`."""
        depots = list(zip(*(_values(batch[name]) for name, _ in DEPOT_FIELDS), strict=True))
        days, counts = batch[DAYS].flatten(), batch[DAYS].value_lengths().to_pylist()
        of_day = (_values(days.field(name)) for name, _ in DAY_FIELDS)
        ids = chain.from_iterable(repeat(depot[0], count) for depot, count in zip(depots, counts, strict=True))
        return cls(depots, list(zip(ids, *of_day, strict=True)))

    @property
    def ids(self) -> list[str]:
        return [depot[0] for depot in self.depots]


def insert(connection: sa.Connection, number: int, rows: DepotRows, first: int) -> None:
    """Write depots of a publication; `first` is the position of the first."""
    depots = [(number, position, *depot) for position, depot in enumerate(rows.depots, first)]
    days = [(number, depot, day.isoformat(), *fields) for depot, day, *fields in rows.days]
    for table, columns, values in (
        (tables.published_depots, ["publication_id", "position", *_names(DEPOT_FIELDS)], depots),
        (tables.published, ["publication_id", "depot_id", *_names(DAY_FIELDS)], days),
    ):
        connection.exec_driver_sql(_insertion(connection, table, columns), values)


def read(connection: sa.Connection, number: int, depot_ids: Sequence[str]) -> DepotRows:
    """Read the depots with these ids, by position, and their days, by depot and date."""
    order = {depot_id: place for place, depot_id in enumerate(depot_ids)}
    published, depots = tables.published, tables.published_depots
    days = _rows(connection, published, ["depot_id", *_names(DAY_FIELDS)], number, depot_ids)
    of_depots = _rows(connection, depots, ["depot_id", *_names(DEPOT_FIELDS)[1:], "position"], number, depot_ids)
    of_depots.sort(key=lambda row: row[-1])
    days.sort(key=lambda row: (order[row[0]], row[1]))
    return DepotRows([row[:-1] for row in of_depots], days)


def count(connection: sa.Connection, number: int) -> int:
    """Number of depots of a publication."""
    column = tables.published_depots.c.publication_id
    query = sa.select(sa.func.count()).select_from(tables.published_depots).where(column == number)
    return int(connection.execute(query).scalar_one())


def _names(fields: Iterable[tuple[str, Any]]) -> list[str]:
    return [name for name, _ in fields]


def _values(column: pa.Array) -> list[Any]:
    """Column as Python values, None where it is null."""
    if column.null_count and not pa.types.is_string(column.type):
        return column.to_pylist()  # type: ignore[no-any-return]
    values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
    return values


def _insertion(connection: sa.Connection, table: sa.Table, columns: Sequence[str]) -> str:
    """INSERT statement for the driver, without SQLAlchemy's conversions: dates and JSON are text."""
    quote, mark = connection.dialect.identifier_preparer.quote, {"qmark": "?"}.get(connection.dialect.paramstyle, "%s")
    names, marks = ", ".join(map(quote, columns)), ", ".join(mark for _ in columns)
    return f"insert into {quote(table.name)} ({names}) values ({marks})"


def _rows(
    connection: sa.Connection, table: sa.Table, columns: Sequence[str], number: int, depot_ids: Sequence[str]
) -> list[Row]:
    fields = (sa.cast(c, sa.Text) if isinstance(c.type, sa.JSON) else c for c in (table.c[name] for name in columns))
    query = sa.select(*fields).where(table.c.publication_id == number, table.c.depot_id.in_(depot_ids))
    return [tuple(row) for row in connection.execute(query)]
