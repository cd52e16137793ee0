"""Start of a run: its row and the lease are written together, and runs that died before are closed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from forecaster.config import Spec
from forecaster.errors import BUSY
from forecaster.ledger import lease, tables
from forecaster.ledger.lease import Lease
from forecaster.ledger.records import Kind
from forecaster.ledger.store import Ledger


@dataclass(frozen=True)
class RunStart:
    """A run whose row is written. With a `rival` it is over already: the rival is at work."""

    run_id: str
    closed_runs: tuple[str, ...] = ()  # earlier runs without an end, which have one now
    rival: Lease | None = None


def begin(
    ledger: Ledger, spec: Spec, *, run_id: str, kind: Kind, as_of: datetime, now: datetime | None = None
) -> RunStart:
    """Write the run row and take the lease; the run row of one who comes second ends as `busy`.

    Raises LedgerError when the ledger cannot be written or the run id is taken.
    """
    at = now or datetime.now(UTC)
    ledger.start_run(run_id, pipeline=spec.name, as_of=as_of, spec_digest=spec.digest, kind=kind, at=at)
    with ledger.transaction() as connection:
        if connection.dialect.name == "postgresql":  # where there is no lease yet, there is no row to lock
            connection.exec_driver_sql("select pg_advisory_xact_lock(7261131)")
        rival = lease.take(connection, spec.name, run_id, at)
        closed_runs = () if rival else tuple(lease.close_dead(connection, spec.name, at, run_id))
        if rival is None:
            return RunStart(run_id, closed_runs)
        columns = {"outcome": "busy", "exit_code": BUSY, "finished_at": at, "message": rival.sentence(spec.zone)}
        connection.execute(tables.runs.update().where(tables.runs.c.run_id == run_id).values(**columns))
    return RunStart(run_id, rival=rival)


@contextmanager
def lease_renewed(ledger: Ledger, run_id: str) -> Iterator[None]:
    """Renew the run's lease while open."""

    def renewal() -> bool:
        with ledger.transaction() as connection:
            return lease.renew(connection, run_id, datetime.now(UTC))

    with lease.renewed_while_open(renewal):
        yield
