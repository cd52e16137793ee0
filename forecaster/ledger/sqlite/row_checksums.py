"""Checksums of the ledger's rows in SQLite, which takes for true whatever its file says: one that a disk has changed is
named when it is read.

A trigger of the writer's connection writes the checksum with the statement that writes the row. Every SELECT of ours
looks at each row that meets its own conditions, so that a row is refused also where only its sum is asked for. Rows
from before there were checksums have theirs from the migration on, as they were found. A row that damage keeps from
meeting a condition, or that a broken page hides, is found by `require_sound`. PostgreSQL has checksums of its pages.
"""

from __future__ import annotations

import sqlite3
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from types import FrameType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.base import SQLiteCompiler

from forecaster.errors import UnusableLedger
from forecaster.ledger import tables

COLUMN = "checksum"  # which only SQLite's tables have, and no query of ours asks for
LARGE = ("published", "published_depots", "published_totals", "published_plans")  # found by their keys alone
SMALL = ("slot", "publications", "promotions", "overrides", "withdrawals", "runs")
REFUSAL = "user-defined function raised exception"  # SQLite's words for a row that `_look` refuses
_refused = threading.local()  # the row of which those words are: SQLite does not hand on what a function raised


def register(connection: sqlite3.Connection) -> None:
    """Add the functions that triggers and queries call."""
    connection.create_function("row_checksum", -1, _checksum, deterministic=True)
    connection.create_function("intact", -1, _look)


class Compiler(SQLiteCompiler):
    """Has every SELECT look at the rows of the ledger's tables; it is asked once for each statement, then cached."""

    def visit_select(self, select_stmt: Any, *arguments: Any, **options: Any) -> str:
        conditions: list[sa.ColumnElement[bool]] = [
            sa.literal_column(_intact(table, name))
            for source in select_stmt.get_final_froms()
            for table, name in _tables(source)
        ]
        if conditions:
            # Last: SQLite puts the value of `column = value` in the place of the column wherever else that stands,
            # which is right only for rows that have met the condition.
            select_stmt = select_stmt.where(*conditions)
        return str(super().visit_select(select_stmt, *arguments, **options))  # type: ignore[no-untyped-call]


def _tables(source: Any) -> Iterator[tuple[sa.Table, str]]:
    """The ledger's tables among what a statement selects from, each with its name there."""
    if isinstance(source, sa.Join):
        yield from _tables(source.left)
        yield from _tables(source.right)
    elif isinstance(source, sa.Table) and source.metadata is tables.metadata:
        yield source, source.name
    elif isinstance(source, sa.Alias) and isinstance(source.element, sa.Table):
        yield source.element, source.name


def _intact(table: sa.Table, name: str) -> str:
    return f"""intact('{table.name}', "{name}".rowid, "{name}".{COLUMN}, {_values(name, _exact(table))})"""


def _exact(table: sa.Table) -> dict[str, bool]:
    """Column → whether its numbers have more digits than they have as text."""
    return {column.name: isinstance(column.type, sa.Float) for column in table.columns}


def _values(name: str, columns: Mapping[str, bool]) -> str:
    """The columns by name, as bytes where they have all of a value: damaged text need not be text any more."""
    return ", ".join(
        f'"{name}"."{column}"' if is_exact else f'cast("{name}"."{column}" as blob)'
        for column, is_exact in sorted(columns.items())
    )


def require_intact(connection: sa.Connection, names: Iterable[str] = tuple(tables.metadata.tables)) -> None:
    """Look at every row of these tables, as before a migration, after which a damaged one would be intact. Raises
    UnusableLedger."""
    for sentence in damaged_rows(connection, names):
        raise UnusableLedger(sentence)


def install(connection: sa.Connection) -> None:
    """Give all rows that are there a checksum, after a migration."""
    for table in tables.metadata.sorted_tables:
        if COLUMN not in _columns(connection, table.name):
            connection.exec_driver_sql(f'alter table "{table.name}" add column {COLUMN} integer')
        connection.exec_driver_sql(_write(table))


def write_with_rows(connection: sqlite3.Connection) -> None:
    """Have a writer's connection write a checksum with each row that it adds or changes, and change no damaged one.

    A table that is gone is told of by what needs it: a night goes on without its by-products.
    """
    connection.execute("pragma recursive_triggers=off")
    present = {name for (name,) in connection.execute("select name from main.sqlite_master where type = 'table'")}
    for name, statements in _triggers().items():
        for statement in statements if name in present else ():
            connection.execute(statement)


@cache
def _triggers() -> Mapping[str, tuple[str, str]]:
    """By table; of the connection, not of the file: readers need not parse them."""
    triggers = {}
    for table in tables.metadata.sorted_tables:
        name, write = table.name, f"{_write(table)} where rowid = new.rowid"
        triggers[name] = (
            f'create temp trigger "{name}_added" after insert on main."{name}" begin {write}; end',
            f'create temp trigger "{name}_changed" after update on main."{name}" when new.{COLUMN} is old.{COLUMN} '
            f"begin select {_intact(table, 'old')}; {write}; end",
        )
    return triggers


def _write(table: sa.Table) -> str:
    values = _values(table.name, _exact(table))
    return f"""update "{table.name}" set {COLUMN} = row_checksum('{table.name}', {values})"""


def damaged_rows(connection: sa.Connection, names: Iterable[str] = tuple(tables.metadata.tables)) -> Iterator[str]:
    """A sentence for each row that is not what was written, whatever the revision."""
    for name in names:
        columns = _columns(connection, name)
        if COLUMN not in columns:
            continue
        del columns[COLUMN]
        values = _values(name, columns)
        query = f"""select {COLUMN} is row_checksum('{name}', {values}), {values} from "{name}\""""
        try:
            for is_intact, *row in connection.exec_driver_sql(query):
                if not is_intact:
                    yield _sentence(name, dict(zip(sorted(columns), row, strict=True)))
        except sa.exc.OperationalError:  # a number that is text, and no text either
            yield f"the ledger is damaged: a row of table {name} cannot be read; {_STEP}"


def damage(connection: sa.Connection) -> list[str]:
    """A sentence for all that is not what was written, of pages and rows; all of the file is read twice."""
    if connection.dialect.name != "sqlite":
        return []
    faults = [str(fault) for fault in connection.exec_driver_sql("pragma integrity_check").scalars()]
    broken = [f"the ledger is damaged: {' '.join(fault.split())}; {_STEP}" for fault in faults if fault != "ok"]
    return [*broken, *damaged_rows(connection)]


def require_sound(connection: sa.Connection) -> None:
    """Look for rows that damage hides or doubles, in the tables from which forecasts are made and shown: half a
    gigabyte takes about a second. Raises UnusableLedger."""
    if connection.dialect.name != "sqlite":
        return
    for name in (*SMALL, *LARGE):
        fault = str(connection.exec_driver_sql(f'pragma integrity_check("{name}")').scalar())
        if fault != "ok":
            raise UnusableLedger(f"the ledger is damaged: table {name}: {' '.join(fault.split())}; {_STEP}")
    require_intact(connection, SMALL)


@contextmanager
def named_damage(what: str) -> Iterator[None]:
    """Raises UnusableLedger where rows from before checksums are no values: a malformed date, a list that is none."""
    try:
        yield
    except (ValueError, TypeError, LookupError) as error:
        raise UnusableLedger(f"the ledger is damaged: {what}: {error}; {_STEP}") from error


def refused_row() -> str:
    """The sentence of the row that was refused last in this thread; it is asked for once."""
    return str(_refused.__dict__.pop("sentence", f"the ledger is damaged: a row cannot be read; {_STEP}"))


_STEP = "`forecaster restore` brings a backup back, `forecaster doctor` names every damaged row"


def _columns(connection: sa.Connection, table: str) -> dict[str, bool]:
    """The columns that a table has in the file, as `_exact` tells those of today."""
    rows = connection.exec_driver_sql(f'pragma table_info("{table}")')
    return {name: kind.upper() == "FLOAT" for _, name, kind, *_ in rows}


def _checksum(*values: object) -> int:
    """CRC-32 of a table's name and a row's values, which finds any change of up to 32 bits in a row.

    Bytes, which nearly all values are, go in as they are, with their lengths, so that no two run together: to write
    them out as text took most of a scrape.
    """
    head = [len(value) if isinstance(value, bytes) else value for value in values]
    body = b"".join([value for value in values if isinstance(value, bytes)])
    return zlib.crc32(body, zlib.crc32(repr(head).encode("utf-8", "surrogatepass")))


def _look(table: str, rowid: int | None, checksum: int | None, *values: object) -> int:
    if rowid is None:  # an outer join without a row
        return 1
    if checksum != _checksum(table, *values):
        columns = sorted(column.name for column in tables.metadata.tables[table].columns)
        _refused.sentence = _sentence(table, dict(zip(columns, values, strict=True)))
        raise ValueError(_refused.sentence)
    return 1


_CALLED = (_checksum.__code__, _look.__code__)


def is_called_in(frame: FrameType | None) -> bool:
    """Whether a frame is of a function that SQLite calls, or of what that calls."""
    while frame is not None:
        if frame.f_code in _CALLED:
            return True
        frame = frame.f_back
    return False


def _sentence(table: str, row: Mapping[str, Any]) -> str:
    key = ", ".join(f"{column.name} {_text(row[column.name])}" for column in tables.metadata.tables[table].primary_key)
    step = "the next night replaces it, or " if table.startswith("published") else ""
    return f"the ledger is damaged: table {table}, row {key} is not what was written; {step}{_STEP}"


def _text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
