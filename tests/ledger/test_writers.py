"""Concurrent writers, and a writer killed while it writes."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from forecaster.errors import LedgerError
from forecaster.ledger import connect
from forecaster.ledger.store import Ledger
from tests.databases import Postgres, new_database
from tests.ledger.publications import publication, start

ROOT = Path(__file__).parents[2]


def test_writer_reports_a_lock_timeout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "WAIT_SECONDS", 0.05)
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    with (
        Ledger.open(url, patience=connect.ATTENDED) as ledger,
        closing(sqlite3.connect(tmp_path / "ledger.db", isolation_level=None)) as other,
    ):
        other.execute("begin immediate")
        with pytest.raises(LedgerError, match="another program has been writing to it"):
            start(ledger, "night-1")
        with Ledger.open_reader(url) as reader:  # readers do not wait
            assert reader.current() is None
        other.execute("rollback")
        start(ledger, "night-1")


@pytest.mark.parametrize(("patience", "milliseconds"), [(connect.ATTENDED, 20_000), (connect.PATIENCE, 60_000)])
def test_busy_timeout_is_longer_for_runs_than_for_planners(tmp_path: Path, patience: float, milliseconds: int) -> None:
    with (
        Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}", patience=patience) as ledger,
        ledger.transaction() as connection,
    ):
        assert connection.exec_driver_sql("pragma busy_timeout").scalar_one() == milliseconds


def test_run_outlasts_a_planner_holding_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connect, "WAIT_SECONDS", 0.01)
    file = tmp_path / "ledger.db"
    with (
        Ledger.open(f"sqlite:///{file}") as night,
        closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as planner,
    ):
        planner.execute("begin immediate")
        done = threading.Timer(0.5, planner.execute, ["rollback"])
        done.start()
        start(night, "night-1")
        done.join()
        assert [run.run_id for run in night.runs()] == ["night-1"]


@pytest.mark.long
def test_writer_survives_a_database_restart_and_holds_no_idle_connection(postgres: Postgres) -> None:
    with new_database(postgres, "restarted") as url, Ledger.open(url) as ledger, Ledger.open(url, patience=0) as hasty:
        start(ledger, "night-1")
        database = url.rpartition("/")[2]
        connections = f"select 1 / (count(*) = 0)::int from pg_stat_activity where datname = '{database}'"
        postgres.run(connections)  # division by zero if there is a connection
        postgres.stop()
        with pytest.raises(LedgerError, match=r"Connection refused$"):
            hasty.runs()
        starting = threading.Timer(0.3, postgres.start)
        starting.start()
        ledger.finish_run("night-1", "failed", 1)
        starting.join()
        assert [run.outcome for run in ledger.runs()] == ["failed"]
        postgres.run(f"create role {database} login password 'x'", f"alter database {database} connection limit 0")
        guest = sa.make_url(url).set(username=database, password="x").render_as_string(hide_password=False)
        with pytest.raises(LedgerError, match=r"too many connections for database .*; tried for 0.5 s"):
            Ledger.open(guest, patience=0.5)


def test_two_writers_can_create_the_ledger_at_once(url: str) -> None:
    code = f"from forecaster.ledger.store import Ledger; Ledger.open({url!r}).close()"
    racing = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) for _ in range(2)]
    assert [process.wait(60) for process in racing] == [0, 0]
    with Ledger.open_reader(url) as reader:
        assert reader.current() is None


def test_writer_waits_for_another_one_creating_the_file(tmp_path: Path) -> None:
    """SQLite does not wait when it switches to a write-ahead log."""
    file = tmp_path / "ledger.db"
    with closing(sqlite3.connect(file, isolation_level=None, check_same_thread=False)) as maker:
        maker.execute("begin immediate")
        threading.Timer(0.3, maker.rollback).start()
        Ledger.open(f"sqlite:///{file}").close()
    with closing(sqlite3.connect(file)) as reader:
        assert reader.execute("pragma journal_mode").fetchone() == ("wal",)


@pytest.mark.long
def test_a_writer_killed_while_publishing_leaves_one_whole_publication(url: str) -> None:
    """All depots of a publication expect the same orders: two numbers in one publication would mean
    a torn one."""
    rng = random.Random(0)
    torn: list[object] = []
    publication_ids: set[int] = set()
    finished = threading.Event()
    with Ledger.open(url) as ledger:
        start(ledger, "night-1")
        ledger.publish(publication(depots=40))

    def read() -> None:
        with Ledger.open_reader(url) as reader:
            while not finished.is_set():
                try:
                    head = reader.current()
                    assert head is not None
                    depots = reader.depots(head.publication_id)
                except (LedgerError, AssertionError) as error:
                    torn.append(error)
                    return
                if depots:  # otherwise eight newer ones were published between the two reads
                    publication_ids.add(head.publication_id)
                    if len(depots) != 40 or len({day.quantiles for depot in depots for day in depot.days}) != 2:
                        torn.append((head, depots))

    reader = threading.Thread(target=read)
    reader.start()
    writers = subprocess.Popen(
        [sys.executable, "-m", "tests.ledger.killed_writers", url],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
    )
    assert writers.stdin is not None
    assert writers.stdout is not None
    try:
        for kill in range(100):
            if kill >= 10 and len(publication_ids) > 1:
                break
            seconds = rng.uniform(0.0, 0.12)
            print(f"kill-{kill}", seconds, file=writers.stdin, flush=True)
            assert writers.stdout.readline() == f"{-signal.SIGKILL}\n"
            with Ledger.open(url) as ledger:
                head = ledger.current()
                assert head is not None
                depots_ = ledger.depots(head.publication_id)
                assert len(depots_) == 40
                assert len({depot.days for depot in depots_}) == 1
                assert ledger.runs(limit=1)[0].outcome == "running"  # the killed run is visible as such
    finally:
        finished.set()
        reader.join()
        writers.communicate(timeout=60)
    assert torn == []
    assert len(publication_ids) > 1
