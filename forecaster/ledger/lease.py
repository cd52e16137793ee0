"""Lease (mutex with expiry) on a pipeline: one run at a time works on it, and a dead run soon
blocks nobody.

A holder renews its lease while it lives. If it was killed on the machine that checks, this is
detected at once, by its process; elsewhere, when the lease has expired. A holder that lives on this
machine but does not renew is hung, and loses its lease too; since a clock may be changed, the
caller first waits for one more renewal (`run_start.begin`).

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
"""Prefix of the message of a run that another one closed."""
_KILLED = N_("it was killed, or its machine went down; run {run} detected it")
_KILLED_LATER = N_("it was killed after it had published, or its machine went down; run {run} detected it")
RENEWED = 60.0  # seconds from one renewal to the next


@dataclass(frozen=True)
class Lease:
    """The right of one run to work on a pipeline."""

    pipeline: str
    run_id: str
    holder: str  # the process, as named by `this_process`
    taken_at: datetime
    expires_at: datetime

    def sentence(self, zone: tzinfo = UTC) -> str:
        """Sentence about the holder, in local time of a zone."""
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
    """Host, boot of the host, process id and start of the process; no later process has the same."""
    return process_name(os.getpid())


def process_name(pid: int) -> str:
    """Host, boot of the host, process id and start of a process of this machine."""
    return f"{platform.node() or '-'} {_boot()} {pid} {_start_ticks(pid)}"


def process_id(holder: str) -> int:
    return int(holder.split(" ")[2])


def is_gone(holder: str) -> bool | None:
    """Return true if a process of this machine has ended; None for other machines, whose processes
    are unknown."""
    host, boot, pid, start = holder.split(" ")
    if host != (platform.node() or "-"):
        return None
    return boot != _boot() or _start_ticks(int(pid)) != start


def read_lease(connection: sa.Connection, pipeline: str, *, to_read: bool = False) -> Lease | None:
    """Read the lease as last written, whether or not its holder lives; the row is locked unless
    `to_read`."""
    query = sa.select(tables.lease).where(tables.lease.c.pipeline == pipeline)
    row = connection.execute(query if to_read else query.with_for_update()).mappings().one_or_none()
    return None if row is None else Lease(**row)


def take(
    connection: sa.Connection, pipeline: str, run_id: str, now: datetime, hung: Lease | None = None
) -> Lease | None:
    """Take the lease; if another living run holds it, change nothing and return its lease.

    `hung` is a lease known to be no longer renewed: it is taken if it is still unchanged.
    """
    current = read_lease(connection, pipeline)
    if current is not None and current.run_id != run_id and not _has_lapsed(current, now) and current != hung:
        return current
    connection.execute(tables.lease.delete().where(tables.lease.c.pipeline == pipeline))
    row = {"pipeline": pipeline, "run_id": run_id, "holder": this_process()}
    connection.execute(tables.lease.insert().values(**row, taken_at=now, expires_at=now + LASTS))
    return None


def lives(connection: sa.Connection, pipeline: str, run_id: str, now: datetime) -> bool:
    """Return true if a run holds the lease and appears to be at work."""
    current = read_lease(connection, pipeline, to_read=True)
    return current is not None and current.run_id == run_id and not _has_lapsed(current, now)


def seems_hung(lease: Lease, now: datetime) -> bool:
    """Return true if a process of this machine lives but is overdue to renew its lease, provided
    the clock is right."""
    return lease.expires_at <= now and is_gone(lease.holder) is False


def end_holder(lease: Lease) -> bool:
    """Kill the process that holds a lease if it is on this machine; return true on success.

    Its children are killed too: one that was stopped together with it would not notice its end.
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
    """Extend the lease; False if another run holds it by now."""
    renewal = tables.lease.update().where(tables.lease.c.run_id == run_id)
    return connection.execute(renewal.values(expires_at=now + LASTS)).rowcount > 0


def admit(connection: sa.Connection, pipeline: str, run_id: str) -> None:
    """Raise LostLease if another run holds the lease, or held it and closed this run, which paused
    so long that it seemed dead."""
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
    """Set the outcome of each unfinished run of a pipeline that no longer holds the lease; return
    their ids.

    Call it while `found_by` holds the lease.
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
    """Heartbeat: renew a lease from a thread while open, for at most `longest` seconds, after which
    a run counts as hung.

    A failed renewal is retried next time: the lease outlasts many renewals. `on_loss` is called,
    from that thread, once another run holds the lease.
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
    """Child processes of a process and all their descendants; empty if the system does not report
    them."""
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
    """Start of a process, in ticks since boot; empty if there is none, "-" if the system does not
    report it."""
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
