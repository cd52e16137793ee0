from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.demand.ingest import ingest
from tests.calls import Call

FIRST = date(2024, 1, 1)
LAST = FIRST + timedelta(days=41)
NOW = datetime(2024, 2, 12, 12, tzinfo=UTC)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Pipeline file of an ingested feed: six weeks of one depot, with a spike as its last count,
    and a count that is a word."""
    rows = [f"Depot 1,{FIRST + timedelta(day)},{100 + day % 7}" for day in range(41)]
    rows += [f"Depot 1,{LAST},1540", f"Depot 1,{FIRST - timedelta(days=1)},none"]
    (tmp_path / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows]) + "\n", "utf-8")
    pipeline = tmp_path / "pipeline.yaml"
    pipeline.write_text(
        "name: t\ntimezone: America/New_York\ndemand: {source: {kind: csv, path: demand.csv}}\n"
        "calendar: {holidays: false}\n",
        "utf-8",
    )
    ingest(load(pipeline), now=NOW)
    return pipeline


def test_list_shows_each_row_with_state_rule_and_message(file: Path, call: Call) -> None:
    code, out, _ = call("quarantine", "list", file)
    lines = out.splitlines()
    assert (code, lines[-1]) == (0, "2 rows")
    assert [line.split()[1:3] for line in lines[:2]] == [["open", "spike"], ["open", "count_form"]]
    assert "found '1540', wanted at most 5 times the usual" in lines[0]
    assert json.loads(call("quarantine", "list", file, "--rule", "spike", "--json")[1])[0]["depot_id"] == "Depot 1"
    assert call("quarantine", "list", file, "--depot", "Depot 2")[1] == "no row waits for a decision\n"


def test_list_all_shows_the_outcome_of_each_row(file: Path, call: Call) -> None:
    waiting, other = [line.split()[0] for line in call("quarantine", "list", file)[1].splitlines()[:2]]
    assert call("quarantine", "discard", file, waiting, "--reason", "a test", "--by", "ops")[0] == 0
    assert call("quarantine", "discard", file, other, "--reason", "another", "--by", "ops")[0] == 0
    _, out, _ = call("quarantine", "list", file, "--all")
    lines = out.splitlines()
    for identity, reason in ((waiting, "a test"), (other, "another")):
        [place] = [number for number, line in enumerate(lines) if line.startswith(identity)]
        assert lines[place + 1].strip().startswith("discarded by ops on ")
        assert lines[place + 1].endswith(f" UTC, and counts no more: {reason}")
    rows = json.loads(call("quarantine", "list", file, "--all", "--json")[1])
    assert {row["state"] for row in rows} >= {"discarded"}
    assert all(row["became"].startswith(row["state"]) for row in rows)


def test_show_prints_the_complete_row_and_its_decision(file: Path, call: Call) -> None:
    identity = call("quarantine", "list", file, "--rule", "count_form")[1].split()[0]
    code, out, _ = call("quarantine", "show", file, identity[:5])
    assert code == 0
    assert 'content  {"depot_id": "Depot 1", "date": "2023-12-31", "demand": "none"}' in out
    assert "state    open: it does not count unless it is released" in out
    call("quarantine", "discard", file, identity, "--reason", "not ours", "--by", "ada")
    assert "state    discarded by ada on " in call("quarantine", "show", file, identity)[1]
    assert call("quarantine", "list", file)[1].splitlines()[-1] == "1 row"
    assert call("quarantine", "list", file, "--all")[1].splitlines()[-1] == "2 rows"


def test_release_reports_its_rows_and_history_shows_both_sides(file: Path, call: Call) -> None:
    assert "refused   on 2024-02-12 07:00:00 EST, open" in call("history", file, "Depot 1", LAST)[1]
    code, out, _ = call("quarantine", "release", file, "--rule", "spike", "--reason", "a festival", "--by", "ada")
    assert (code, out.splitlines()[-1]) == (0, "1 row released; the next run uses them")
    lines = call("history", file, "Depot 1", LAST)[1].splitlines()
    assert lines[0].startswith("counts    known since ")
    assert lines[0].endswith(": 1540   demand.csv:43")
    assert ", released (" in lines[1]
    day = json.loads(call("history", file, "Depot 1", LAST, "--json")[1])
    assert [version["demand"] for version in day["versions"]] == [1540.0]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("quarantine", "release", "{}", "--rule", "spike", "--reason", " "), 2, "--reason: found nothing"),
        (("quarantine", "release", "{}", "--reason", "x"), 2, "found no selection of rows"),
        (("quarantine", "show", "{}", "0000000"), 2, "no quarantined row has such an id"),
        (("history", "{}", "Depot 1", "soon"), 2, "DATE: found 'soon', wanted a day such as 2026-11-01"),
        (("history", "{}", "Depot1", LAST), 4, "no depot 'Depot1' is known; did you mean 'Depot 1'?"),
    ],
)
def test_missing_items_are_reported_in_a_sentence(
    file: Path, call: Call, arguments: tuple[str, ...], code: int, message: str
) -> None:
    exit_code, _, error = call(*(file if word == "{}" else word for word in arguments))
    assert (exit_code, message in error) == (code, True), error
