"""The ledger is created or migrated before any other program of a version runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.ledger.migrations.__main__ import main
from forecaster.ledger.migrations.revision import REVISION
from forecaster.ledger.store import Ledger


def test_creates_a_new_ledger_and_reports_a_damaged_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text("name: fleet\ndemand: {source: {kind: csv, path: demand.csv}}\n", "utf-8")
    for _ in range(2):
        assert main(file) == 0
        assert capsys.readouterr().out == f"fleet: the ledger is at revision {REVISION}\n"
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        assert not ledger.runs()
    path = next(tmp_path.rglob("*.db"))
    path.write_bytes(b"no database at all" * 400)
    assert main(file) == 1
    assert str(path) in capsys.readouterr().err
