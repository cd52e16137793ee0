"""Replacement of a ledger's SQLite file that is damaged, or of a version that this program cannot read: whether a run
is at work is looked up in it where that can be read, and it is put aside, so that a new ledger takes its place."""

from __future__ import annotations

import fcntl
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from urllib.parse import quote

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from forecaster.errors import LedgerError, UnusableLedger
from forecaster.ledger import lease
from forecaster.ledger.lease import Lease

WAIT_SECONDS = 5.0  # for programs that have the file open
LOG, INDEX = "-wal", "-shm"  # what belongs to the file, and lies beside it
_FIRST_LOCK, _LOCKS = 0x4000_0000, 512  # the bytes that SQLite locks: https://sqlite.org/src/file/src/os.h


def read_lease(file: Path, pipeline: str) -> Lease | None:
    """The lease on a pipeline in a ledger of any revision. Raises UnusableLedger where it cannot be read."""
    address = f"file:{quote(str(file))}?mode=ro"
    connect = partial(sqlite3.connect, address, uri=True, timeout=WAIT_SECONDS)
    engine = sa.create_engine("sqlite://", poolclass=NullPool, creator=connect)
    try:
        with engine.begin() as connection:
            current = lease.read_lease(connection, pipeline, to_read=True)
        if current is not None:
            lease.is_gone(current.holder)  # raises ValueError where the name of a process is none
        return current
    except (SQLAlchemyError, LedgerError, ValueError, TypeError) as error:
        raise UnusableLedger(f"the lease in {file} cannot be read") from error
    finally:
        engine.dispose()


def require_unused(file: Path) -> None:
    """Raises LedgerError where another program has a ledger's file open for longer than five seconds, which
    `put_aside` would refuse; OSError where the file cannot be written."""
    with _locked(file):
        pass


def put_aside(file: Path, now: datetime) -> Path:
    """Rename a ledger's file and its log, with the instant in their names; where the file is then.

    Raises LedgerError where another program has it open for longer than five seconds, OSError where the folder cannot
    be written.
    """
    aside = file.with_name(f"{file.name}.replaced-{now:%Y%m%dT%H%M%S}")
    with _locked(file):
        for suffix in (LOG, INDEX):  # first: a new file must never come to lie beside them
            with suppress(FileNotFoundError):
                file.with_name(file.name + suffix).rename(aside.with_name(aside.name + suffix))
        file.rename(aside)
    return aside


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    """Hold what SQLite locks of a file, which every program that has a ledger open has a share of."""
    deadline = time.monotonic() + WAIT_SECONDS
    with file.open("r+b") as opened:
        while True:
            try:
                fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB, _LOCKS, _FIRST_LOCK)
                break
            except OSError as error:
                if time.monotonic() > deadline:
                    raise LedgerError(
                        f"the ledger at {file}: another program has it open for more than {WAIT_SECONDS:.0f} seconds; "
                        f"end what is at work on it, and try again"
                    ) from error
            time.sleep(0.05)
        yield
