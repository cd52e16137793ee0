"""A real PostgreSQL for the tests that need one: Debian's, in a folder of its own, gone afterwards."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

PASSWORD = "p@ss/w:rd %25'\"ü"
"""Of the owner: every character that a URL, a shell or a string could stumble over."""


@dataclass(frozen=True)
class Postgres:
    """A running server with password authentication."""

    port: int

    def url(self, password: str = PASSWORD, database: str = "postgres") -> sa.URL:
        return sa.URL.create("postgresql+psycopg", "owner", password, "127.0.0.1", self.port, database)

    def run(self, *statements: str) -> None:
        """Execute statements, in one transaction."""
        engine = sa.create_engine(self.url(), poolclass=sa.NullPool)
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def run_alone(self, statement: str) -> None:
        """Execute a statement that no transaction may hold."""
        engine = sa.create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)


def programs() -> Path | None:
    """Where PostgreSQL's programs lie, the newest if there are several."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return installed[-1].parent if installed else Path(on_path).parent if on_path else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server for the whole test run; skips where PostgreSQL is not installed."""
    bin = programs()
    if bin is None:
        pytest.skip("no PostgreSQL on this machine: `apt install postgresql` brings one")
    folder = Path(tempfile.mkdtemp(prefix="forecaster-postgres-"))
    try:
        yield from _running(bin, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_database(server: Postgres, kind: str) -> Iterator[str]:
    """The URL of an empty database, which is dropped afterwards, whoever still looks at it."""
    name = f"{kind}_{uuid4().hex}"
    server.run_alone(f"create database {name}")
    try:
        yield server.url(database=name).render_as_string(hide_password=False)
    finally:
        server.run_alone(f"drop database {name} with (force)")


def _running(bin: Path, folder: Path) -> Iterator[Postgres]:
    user = _somebody()
    if user:
        shutil.chown(folder, user["user"], user["group"])
    (folder / "password").write_text(PASSWORD + "\n", "utf-8")
    (folder / "password").chmod(0o644)
    make = f"-D {folder}/data -U owner --pwfile {folder}/password --auth scram-sha-256 --encoding UTF8 --locale C"
    subprocess.run([bin / "initdb", *make.split()], cwd=folder, check=True, capture_output=True, **user)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    settings = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "timezone=America/New_York")
    command = [bin / "postgres", "-D", folder / "data", "-p", str(port), *(f"--{setting}" for setting in settings)]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, **user)
    try:
        _wait_for(server, database := Postgres(port), folder / "log")
        yield database
    finally:
        server.terminate()
        server.wait(30)


def _somebody() -> dict[str, Any]:
    """Whom to run it as: PostgreSQL refuses to be root."""
    if os.getuid() != 0:
        return {}
    names = {entry.pw_name for entry in pwd.getpwall()}
    entry = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


def _wait_for(server: subprocess.Popen[bytes], database: Postgres, log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            return database.run("select 1")
        except sa.exc.OperationalError:
            if server.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"PostgreSQL did not start: {log.read_text('utf-8', errors='replace')}")
            time.sleep(0.1)
