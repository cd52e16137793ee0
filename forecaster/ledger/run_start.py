"""Start of a run: write its row together with the lease, close dead runs, report a lost ledger."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import sqlalchemy as sa

from forecaster.config import Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.errors import BUSY, LakeError
from forecaster.lake import NOT_THERE, Lake
from forecaster.ledger import connect, lease, records, soundness, tables
from forecaster.ledger.columns.sentences import sentence_values
from forecaster.ledger.lease import Lease
from forecaster.ledger.records import Kind
from forecaster.ledger.store import Ledger

LOST = N_(
    "Lake and models of earlier nights exist, but no ledger at {place}: `forecaster restore` restores it from a "
    "backup; otherwise a new one is created."
)


@dataclass(frozen=True)
class RunStart:
    """A run whose row is written. If it has a `rival`, which is at work, this run is over already."""

    run_id: str
    closed_runs: tuple[str, ...] = ()  # earlier unfinished runs, now closed
    # lease of the run that was at work here without renewing it, and was killed
    hung: Lease | None = None
    rival: Lease | None = None


def begin(
    ledger: Ledger,
    spec: Spec,
    *,
    run_id: str,
    kind: Kind,
    as_of: datetime,
    night: datetime | None = None,
    now: datetime | None = None,
) -> RunStart:
    """Write the run row and take the lease; a run that comes second ends as `busy`.

    `night` is the scheduled instant of the run.

    Raises LedgerError if the ledger is not writable, its pages are damaged or the run id is taken.
    """
    # A reader, which does not block writers.
    with Ledger.open_reader(ledger.url, patience=connect.PATIENCE) as reader, reader.transaction() as connection:
        soundness.require_sound(connection)
    at = now or datetime.now(UTC)
    row = {"run_id": run_id, "pipeline": spec.name, "as_of": as_of, "spec_digest": spec.digest, "kind": kind}
    with ledger.transaction() as connection:
        # Together with the lease: other runs treat an unfinished row without a lease as a dead run.
        records.add_run(connection, row | {"started_at": at, "lake_versions": {}, "night": night})
        start = _take_or_close(connection, spec, run_id, at)
        hung = start.rival if start.rival and lease.seems_hung(start.rival, at) else None
        if hung is None:
            _end_if_second(connection, spec, start, at)
    if hung is None:
        return start
    is_renewed = _is_renewed(ledger, hung)
    with ledger.transaction() as connection:
        if not is_renewed:
            start = _take_or_close(connection, spec, run_id, at, hung=hung)
        _end_if_second(connection, spec, start, at)
    if start.rival:  # renewed after all, or another run was first
        return start
    lease.end_holder(hung)
    return replace(start, hung=hung)


def _take_or_close(
    connection: sa.Connection, spec: Spec, run_id: str, at: datetime, hung: Lease | None = None
) -> RunStart:
    """Take the lease and close dead runs; if a rival holds it, return the rival."""
    # without a lease there is no row to lock
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("select pg_advisory_xact_lock(7261131)")
    if rival := lease.take(connection, spec.name, run_id, at, hung):
        return RunStart(run_id, rival=rival)
    return RunStart(run_id, tuple(lease.close_dead(connection, spec.name, at, run_id)))


def _end_if_second(connection: sa.Connection, spec: Spec, start: RunStart, at: datetime) -> None:
    """Close a run that has a rival, as `busy`."""
    if start.rival:
        columns = {"outcome": "busy", "exit_code": BUSY, "finished_at": at}
        columns |= sentence_values("message", start.rival.sentence(spec.zone))
        connection.execute(tables.runs.update().where(tables.runs.c.run_id == start.run_id).values(**columns))


def _is_renewed(ledger: Ledger, hung: Lease) -> bool:
    """Return true if a lease changes within the time in which a living holder renews it,
    independent of clock changes."""
    end = time.monotonic() + 1.5 * lease.RENEWED
    while time.monotonic() < end:
        with ledger.transaction() as connection:
            if lease.read_lease(connection, hung.pipeline, to_read=True) != hung:
                return True
        time.sleep(min(1.0, lease.RENEWED / 10))
    return False


@contextmanager
def lease_renewed(
    ledger: Ledger, run_id: str, *, longest: float = float("inf"), on_loss: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Renew the run's lease while open, for at most `longest` seconds; `on_loss` is called once
    another run holds it."""

    def renewal() -> bool:
        with ledger.transaction() as connection:
            return lease.renew(connection, run_id, datetime.now(UTC))

    with lease.renewed_while_open(renewal, lease.RENEWED, longest, on_loss):
        yield


def lost_ledger(spec: Spec) -> str | None:
    """Sentence about the missing ledger; None if there is one, or none was needed yet."""
    file = connect.sqlite_file(spec.ledger_url)
    if file is None or (file.exists() and file.stat().st_size):
        return None
    if not any(spec.paths.bundles.glob("*/manifest.json")):
        return None
    with suppress(LakeError):
        if Lake(spec.lake_url).version("demand") != NOT_THERE:
            return sentence(LOST, place=str(file))
    return None
