"""Control characters in notes, names or rows are escaped on the terminal, and one line stays one
line."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.ledger import access, tables
from forecaster.ledger.store import Ledger
from forecaster.operations import quarantine
from forecaster.operations.quarantine import QuarantinedRow
from tests.calls import Call
from tests.flows.tiny import pipeline

NASTY = "\x1b[2J\x1b]0;title\x07\r\n    7  faked\u202e\x9b31m"
NOW = datetime(2026, 11, 25, 4, tzinfo=UTC)


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return load(pipeline(tmp_path, days=20))


def plain(out: str, count: int) -> None:
    lines = out.removesuffix("\n").split("\n")
    assert all(line.isprintable() for line in lines), out
    assert len(lines) == count, out
    assert r"\x1b[2J" in out
    assert r"\n    7  faked\u202e\x9b31m" in out


def test_overrides_audit_and_links(spec: Spec, call: Call) -> None:
    file = spec.folder / "pipeline.yaml"
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        day = date(2026, 11, 26)
        row = {"pipeline": spec.name, "at": NOW, "depot_id": NASTY, "target_date": day, "orders": 3, "until": day}
        connection.execute(tables.overrides.insert().values(**row, reason="event", note=NASTY, by=NASTY))
        access.note(connection, access.AuditEntry(NOW, spec.name, NASTY, "planner", "::1", "POST", NASTY, NASTY))
        link = access.Link("abc", spec.name, "network", NASTY, NOW, NASTY, NOW + timedelta(days=3))
        access.make_link(connection, link)
    for command, count in (("overrides", 2), ("audit", 1), ("links", 1)):
        code, out, _ = call(command, file)
        assert code == 0
        plain(out, count)
    assert json.loads(call("overrides", file, "--json")[1])[0]["note"] == NASTY


def test_quarantine(spec: Spec, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    row = QuarantinedRow("id", NASTY, None, NASTY, "batch", 1, "rule", NASTY, NASTY, NOW, "open")
    monkeypatch.setattr(quarantine, "quarantined_rows", lambda *_, **__: (row,))
    file = spec.folder / "pipeline.yaml"
    plain(call("quarantine", "list", file)[1], 2)
    plain(call("quarantine", "show", file, "id")[1], 6)


def test_status_and_errors(spec: Spec, call: Call) -> None:
    file = spec.folder / "pipeline.yaml"
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("run", pipeline=spec.name, as_of=NOW, spec_digest="x")
        ledger.finish_run("run", "failed", 1, NASTY)
    out = call("status", file)[1]
    plain(out, len([line for line in out.splitlines() if line[:10].strip()]))
    _, _, err = call("replay", file, "\x1b[2J")
    assert err.removesuffix("\n").isprintable()
