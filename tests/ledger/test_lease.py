"""One run works on a pipeline at a time; a dead one is detected, closed, and blocks nobody."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec
from forecaster.errors import BUSY, OUR_FAULT, LedgerError
from forecaster.ledger import lease, run_start, tables
from forecaster.ledger.lease import Lease
from forecaster.ledger.store import Ledger
from tests.ledger.publications import publication

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 11, 1, 8, 15, tzinfo=UTC)
SOURCE = {"kind": "csv", "path": "demand.csv"}
SPEC = Spec.model_validate({"name": "harbor-fleet", "timezone": "America/New_York", "demand": {"source": SOURCE}})
ELSEWHERE = "another-host 0c1d 77 123456"


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    with Ledger.open(url) as opened:
        yield opened


def begin(ledger: Ledger, run_id: str, at: datetime = NOW) -> run_start.RunStart:
    return run_start.begin(ledger, SPEC, run_id=run_id, kind="night", as_of=at, now=at)


def held_elsewhere(ledger: Ledger) -> None:
    """Assign the lease to a process of another machine."""
    with ledger.transaction() as connection:
        connection.execute(tables.lease.update().values(holder=ELSEWHERE))


def outcomes(ledger: Ledger) -> dict[str, str]:
    return {run.run_id: run.outcome for run in ledger.runs()}


def seems_killed(url: str, run_id: str) -> bool:
    with Ledger.open_reader(url) as reader:
        [run] = [run for run in reader.runs() if run.run_id == run_id]
        return reader.seems_killed(run, NOW)


def test_second_run_learns_its_rival_and_ends_as_busy(ledger: Ledger) -> None:
    assert begin(ledger, "first").rival is None
    rival = begin(ledger, "second", NOW + timedelta(minutes=1)).rival
    assert rival is not None
    sentence = rival.sentence(SPEC.zone)
    assert sentence.startswith("run first has been active since 2026-11-01 03:15 EST (process ")
    assert outcomes(ledger) == {"first": "running", "second": "busy"}
    [second] = [run for run in ledger.runs() if run.run_id == "second"]
    assert (second.exit_code, second.message) == (BUSY, sentence)
    assert second.finished_at is not None


def test_next_run_begins_after_the_first_has_ended(ledger: Ledger) -> None:
    begin(ledger, "first")
    ledger.finish_run("first", "published", 0)
    assert begin(ledger, "second").rival is None


def test_leases_of_different_pipelines_are_independent(ledger: Ledger) -> None:
    begin(ledger, "first")
    other = SPEC.model_copy(update={"name": "other"})
    assert run_start.begin(ledger, other, run_id="second", kind="night", as_of=NOW).rival is None


def test_run_killed_on_this_machine_is_detected_at_once_and_closed(ledger: Ledger, url: str) -> None:
    code = (
        "import time; from tests.ledger import test_lease as t; from forecaster.ledger.store import Ledger; "
        f"t.begin(Ledger.open({url!r}), 'killed'); print('at work', flush=True); time.sleep(300)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "at work\n"
        assert begin(ledger, "meanwhile").rival is not None
        assert seems_killed(url, "killed") is False
        process.send_signal(signal.SIGKILL)
    assert seems_killed(url, "killed") is True
    assert seems_killed(url, "meanwhile") is False  # it has ended, as busy
    begun = begin(ledger, "next")
    assert (begun.rival, begun.closed_runs) == (None, ("killed",))
    [killed] = [run for run in ledger.runs() if run.run_id == "killed"]
    assert (killed.outcome, killed.exit_code) == ("failed", OUR_FAULT)
    assert killed.message == "it was killed, or its machine went down; run next detected it"


def test_run_on_another_machine_keeps_its_lease_until_expiry(ledger: Ledger) -> None:
    begin(ledger, "elsewhere")
    held_elsewhere(ledger)
    assert begin(ledger, "too-early", NOW + lease.LASTS - timedelta(seconds=1)).rival is not None
    assert begin(ledger, "late-enough", NOW + lease.LASTS).closed_runs == ("elsewhere",)


def test_a_renewed_lease_expires_later(ledger: Ledger) -> None:
    begin(ledger, "elsewhere")
    with ledger.transaction() as connection:
        assert lease.renew(connection, "elsewhere", NOW + timedelta(minutes=9))
    held_elsewhere(ledger)
    assert begin(ledger, "next", NOW + lease.LASTS + timedelta(minutes=8)).rival is not None


def test_living_local_run_survives_clock_changes(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEWED", 2.0)  # seconds; a busy machine needs some
    ended: list[tuple[int, int]] = []
    monkeypatch.setattr(lease.os, "kill", lambda *call: ended.append(call))
    begin(ledger, "alive")
    with run_start.lease_renewed(ledger, "alive"):
        assert begin(ledger, "a-year-later", NOW + timedelta(days=365)).rival is not None
    assert begin(ledger, "a-year-before", NOW - timedelta(days=365)).rival is not None
    assert [call for call in ended if call[1] != 0] == []  # signal 0 only checks whether it lives


def test_hung_local_run_loses_its_lease_and_is_killed(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEWED", 0.2)
    ended: list[tuple[int, int]] = []
    monkeypatch.setattr(lease.os, "kill", lambda *call: ended.append(call))
    begin(ledger, "hung")
    start = begin(ledger, "next", NOW + lease.LASTS)
    assert (start.rival, start.closed_runs) == (None, ("hung",))
    assert start.hung is not None
    assert start.hung.run_id == "hung"
    assert ended[0] == (os.getpid(), signal.SIGKILL)  # its children follow
    assert {sent for _, sent in ended} == {signal.SIGKILL}
    with pytest.raises(LedgerError, match="not for run hung any more: run next has been active"):
        ledger.publish(publication("hung"))


def test_run_closed_as_dead_cannot_publish_even_without_a_lease_holder(ledger: Ledger) -> None:
    begin(ledger, "night-1")
    held_elsewhere(ledger)
    begin(ledger, "night-2", NOW + lease.LASTS)
    ledger.finish_run("night-2", "published", 0)
    with pytest.raises(LedgerError, match="night-1 any more, which was closed: it was killed, or its machine"):
        ledger.publish(publication("night-1"))


def test_run_without_its_lease_can_neither_publish_nor_promote(ledger: Ledger) -> None:
    begin(ledger, "night-1")
    held_elsewhere(ledger)
    begin(ledger, "night-2", NOW + lease.LASTS)
    with pytest.raises(LedgerError, match="not for run night-1 any more: run night-2 has been active"):
        ledger.publish(publication("night-1"))
    with pytest.raises(LedgerError, match="not for run night-1 any more"):
        ledger.promote("harbor-fleet", run_id="night-1", bundle_digest="b0", by="gate", reason="better")
    assert ledger.current("harbor-fleet") is None
    assert ledger.publish(publication("night-2")) > 0
    with ledger.transaction() as connection:
        assert not lease.renew(connection, "night-1", NOW)


def test_only_one_of_many_simultaneous_runs_takes_the_lease(ledger: Ledger) -> None:
    barrier, begun = threading.Barrier(6), list[run_start.RunStart]()

    def start(number: int) -> None:
        barrier.wait()
        begun.append(begin(ledger, f"run-{number}"))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(begun) == 6
    assert sorted(outcomes(ledger).values()) == ["busy"] * 5 + ["running"]
    [first] = [run.run_id for run in begun if run.rival is None]
    assert {run.rival.run_id for run in begun if run.rival} == {first}
    assert [run.closed_runs for run in begun] == [()] * 6  # a run that is just beginning is not taken for dead


def test_a_run_has_no_row_without_the_lease_or_a_rival(ledger: Ledger) -> None:
    """Without a lease the row would be closed as dead, and the run would then take the lease and
    publish anyway."""
    with ledger.transaction() as connection:
        connection.exec_driver_sql("alter table lease rename to away")
    with pytest.raises(LedgerError, match=r"lease|not a ledger of this version"):
        begin(ledger, "first")
    assert ledger.runs() == ()
    with ledger.transaction() as connection:
        connection.exec_driver_sql("alter table away rename to lease")
    assert begin(ledger, "first").rival is None


def test_thread_renews_the_lease_while_open() -> None:
    renewed = threading.Semaphore(0)

    def renewal() -> bool:
        renewed.release()
        return True

    with lease.renewed_while_open(renewal, every=0.001):
        assert renewed.acquire(timeout=30)
        assert renewed.acquire(timeout=30)


def test_on_loss_is_called_when_the_lease_is_lost() -> None:
    lost = threading.Semaphore(0)
    with lease.renewed_while_open(lambda: False, every=0.001, on_loss=lost.release):
        assert lost.acquire(timeout=30)
        assert not lost.acquire(timeout=0.05)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_end_holder_also_kills_stopped_children() -> None:
    sleeps = [sys.executable, "-c", "import time; time.sleep(60)"]
    starts = f"import subprocess, time; print(subprocess.Popen({sleeps!r}).pid, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", starts], stdout=subprocess.PIPE, start_new_session=True) as holder:
        assert holder.stdout is not None
        child = lease.process_name(int(holder.stdout.readline()))
        os.killpg(holder.pid, signal.SIGSTOP)
        held = Lease("harbor", "hung", lease.process_name(holder.pid), NOW, NOW)
        assert lease.end_holder(held)
        assert holder.wait(timeout=30) == -signal.SIGKILL
        deadline = time.monotonic() + 30
        while not lease.is_gone(child):
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_is_gone_knows_local_processes_only() -> None:
    host, boot, pid, started = lease.this_process().split(" ")
    assert lease.is_gone(lease.this_process()) is False
    assert lease.is_gone(f"{host} {boot} {pid} {int(started) - 1}") is True  # the pid was reused by another process
    assert lease.is_gone(f"{host} an-earlier-boot {pid} {started}") is True
    assert lease.is_gone(ELSEWHERE) is None
