"""A ledger's file is put aside with its log, unless another program has it open."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from forecaster.errors import LedgerError, UnusableLedger
from forecaster.ledger import connect
from forecaster.ledger.sqlite import replacement

NOW = datetime(2026, 5, 11, 3, 15, tzinfo=UTC)
HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("pragma journal_mode=wal")
connection.execute("create table t (a)")
print("open", flush=True)
sys.stdin.read()
"""


@contextmanager
def held_open(file: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that has a ledger's file open."""
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "open\n"
        yield holder


def test_a_file_is_put_aside_with_its_log_once_no_other_program_has_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ledger.db"
    monkeypatch.setattr(replacement, "WAIT_SECONDS", 0.2)
    with held_open(file) as holder:
        with pytest.raises(LedgerError, match="another program has it open"):
            replacement.put_aside(file, NOW)
        holder.kill()  # so that its log stays
    log = (tmp_path / "ledger.db-wal").read_bytes()
    aside = replacement.put_aside(file, NOW)
    assert aside == tmp_path / "ledger.db.replaced-20260511T031500"
    assert (tmp_path / f"{aside.name}-wal").read_bytes() == log
    assert not list(tmp_path.glob("ledger.db-*"))
    assert not file.exists()


def test_a_lease_that_cannot_be_read_is_an_error_of_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    file.write_text("garbage", "utf-8")
    with pytest.raises(UnusableLedger, match=r"the lease in .* cannot be read"):
        replacement.read_lease(file, "tiny")


def test_a_lease_whose_holder_is_no_process_cannot_be_read(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    connect.writer(f"sqlite:///{file}").dispose()
    with closing(sqlite3.connect(file)) as connection, connection:
        times = "'2026-05-11 03:15:00.000000', '2026-05-11 03:25:00.000000'"
        connection.execute(
            "insert into lease (pipeline, run_id, holder, taken_at, expires_at) "
            f"values ('tiny', 'night-1', 'host boot 1', {times})"
        )
    with pytest.raises(UnusableLedger, match=r"the lease in .* cannot be read"):
        replacement.read_lease(file, "tiny")
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("update lease set holder = 'host boot 1 2'")
    current = replacement.read_lease(file, "tiny")
    assert current is not None
    assert (current.run_id, current.holder) == ("night-1", "host boot 1 2")


def test_a_file_that_another_program_has_open_is_not_unused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ledger.db"
    monkeypatch.setattr(replacement, "WAIT_SECONDS", 0.1)
    with held_open(file) as holder:
        with pytest.raises(LedgerError, match="another program has it open"):
            replacement.require_unused(file)
        holder.kill()
    replacement.require_unused(file)
    assert file.exists()
