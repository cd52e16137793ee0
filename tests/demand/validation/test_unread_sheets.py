"""Sheets of a workbook with readings that are not read."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from forecaster.config import load
from forecaster.core.knowledge import Finding
from forecaster.demand.ingest import ingest
from tests.demand.sources.test_excel import Sheets, write

NOW = datetime(2026, 7, 20, 4, tzinfo=UTC)
HEADER = ["Standort", "Tag", "Pakete"]


def month(number: int, days: int = 10) -> list[list[Any]]:
    first = date(2026, number, 1)
    return [HEADER, *([depot, first + timedelta(days=n), 90 + n % 7] for n in range(days) for depot in "AB")]


def unread(folder: Path, sheets: Sheets, source: str = "", demand: str = "", hidden: str = "") -> Finding | None:
    write(folder / "book.xlsx", sheets, hidden)
    columns = demand or "columns: {depot_id: Standort, date: Tag, demand: Pakete}"
    (folder / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{kind: excel, path: book.xlsx{source}}}, {columns}}}\n"
        "calendar: {holidays: false}\n",
        "utf-8",
    )
    findings = ingest(load(folder / "pipeline.yaml"), now=NOW).findings
    return next((finding for finding in findings if finding.rule == "unread_sheets"), None)


def test_unread_sheets_of_other_months_are_a_finding_that_names_the_key(tmp_path: Path) -> None:
    sheets = {"Mai": month(5), "Juni": month(6), "Juli": month(7), "Notizen": [["Stand", "Quelle"], [1, "x"]]}
    finding = unread(tmp_path, sheets)
    assert finding is not None
    assert (finding.severity, finding.count) == ("warn", 2)
    assert finding.message == (
        "book.xlsx: found sheets with the same columns as 'Mai' that are not read ('Juni', 'Juli'); set "
        'demand.source.sheet: "*"; wanted each sheet with readings: demand.source.sheet: "*", or the name of the one '
        "that is meant"
    )
    assert unread(tmp_path, sheets, ', sheet: "*"') is None


def test_hidden_sheets_and_sheets_of_another_form_have_no_readings(tmp_path: Path) -> None:
    others = {"Juni": [["Tag", "Preis"], [date(2026, 6, 1), 3]], "Juli": month(7)}
    assert unread(tmp_path, {"Mai": month(5), **others}, hidden="Juli") is None


@pytest.mark.parametrize(
    ("sheet", "names"),
    [("Juni", "'Juli'"), ("1", "'Juni', 'Juli'"), ("Juli", None)],
)
def test_sheets_with_days_newer_than_the_declared_sheet_are_named(
    tmp_path: Path, sheet: str, names: str | None
) -> None:
    finding = unread(tmp_path, {"Mai": month(5), "Juni": month(6), "Juli": month(7)}, f", sheet: {sheet}")
    assert (finding and f"not read ({names})" in finding.message) == (names and True)


def test_plan_of_future_days_is_not_newer_than_the_declared_sheet(tmp_path: Path) -> None:
    assert unread(tmp_path, {"Ist": month(7, 19), "Plan": month(7, 31)}, ", sheet: Ist") is None


def test_sheets_with_one_column_per_day_are_compared_by_their_other_columns(tmp_path: Path) -> None:
    def wide(number: int) -> list[list[Any]]:
        return [["Standort", *(f"2026-0{number}-{day:02d}" for day in range(1, 15))], ["A", *range(90, 104)]]

    sheets = {"Mai": wide(5), "Juni": wide(6), "Liste": [["Standort", "Adresse"], ["A", "Ring 1"]]}
    finding = unread(tmp_path, sheets, ", wide: days", "columns: {depot_id: Standort}")
    assert finding is not None
    assert "not read ('Juni')" in finding.message


def test_finding_suggests_a_depot_column_if_sheets_can_be_depots(tmp_path: Path) -> None:
    def depot(level: int) -> list[list[Any]]:
        return [["Tag", "Pakete"], *([date(2026, 7, day), level + day % 7] for day in range(1, 15))]

    one = "depot: Nord, columns: {date: Tag, demand: Pakete}"
    finding = unread(tmp_path, {"Nord": depot(90), "West": depot(70)}, demand=one)
    assert finding is not None
    assert "if each sheet is a depot, put all rows on one sheet, with a column that names the depot" in finding.message
