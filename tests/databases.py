"""A real PostgreSQL for the tests that need one: Debian's, in its own temporary folder."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from tests.ports import free_port

PASSWORD = "p@ss/w:rd %25'\"ü"
"""Password of the owner, with every character that a URL, a shell or a string could misinterpret."""


@dataclass(frozen=True)
class Postgres:
    """A running server with password authentication."""

    port: int
    folder: Path
    command: tuple[str, ...]
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    """All started servers, the running one last."""

    def start(self) -> None:
        """Start the server and return once it responds."""
        with (self.folder / "log").open("ab") as log:
            server = subprocess.Popen(self.command, cwd=self.folder, stdout=log, stderr=log, **_somebody())
        self.processes.append(server)
        _wait_for(server, self, self.folder / "log")

    def stop(self) -> None:
        """Stop the server without waiting for clients: it disconnects them (`fast`)."""
        self.processes[-1].send_signal(signal.SIGINT)
        self.processes[-1].wait(30)

    def url(self, password: str = PASSWORD, database: str = "postgres") -> sa.URL:
        return sa.URL.create("postgresql+psycopg", "owner", password, "127.0.0.1", self.port, database)

    def run(self, *statements: str) -> None:
        """Execute statements in one transaction."""
        engine = sa.create_engine(self.url(), poolclass=sa.NullPool)
        with engine.begin() as connection:
            for statement in statements:
                connection.exec_driver_sql(statement)

    def run_alone(self, statement: str) -> None:
        """Execute a statement that cannot run in a transaction."""
        engine = sa.create_engine(self.url(), isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with engine.connect() as connection:
            connection.exec_driver_sql(statement)


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs, the newest if there are several."""
    installed = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    on_path = shutil.which("initdb")
    return installed[-1].parent if installed else Path(on_path).parent if on_path else None


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """Yield a server for the whole test session; skip if PostgreSQL is not installed."""
    if programs() is None:
        pytest.skip("no PostgreSQL on this machine: `apt install postgresql` brings one")
    with postgres_server() as server:
        yield server


@contextmanager
def postgres_server(*settings: str) -> Iterator[Postgres]:
    """Run a server while the block runs, with additional settings, such as `max_connections=20`."""
    bin = programs()
    assert bin is not None, "no PostgreSQL on this machine"
    folder = Path(tempfile.mkdtemp(prefix="forecaster-postgres-"))
    try:
        server = _made(bin, folder, settings)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_database(server: Postgres, kind: str) -> Iterator[str]:
    """Yield the URL of an empty database, which is dropped afterwards even if clients are
    connected."""
    name = f"{kind}_{uuid4().hex}"
    server.run_alone(f"create database {name}")
    try:
        yield server.url(database=name).render_as_string(hide_password=False)
    finally:
        server.run_alone(f"drop database {name} with (force)")


def _made(bin: Path, folder: Path, settings: tuple[str, ...]) -> Postgres:
    user = _somebody()
    if user:
        shutil.chown(folder, user["user"], user["group"])
    (folder / "password").write_text(PASSWORD + "\n", "utf-8")
    (folder / "password").chmod(0o644)
    make = f"-D {folder}/data -U owner --pwfile {folder}/password --auth scram-sha-256 --encoding UTF8 --locale C"
    subprocess.run([bin / "initdb", *make.split()], cwd=folder, check=True, capture_output=True, **user)
    port = free_port()
    always = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off", "timezone=America/New_York")
    words = [str(bin / "postgres"), "-D", str(folder / "data"), "-p", str(port)]
    return Postgres(port, folder, (*words, *(f"--{setting}" for setting in (*always, *settings))))


def _somebody() -> dict[str, Any]:
    """Return the user to run it as: PostgreSQL refuses to run as root."""
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
