"""Database connections of the ledger: writers migrate it to the newest revision, readers are
read-only.

SQLite runs in WAL mode, in which readers and the one writer do not wait for each other. A writer's
transaction takes the write lock at its first statement, so that what it read cannot change before
it writes.
"""

from __future__ import annotations

import json
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import ArgumentError, DBAPIError, NoSuchModuleError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from forecaster.errors import LedgerError, NoLedger, UnusableLedger
from forecaster.ledger.columns.json_text import json_text
from forecaster.ledger.migrations.revision import FIRST, REVISION, REVISION_TABLE, revisions
from forecaster.ledger.tables import metadata

if TYPE_CHECKING:
    from alembic.config import Config

# minimum number of seconds to wait for another writer's lock: simultaneous saves of planners run
# one after the other
WAIT_SECONDS = 20
# seconds that a writer waits for SQLite's lock, or for a PostgreSQL that accepts no connections for
# now
PATIENCE = 60.0
ATTENDED = 2.0  # the same while a person waits for the answer
# Messages of PostgreSQL, or of the operating system, while the server restarts or all its
# connections are in use.
PASSING = (
    "Connection refused",
    "server closed the connection",
    "the database system is",
    "too many clients",
    "remaining connection slots",
    "too many connections",
)
LEAST_ROOM = 65_536  # bytes; with less, SQLite cannot even open its shared memory
# Limits for a PostgreSQL that accepts a connection but does not answer, or whose machine is gone:
# seconds to connect, then milliseconds of silence, per statement and per wait for a lock, after
# which a transaction fails.
ANSWER_LIMITS = {"connect_timeout": 10, "tcp_user_timeout": 30_000, "keepalives_idle": 10, "keepalives_interval": 5}
STATEMENT_LIMITS = (
    f"-c statement_timeout=60000 -c lock_timeout={WAIT_SECONDS * 1000} -c idle_in_transaction_session_timeout=120000"
)


def writer(url: str, *, patience: float = PATIENCE) -> sa.Engine:
    """Return an engine on the ledger at its newest revision; create its folder and tables if
    needed.

    `patience` is the number of seconds for which an unavailable PostgreSQL is retried, now and at
    each later transaction; beyond `ATTENDED`, also for which SQLite waits for another writer.
    Raises LedgerError if the place is not writable or the ledger's revision is unknown.
    """
    with translated_errors(url):
        path = sqlite_file(url)
        if path is not None:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LedgerError(f"the ledger's folder {path.parent} cannot be made: {error.strerror}") from error
        engine = _engine(url, path, read_only=False, patience=patience)
        with _disposed_on_error(engine), engine.begin() as connection:
            # writers that start together migrate one after the other
            if connection.dialect.name == "postgresql":
                connection.exec_driver_sql("select pg_advisory_xact_lock(7261130)")
            if (revision := _revision(connection)) is None and not sa.inspect(connection).get_table_names():
                _create(connection)
            elif revision != REVISION:
                if not _is_older(revision):
                    raise UnusableLedger(_other_revision_message(url, revision))
                _upgrade(connection)
        return engine


def reader(url: str, *, patience: float = 0.0) -> sa.Engine:
    """Return a read-only engine; a ledger of an older revision is migrated first. `patience` as in
    `writer`.

    Raises NoLedger if there is none yet, LedgerError if its revision is unknown or it is not
    writable.
    """
    with translated_errors(url):
        path = sqlite_file(url)
        if path is not None and not path.exists():
            raise NoLedger(_none_at(path))
        engine = _engine(url, path, read_only=True, patience=patience)
        with _disposed_on_error(engine), engine.begin() as connection:
            if (revision := _revision(connection)) != REVISION:
                if not sa.inspect(connection).get_table_names():
                    raise NoLedger(_none_at(_without_password(url)))
                if not _is_older(revision):
                    raise UnusableLedger(_other_revision_message(url, revision))
        if revision != REVISION:
            engine.dispose()
            writer(url).dispose()
            return reader(url, patience=patience)
        return engine


def _is_older(revision: str | None) -> bool:
    """Return true if migrations lead from this revision to the current one."""
    return revision is not None and FIRST <= revision < REVISION


def _create(connection: sa.Connection) -> None:
    """Create the tables in an empty database and stamp it with the newest revision, as in
    https://alembic.sqlalchemy.org/en/latest/cookbook.html#building-an-up-to-date-database-from-scratch"""
    metadata.create_all(connection, checkfirst=False)
    revisions.create(connection)
    connection.execute(revisions.insert().values(version_num=REVISION))


def _upgrade(connection: sa.Connection) -> None:
    # importing alembic takes longer than all work on a ledger of the newest revision
    from alembic import command

    command.upgrade(config(connection), "head")


def stamp(url: str) -> object | None:
    """Return a value that changes with the files of an SQLite ledger; None for other databases,
    where no such check is cheap."""
    with translated_errors(url):
        path = sqlite_file(url)
    if path is None:
        return None
    states: list[tuple[int, int, int] | None] = []
    for file in (path, path.with_name(f"{path.name}-wal")):
        try:
            state = file.stat()
        except OSError:
            states.append(None)
        else:
            states.append((state.st_ino, state.st_size, state.st_mtime_ns))
    return tuple(states)


def config(connection: sa.Connection) -> Config:
    """Alembic's configuration for a connection."""
    from alembic.config import Config

    # alembic's default is standard output at the time of its import
    settings = Config(stdout=sys.stdout)
    settings.set_main_option("script_location", str(Path(__file__).with_name("migrations")).replace("%", "%%"))
    settings.attributes["connection"] = connection
    return settings


@contextmanager
def translated_errors(url: str) -> Iterator[None]:
    """Translate database errors into LedgerError, without passwords of the URL."""
    try:
        yield
    except (ArgumentError, NoSuchModuleError) as error:
        raise LedgerError("the ledger's URL is not one; wanted one such as sqlite:///var/ledger.db") from error
    except ModuleNotFoundError as error:
        raise LedgerError(
            f"the ledger at {_without_password(url)} needs the package {error.name}; install it"
        ) from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:  # raised by a driver or JSON on damaged text
        raise UnusableLedger(f"the ledger at {_without_password(url)} is damaged: {error}") from error
    except SQLAlchemyError as error:
        raise _translated(error, url) from error


def _translated(error: SQLAlchemyError, url: str) -> LedgerError:
    """Ledger error for a database's error."""
    cause = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
    place = _without_password(url)
    if _is_damage(error):
        return UnusableLedger(f"the ledger at {place} is damaged: {cause}; `forecaster restore` brings a backup back")
    if "no such table" in cause:
        return UnusableLedger(
            f"the ledger at {place}: it is not a ledger of this version; wanted one that `forecaster run` made"
        )
    if "locked" in cause:
        cause = f"another program has been writing to it for more than {WAIT_SECONDS} seconds; try again"
    elif full := _full_disk(url):
        cause = full
    elif (file := sqlite_file(url)) is not None and not file.exists():
        cause = "its file is gone; `forecaster restore` brings a backup back"
    elif "unable to open" in cause or "readonly" in cause:
        cause = "it is read-only here; SQLite's readers too need the right to write in its folder"
    return LedgerError(f"the ledger at {place}: {cause}")


def _is_damage(error: SQLAlchemyError) -> bool:
    """Return true if SQLite reports that the file is not a database, or is damaged."""
    code = getattr(error.orig if isinstance(error, DBAPIError) else None, "sqlite_errorcode", 0)
    damage = (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT)
    return code & 0xFF in damage or code == sqlite3.SQLITE_IOERR_SHORT_READ


@contextmanager
def _disposed_on_error(engine: sa.Engine) -> Iterator[None]:
    try:
        yield
    except BaseException:
        engine.dispose()
        raise


def _full_disk(url: str) -> str | None:
    """Return a sentence if the ledger's disk is full, which SQLite may report as an I/O error."""
    path = sqlite_file(url)
    folder = next((place for place in (path, *path.parents) if place.exists()), None) if path else None
    if folder is None or (free := shutil.disk_usage(folder).free) >= LEAST_ROOM:
        return None
    place = folder if folder.is_dir() else folder.parent
    return f"no room left on the disk of {place} ({free:,} bytes free); make some, and run the command again"


def sqlite_file(url: str) -> Path | None:
    """File of an SQLite URL; None for other databases."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "sqlite":
        return None
    if parsed.database in (None, "", ":memory:"):
        raise LedgerError(f"the ledger {url} would be gone with the process; wanted a file: sqlite:///var/ledger.db")
    return Path(str(parsed.database)).absolute()


def _engine(url: str, path: Path | None, *, read_only: bool, patience: float) -> sa.Engine:
    if path is None:
        # Writers' connections, too, live for one transaction only: hundreds of runs that train need
        # none in the meantime.
        pool: dict[str, Any] = {"pool_pre_ping": True} if read_only else {"poolclass": NullPool}
        engine = sa.create_engine(url, json_serializer=json_text, connect_args=_limits(url), **pool)
        sa.event.listen(engine, "do_connect", partial(_connect_patiently, patience))
    else:
        mode = "ro" if read_only else "rwc"
        address = f"file:{quote(str(path))}?mode={mode}"
        # An override of many depots may take longer than anyone likes to wait; it must not make a
        # run fail.
        wait = WAIT_SECONDS if patience <= ATTENDED else patience
        connect = partial(sqlite3.connect, address, uri=True, check_same_thread=False, timeout=wait)
        if read_only:
            connect = partial(_connected_reader, path, url, connect)
        # A connection lives for one transaction: the page keeps working after the file is replaced
        # by a backup.
        engine = sa.create_engine(url, json_serializer=json_text, poolclass=NullPool, creator=connect)
        sa.event.listen(engine, "connect", partial(_pragmas, read_only, wait))
    sa.event.listen(engine, "begin", partial(_begin, read_only))
    return engine


def _connected_reader(path: Path, url: str, connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
    """Connect as a reader.

    SQLite's readers, too, write next to the file; on a full disk, read a copy elsewhere.
    """
    connection = connect()
    try:
        connection.execute("select 1 from sqlite_master").fetchone()
    except sqlite3.OperationalError:
        connection.close()
        if _full_disk(url) is None:
            raise
    else:
        return connection
    with tempfile.TemporaryDirectory(prefix="ledger-") as folder:
        copy = Path(folder) / path.name
        for suffix in ("", "-wal"):
            with suppress(FileNotFoundError):
                shutil.copyfile(f"{path}{suffix}", f"{copy}{suffix}")
        connection = sqlite3.connect(copy, check_same_thread=False)
        connection.execute("select 1 from sqlite_master").fetchone()
    return connection  # it keeps its files open after their deletion


def _connect_patiently(patience: float, dialect: Any, _: Any, arguments: Any, parameters: Any) -> Any:
    """Connect to a database that may be starting, or have no free connection for a moment."""
    deadline, pause = time.monotonic() + patience, 0.1
    while True:
        try:
            return dialect.connect(*arguments, **parameters)
        except dialect.loaded_dbapi.OperationalError as error:
            if not any(refusal in str(error) for refusal in PASSING):
                raise
            if time.monotonic() + pause >= deadline:
                cause = str(error).strip().partition("\n")[0]
                raise type(error)(f"{cause}; tried for {patience:g} s" if patience else cause) from error
        # jitter: other waiting clients retry at another moment
        time.sleep(pause * random.uniform(0.5, 1))
        pause = min(2 * pause, 2.0)


def _limits(url: str) -> dict[str, Any]:
    """Time limits for PostgreSQL, except those set in the ledger's URL."""
    parsed = sa.make_url(url)
    if parsed.get_backend_name() != "postgresql":
        return {}
    limits = {**ANSWER_LIMITS, "options": STATEMENT_LIMITS}
    return {name: value for name, value in limits.items() if name not in parsed.query}


def _pragmas(read_only: bool, wait: float, connection: sqlite3.Connection, _: Any) -> None:
    connection.isolation_level = None  # the code begins transactions itself
    for pragma in (f"busy_timeout={wait * 1000:.0f}", "foreign_keys=on"):
        connection.execute("pragma " + pragma)
    if not read_only:
        _log_ahead(connection)
        connection.execute("pragma synchronous=full")


def _log_ahead(connection: sqlite3.Connection) -> None:
    """Switch to a write-ahead log.

    While another process creates the file, SQLite reports at once that it is locked, whatever its
    busy timeout: https://sqlite.org/c3ref/busy_handler.html
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        try:
            connection.execute("pragma journal_mode=wal")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def _begin(read_only: bool, connection: sa.Connection) -> None:
    if connection.dialect.name == "sqlite":
        connection.exec_driver_sql("begin" if read_only else "begin immediate")
    elif read_only:
        connection.exec_driver_sql("set transaction isolation level repeatable read read only")


def _revision(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(REVISION_TABLE):
        return None
    revision: str | None = connection.execute(sa.text(f"select version_num from {REVISION_TABLE}")).scalar()
    return revision


def _none_at(place: object) -> str:
    return f"there is no ledger at {place} yet; the first `forecaster run` makes it"


def _other_revision_message(url: str, revision: str | None) -> str:
    place = _without_password(url)
    if revision is None:
        return f"{place} is not a ledger; wanted one that `forecaster run` made"
    return (
        f"the ledger at {place} has revision {revision}, this program knows {REVISION}; use the version that made it, "
        "restore a backup of this version, or name a new one as `ledger`"
    )


def _without_password(url: str) -> str:
    return sa.make_url(url).render_as_string(hide_password=True)
