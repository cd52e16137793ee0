"""Lease (mutex with expiry) on a pipeline: one run at a time works on it, and a dead one keeps
nobody out for long.

A holder renews its lease while it lives. Killed on the machine that asks, it is found at once, by
its process; killed elsewhere, when the lease has expired. One that lives here and does not renew
hangs, and loses its lease too; since a clock may be moved, the caller first waits for one renewal
more (`run_start.begin`).

Each function works on a connection whose transaction the caller holds.
"""

from __future__ import annotations

import os
import platform
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

import sqlalchemy as sa

from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.errors import DEGRADED, OUR_FAULT, LedgerError, LostLease
from forecaster.ledger import tables
from forecaster.ledger.columns.sentences import sentence_values

LASTS = timedelta(minutes=10)  # without renewal
WAS_KILLED = "it was killed"
"""How the message of a run begins that another one closed."""
_KILLED = N_("it was killed, or its machine went down; run {run} detected it")
_KILLED_LATER = N_("it was killed after it had published, or its machine went down; run {run} detected it")
RENEWED = 60.0  # seconds from one renewal to the next


@dataclass(frozen=True)
class Lease:
    """The right of one run to work on a pipeline."""

    pipeline: str
    run_id: str
    holder: str  # the process, as `this_process` names it
    taken_at: datetime
    expires_at: datetime

    def sentence(self, zone: tzinfo = UTC) -> str:
        """Sentence about the holder, by the clocks of a zone."""
        host, _, pid, _ = self.holder.split(" ")
        since = self.taken_at.astimezone(zone)
        return sentence(
            N_("run {run} has been active since {day} {time} (process {process} on {host})"),
            run=self.run_id,
            day=since.date(),
            time=f"{since:%H:%M %Z}",
            process=pid,
            host=host,
        )


def this_process() -> str:
    """Host, boot of the host, process id and the process's start: no later process has the same."""
    return process_name(os.getpid())


def process_name(pid: int) -> str:
    """Host, boot of the host, process id and the process's start, of a process of this machine."""
    return f"{platform.node() or '-'} {_boot()} {pid} {_start_ticks(pid)}"


def process_id(holder: str) -> int:
    return int(holder.split(" ")[2])


def is_gone(holder: str) -> bool | None:
    """True if a process of this machine has ended; None for one of another machine, of which
    nothing is known."""
    host, boot, pid, start = holder.split(" ")
    if host != (platform.node() or "-"):
        return None
    return boot != _boot() or _start_ticks(int(pid)) != start


def read_lease(connection: sa.Connection, pipeline: str, *, to_read: bool = False) -> Lease | None:
    """The lease as last written, whether or not its holder lives; locked, unless it is wanted
    `to_read` alone."""
    query = sa.select(tables.lease).where(tables.lease.c.pipeline == pipeline)
    row = connection.execute(query if to_read else query.with_for_update()).mappings().one_or_none()
    return None if row is None else Lease(**row)


def take(
    connection: sa.Connection, pipeline: str, run_id: str, now: datetime, hung: Lease | None = None
) -> Lease | None:
    """Take the lease; where another run that lives has it, nothing is changed, and its lease is
    returned.

    `hung` is a lease that is known to be renewed no more: it is taken as long as it is as it was.
    """
    current = read_lease(connection, pipeline)
    if current is not None and current.run_id != run_id and not _has_lapsed(current, now) and current != hung:
        return current
    connection.execute(tables.lease.delete().where(tables.lease.c.pipeline == pipeline))
    row = {"pipeline": pipeline, "run_id": run_id, "holder": this_process()}
    connection.execute(tables.lease.insert().values(**row, taken_at=now, expires_at=now + LASTS))
    return None


def lives(connection: sa.Connection, pipeline: str, run_id: str, now: datetime) -> bool:
    """True if a run holds the lease and, as far as anyone can tell, is at work."""
    current = read_lease(connection, pipeline, to_read=True)
    return current is not None and current.run_id == run_id and not _has_lapsed(current, now)


def seems_hung(lease: Lease, now: datetime) -> bool:
    """True if a process of this machine lives and should have renewed its lease by now, if the
    clock is right."""
    return lease.expires_at <= now and is_gone(lease.holder) is False


def end_holder(lease: Lease) -> bool:
    """End the process that holds a lease, if it is one of this machine; whether that could be done.

    Its children end with it, since one that was stopped together with it would not notice that it
    is gone.
    """
    if is_gone(lease.holder) is not False:
        return False
    holder = process_id(lease.holder)
    children = _descendants(holder)
    try:
        os.kill(holder, signal.SIGKILL)
    except OSError:
        return False
    for child in children:
        with suppress(OSError):
            os.kill(child, signal.SIGKILL)
    return True


def renew(connection: sa.Connection, run_id: str, now: datetime) -> bool:
    """Go on holding; False when the lease is another's by now."""
    renewal = tables.lease.update().where(tables.lease.c.run_id == run_id)
    return connection.execute(renewal.values(expires_at=now + LASTS)).rowcount > 0


def admit(connection: sa.Connection, pipeline: str, run_id: str) -> None:
    """Raises LostLease where another run has the lease, or had it and closed this one: after a
    pause so long that this one was taken for dead."""
    current = read_lease(connection, pipeline)
    if current is not None and current.run_id != run_id:
        raise LostLease(f"not for run {run_id} any more: {current.sentence()}")
    runs = tables.runs.c
    closed = sa.select(runs.message).where(runs.run_id == run_id, runs.message.startswith(WAS_KILLED))
    if current is None and (row := connection.execute(closed).one_or_none()) is not None:
        raise LostLease(f"not for run {run_id} any more, which was closed: {row.message}")


def give_back(connection: sa.Connection, run_id: str) -> None:
    connection.execute(tables.lease.delete().where(tables.lease.c.run_id == run_id))


def close_dead(connection: sa.Connection, pipeline: str, now: datetime, found_by: str) -> list[str]:
    """Give each run of a pipeline that was never ended, and no longer holds the lease, its outcome;
    returns their ids.

    Call it while the lease is `found_by`'s.
    """
    runs = tables.runs.c
    query = sa.select(runs.run_id).where(runs.pipeline == pipeline, runs.finished_at.is_(None), runs.run_id != found_by)
    dead = list(connection.execute(query.order_by(runs.started_at)).scalars())
    published = tables.publications.c.run_id
    published_runs = set(connection.execute(sa.select(published).where(published.in_(dead))).scalars())
    for run_id in dead:
        has_published = run_id in published_runs
        message = sentence(_KILLED_LATER if has_published else _KILLED, run=found_by)
        outcome, code = ("degraded", DEGRADED) if has_published else ("failed", OUR_FAULT)
        columns = {"outcome": outcome, "exit_code": code, "finished_at": now, **sentence_values("message", message)}
        connection.execute(tables.runs.update().where(runs.run_id == run_id).values(**columns))
    return dead


@contextmanager
def renewed_while_open(
    renewal: Callable[[], bool],
    every: float = RENEWED,
    longest: float = float("inf"),
    on_loss: Callable[[], None] = lambda: None,
) -> Iterator[None]:
    """Heartbeat: renew a lease from a thread while open, for `longest` seconds: a run that takes
    longer hangs.

    What fails is tried again next time: the lease outlasts many renewals. `on_loss` is called, from
    that thread, once the lease is another's.
    """
    stop = threading.Event()
    begun = time.monotonic()

    def renewing() -> None:
        while not stop.wait(every) and time.monotonic() - begun < longest:
            try:
                if not renewal():
                    on_loss()
                    return
            except LedgerError:
                continue

    thread = threading.Thread(target=renewing, name="lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _has_lapsed(lease: Lease, now: datetime) -> bool:
    is_dead = is_gone(lease.holder)
    return lease.expires_at <= now if is_dead is None else is_dead


def _descendants(parent: int) -> list[int]:
    """The processes that a process has started, and those that they have; none where the system
    does not say."""
    parents = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(file.parent.name)] = int(
                file.read_text("utf-8", errors="replace").rpartition(")")[2].split()[1]
            )
        except (OSError, IndexError, ValueError):
            continue
    below = [parent]
    for pid in below:
        below += [child for child, its_parent in parents.items() if its_parent == pid]
    return below[1:]


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "-"


def _start_ticks(pid: int) -> str:
    """Start of a process, in ticks since the boot; empty when there is none, "-" where the system
    does not say."""
    if not Path("/proc/self/stat").exists():
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return ""
        except PermissionError:
            return "-"
        return "-"
    try:
        after_name = Path(f"/proc/{pid}/stat").read_text("utf-8", errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if after_name[0] == "Z" else after_name[19]
