"""Copy of what pipelines show, in an SQLite file of one process: a page reads it while the ledger's database is away.

It holds of each pipeline the publication that is up, the one whose days ended before (which says what was expected
then), the last night and what drifts: what the pages of a publication read, under the ids that it has in the ledger. No
sessions, links, overrides or rows of an audit.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from forecaster.ledger import overview, records, tables
from forecaster.ledger.records import Head, Run
from forecaster.ledger.store import Ledger

MOST_BYTES = 96 * 2**20  # of the file; for a moment its journal may have as many
AT_ONCE = 500  # rows that are in memory together
PAGE_SIZE = 4096  # bytes
log = logging.getLogger("forecaster.page")

_metadata = sa.MetaData()


def _plain(table: sa.Table) -> sa.Table:
    """The same columns without keys to other tables; JSON goes from one database to the other as text, unread."""
    return sa.Table(
        table.name,
        _metadata,
        *(
            sa.Column(column.name, sa.Text if _is_json(column) else column.type, primary_key=column.primary_key)
            for column in table.columns
        ),
    )


def _is_json(column: sa.Column[Any]) -> bool:
    return isinstance(column.type, sa.JSON)


OF_PUBLICATIONS = (tables.published_depots, tables.published, tables.published_totals, tables.published_plans)
OF_PIPELINES = (tables.runs, tables.publications, tables.slot, tables.drifts)
_PLAIN = {table.name: _plain(table) for table in (*OF_PUBLICATIONS, *OF_PIPELINES)}


class NoRoom(Exception):
    """The file would have more than its bytes, or its disk has no room."""


class PublicationCopy:
    """What some pipelines of one ledger show; `ledger` reads it as it would be read there. Thread-safe."""

    def __init__(self, folder: Path, most: int = MOST_BYTES) -> None:
        """`folder` is there, and this process's own; the file in it gets no larger than `most` bytes."""
        url = f"sqlite:///{folder / 'shown.db'}"
        self._engine = sa.create_engine(url, poolclass=NullPool)
        pragmas = ("journal_mode=truncate", "synchronous=off", f"max_page_count={most // PAGE_SIZE}")

        def connected(connection: Any, _: object) -> None:
            connection.isolation_level = None  # we say when a transaction begins
            for pragma in (f"page_size={PAGE_SIZE}", *pragmas):
                connection.execute(f"pragma {pragma}")

        sa.event.listen(self._engine, "connect", connected)
        sa.event.listen(self._engine, "begin", lambda connection: connection.exec_driver_sql("begin"))
        self.ledger = Ledger(url, self._engine)
        self._taking = threading.Lock()
        self._states: dict[str, object] = {}  # of what was copied last, by pipeline
        self._copied: frozenset[str] = frozenset()
        with self._engine.begin() as connection:
            _metadata.create_all(connection)

    def holds(self, pipeline: str) -> bool:
        """Whether something is copied of it."""
        return pipeline in self._copied

    def take(self, source: Ledger, pipelines: Collection[str]) -> None:
        """Copy what differs from what is here already, in two queries where nothing does.

        Of a pipeline for which there is no room nothing is held. Raises LedgerError when the source cannot be read.
        """
        with self._taking:
            with source.transaction() as connection:
                heads = overview.heads(connection, pipelines)
                nights = overview.last_nights(connection, pipelines)
            for name in pipelines:
                state = _state(heads.get(name), nights.get(name))
                if self._states.get(name) == state:
                    continue
                try:
                    has_copy = self._copy(source, name, nights.get(name))
                except NoRoom as error:
                    log.warning("there is no room for a copy of what %s shows: %s", name, error)
                    has_copy = False
                    self._forget(name)
                self._states[name] = state
                self._copied = self._copied | {name} if has_copy else self._copied - {name}

    def close(self) -> None:
        self._engine.dispose()

    def _copy(self, source: Ledger, name: str, night: Run | None) -> bool:
        """Whether the pipeline shows something."""
        with _own_errors(), self._engine.begin() as writing:
            _remove(writing, name)
            with source.transaction() as reading:
                if (head := records.head(reading, name)) is None:
                    return False
                for table, chosen in _chosen(reading, head, night):
                    for rows in _rows(reading, table, chosen):
                        with _own_errors():
                            writing.execute(_PLAIN[table.name].insert(), rows)
        return True

    def _forget(self, name: str) -> None:
        with suppress(NoRoom), _own_errors(), self._engine.begin() as connection:
            _remove(connection, name)


def _state(head: Head | None, night: Run | None) -> object:
    """What differs as soon as something else is shown, or said of the last night."""
    shown = None if head is None else (head.publication_id, head.revised_at, head.flipped_at)
    return shown, None if night is None else (night.run_id, night.finished_at)


def _chosen(
    connection: sa.Connection, head: Head, night: Run | None
) -> Iterator[tuple[sa.Table, sa.ColumnElement[bool]]]:
    """Which rows of which table are copied."""
    before = overview.previous_publication_id(connection, head)
    numbers = [number for number in (head.publication_id, before) if number is not None]
    for table in (tables.publications, *OF_PUBLICATIONS):
        both = table in (tables.publications, tables.published)  # of the one before only what it expected is read
        yield table, table.c.publication_id.in_(numbers if both else numbers[:1])
    yield tables.runs, tables.runs.c.run_id.in_([head.run_id, *([night.run_id] if night else [])])
    for table in (tables.slot, tables.drifts):
        yield table, table.c.pipeline == head.pipeline


def _rows(connection: sa.Connection, table: sa.Table, chosen: sa.ColumnElement[bool]) -> Iterator[list[dict[str, Any]]]:
    columns = [sa.cast(column, sa.Text).label(column.name) if _is_json(column) else column for column in table.columns]
    for rows in connection.execute(sa.select(*columns).where(chosen)).mappings().partitions(AT_ONCE):
        yield [dict(row) for row in rows]


@contextmanager
def _own_errors() -> Iterator[None]:
    """What goes wrong with the copy is NoRoom, which the ledger that is being read does not take for its own."""
    try:
        yield
    except sa.exc.OperationalError as error:
        raise NoRoom(str(error.orig)) from error


def _remove(connection: sa.Connection, name: str) -> None:
    publications = _PLAIN[tables.publications.name]
    numbers = sa.select(publications.c.publication_id).where(publications.c.pipeline == name)
    for table in OF_PUBLICATIONS:
        plain = _PLAIN[table.name]
        connection.execute(plain.delete().where(plain.c.publication_id.in_(numbers)))
    for table in OF_PIPELINES:
        plain = _PLAIN[table.name]
        connection.execute(plain.delete().where(plain.c.pipeline == name))
