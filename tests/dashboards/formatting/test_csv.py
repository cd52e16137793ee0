"""CSV that spreadsheets read correctly, and of which they execute nothing."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dashboards.ops.formatting.csv import FORMULA, CsvSheet, cell, harmless


@pytest.mark.parametrize("text", ["=1+1", "+49", "-5", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\ufeff=1", "＝1+1"])
def test_escapes_texts_that_a_spreadsheet_would_execute(text: str) -> None:
    assert harmless(text) == "'" + text


@pytest.mark.parametrize("text", ["", "BOS-01", "a=1", "'quoted'", "Pier 9", "🚚", "1=1"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert harmless(text) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (-5, "-5"),
        (-0.25, "-0.25"),
        (1e20, "1e+20"),
        (True, "true"),
        (None, ""),
        (date(2025, 6, 18), "2025-06-18"),
        (datetime(2025, 6, 17, 7, 24, tzinfo=UTC), "2025-06-17T07:24:00Z"),
        ([["NYC-03", 2]], '[["NYC-03", 2]]'),
    ],
)
def test_numbers_days_and_lists_are_formatted_as_in_json(value: Any, text: str) -> None:
    assert cell(value) == text


@given(st.lists(st.tuples(*[st.text("=+-@\t\r\n\"', ;a1＝🚚", max_size=5)] * 2), max_size=4))
def test_cells_survive_a_round_trip_and_none_is_a_formula(rows: list[tuple[str, str]]) -> None:
    written = CsvSheet(("a", "b"), rows).csv().decode()
    assert written.startswith("a,b\r\n")
    read_back = list(csv.reader(io.StringIO(written, newline="")))[1:]
    assert [[text.removeprefix("'") for text in row] for row in read_back] == [
        [text.removeprefix("'") for text in row] for row in rows
    ]
    assert not any(text[:1] in FORMULA for row in read_back for text in row if text)
