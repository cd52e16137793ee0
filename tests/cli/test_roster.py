"""Command for rosters: its output, and its error messages."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from icalendar import Calendar
from typer.testing import CliRunner

from forecaster.cli.app import app
from forecaster.errors import ForecasterError
from tests.dashboards.seed import fill, publication, with_plans

HEAD = "name: harbor-fleet\ndemand: {source: {kind: csv, path: d.csv}}\n"
PEOPLE = (
    "staffing: {orders_per_driver: 9, cost_short: 3, cost_idle: 1, shifts: [{name: early, start: 06:00, end: 14:00, "
    "share: 1}], people: [{name: x, per_depot: 1}]}\n"
)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("roster")
    url = f"sqlite:///{folder / 'ledger.db'}"
    fill(url, with_plans(publication()))
    path = folder / "pipeline.yaml"
    path.write_text(f"{HEAD}{PEOPLE}ledger: {url}\n", "utf-8")
    return path


def run(*words: object) -> str:
    result = CliRunner().invoke(app, ["roster", *map(str, words)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_crews_are_printed_for_all_a_city_or_a_depot(file: Path) -> None:
    everything = rows(run(file))
    assert list(everything[0]) == ["depot", "city", "date", "shift", "drivers"]
    assert {row["depot"] for row in rows(run(file, "--city", "Boston"))} == {"BOS-01", "BOS-02"}
    assert {row["depot"] for row in rows(run(file, "--depot", "BOS-01"))} == {"BOS-01"}


def test_the_week_of_people_is_written_in_every_format(file: Path, tmp_path: Path) -> None:
    assert {row["person"] for row in rows(run(file, "--week", "--depot", "BOS-01"))} == {"x 1", "open"}
    calendar = tmp_path / "week.ics"
    run(file, "--week", "--depot", "BOS-01", "--person", "x 1", "--format", "ics", "-o", calendar)
    assert len(Calendar.from_ical(calendar.read_bytes()).walk("VEVENT")) == 6
    book = tmp_path / "week.xlsx"
    run(file, "--week", "--format", "xlsx", "-o", book)
    assert book.read_bytes()[:2] == b"PK"


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--week", "--format", "xlsx"], "found no --output, wanted a file, as in -o roster.xlsx"),
        (["--format", "ics", "-o", "x.ics"], "found --format ics without --week, which it is for"),
        (["--depot", "BOS-1"], "--depot: found 'BOS-1', wanted one of those that are published; did you mean"),
        (["--city", "Bosten"], "--city: found 'Bosten', wanted one of those that are published; did you mean 'Boston'"),
        (
            ["--week", "--person", "x-1"],
            "person: found 'x-1', wanted one of those that are planned; did you mean 'x 1'?",
        ),
        (["--week", "-o", "nowhere/x.csv"], "nowhere/x.csv cannot be written: No such file or directory"),
    ],
)
def test_impossible_roster_requests_are_reported(file: Path, words: list[str], sentence: str) -> None:
    with pytest.raises(ForecasterError) as refusal:
        run(file, *words)
    assert sentence in str(refusal.value)
    assert refusal.value.exit_code == 2
