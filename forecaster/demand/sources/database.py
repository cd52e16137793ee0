"""Read-only database connection, whose errors explain the cause without showing a credential."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.pool import NullPool

from forecaster.config import Spec, SqlSource, credentials
from forecaster.errors import MissingExtra, SourceError, SourceUnreachable

CONNECT_SECONDS = 30
_PARTS = re.compile(r"(?P<scheme>[^:/@]+://)(?P<user>[^?]*@)?(?P<place>[^?]*)(?P<query>\?.*)?", re.DOTALL)
_SECRET = re.compile(r"pass|secret|token|key", re.IGNORECASE)
# For errors without a server code, messages that make another try pointless.
_FINAL = re.compile(
    r"authentication|no pg_hba.conf entry|(role|database) .* does not exist|access denied", re.IGNORECASE
)
_PASSING = {"SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_CANTOPEN", "SQLITE_IOERR", "SQLITE_PROTOCOL"}
_WRONG_STATES = ("22", "28", "3D", "3F", "42")  # data, authorization, database, schema, statement


@contextmanager
def reading(source: SqlSource, spec: Spec, name: str) -> Iterator[tuple[sa.Connection, str]]:
    """Open a connection, read-only if the database supports it; also return the name of the source
    in messages.

    Raises SourceUnreachable when the database cannot be reached or the connection breaks,
    SourceError when it rejects or does not understand the statement, MissingExtra when its driver
    is not installed.
    """
    url = _url(source, spec)
    place = f"{name} in {url.set(query={}).render_as_string(hide_password=True)}"
    with _translated_errors(place, source):
        engine = _engine(url, place)
        options = {"postgresql_readonly": True} if engine.dialect.name == "postgresql" else {}
        try:
            with engine.connect().execution_options(**options) as connection:
                # otherwise the server would continue queries that nobody waits for
                if engine.dialect.name == "postgresql":
                    limit = int(spec.schedule.window * 1000)
                    connection.exec_driver_sql(f"select set_config('statement_timeout', '{limit}', false)")
                yield connection, place
        finally:
            engine.dispose()


def _url(source: SqlSource, spec: Spec) -> sa.URL:
    """Declared URL with its variables filled in; the credentials in it are hidden from now on."""
    parts = _PARTS.fullmatch(source.url)
    if parts is None:  # the whole URL is a variable or secret
        filled = credentials.fill(source.url, credential=True)
    else:  # values of a user, password or option may contain characters with a meaning in a URL
        filled = "".join(
            credentials.fill(text or "", quoted=part in ("user", "query")) for part, text in parts.groupdict().items()
        )
    try:
        url = sa.make_url(filled)
    except (sa.exc.ArgumentError, ValueError):
        raise SourceError(
            f"{source.url}: not a database URL; wanted one such as postgresql+psycopg://reader:${{PASSWORD}}@host/orders"
        ) from None
    credentials.conceal(url.password)
    for option, values in url.normalized_query.items():
        if _SECRET.search(option):
            for value in values:
                credentials.conceal(value)
    return _read_only_file(url, spec) if url.drivername in ("sqlite", "sqlite+pysqlite") else url


def _read_only_file(url: sa.URL, spec: Spec) -> sa.URL:
    """URL that opens an existing SQLite file read-only; otherwise SQLite would create the file."""
    if url.database is None or url.database == ":memory:" or url.database.startswith("file:"):
        return url
    file = Path(os.path.normpath(spec.folder / Path(url.database).expanduser()))
    if not file.is_file():
        raise SourceUnreachable(
            f"{file}: no such file; wanted an SQLite file there; a relative path starts at the folder of the pipeline "
            "file"
        )
    return url.set(database=f"file:{quote(str(file))}").update_query_dict({"mode": "ro", "uri": "true"})


def _engine(url: sa.URL, place: str) -> sa.Engine:
    options: dict[str, Any] = {}
    if url.get_backend_name() == "postgresql" and "connect_timeout" not in url.query:
        options["connect_timeout"] = CONNECT_SECONDS
    try:
        engine = sa.create_engine(url, poolclass=NullPool, connect_args=options)
    except sa.exc.NoSuchModuleError:
        raise SourceError(
            f"{place}: found a database '{url.drivername}', which SQLAlchemy does not support; wanted one such as "
            "postgresql+psycopg or sqlite"
        ) from None
    except ImportError as error:
        install = f"install {error.name} in the same environment"
        if url.get_backend_name() == "postgresql":
            install = "write postgresql+psycopg:// and pip install 'harbor-forecaster[postgres]'"
        raise MissingExtra(f"{place} needs the driver {error.name}, which is not installed here: {install}") from None
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        sa.event.listen(engine, "connect", _read_any_text)
    return engine


def _read_any_text(connection: Any, _: object) -> None:
    """Decode text that is not UTF-8 with escapes; otherwise it would fail the whole table."""
    connection.text_factory = lambda content: content.decode("utf-8", "backslashreplace")


@contextmanager
def _translated_errors(place: str, source: SqlSource) -> Iterator[None]:
    """Translate errors of the database into those of this package."""
    try:
        yield
    except sa.exc.DBAPIError as error:
        message = _driver_message(error)
        if _may_pass(error):
            raise SourceUnreachable(f"{place}: cannot be reached: {message}") from None
        raise SourceError(f"{place}: cannot be read: {message}; wanted {_expected(source)}") from None
    except (sa.exc.SQLAlchemyError, OSError, ValueError) as error:
        raise SourceError(f"{place}: cannot be read: {error}; wanted {_expected(source)}") from None


def _driver_message(error: sa.exc.DBAPIError) -> str:
    """Message of the database in one line; for PostgreSQL, without the echoed statement."""
    diagnosis = getattr(error.orig, "diag", None)
    return " ".join((getattr(diagnosis, "message_primary", None) or str(error.orig)).split())


def _expected(source: SqlSource) -> str:
    return f"a valid query, not {source.query!r}" if source.query else f"a table '{source.table}'"


def _may_pass(error: sa.exc.DBAPIError) -> bool:
    """True if another try may succeed."""
    if error.connection_invalidated:
        return True
    if not isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError):
        return False
    if name := getattr(error.orig, "sqlite_errorname", None):
        return "_".join(name.split("_")[:2]) in _PASSING
    if state := getattr(error.orig, "sqlstate", None):
        return not state.startswith(_WRONG_STATES)
    return not _FINAL.search(str(error.orig))
