"""Worked hours: reading a time clock, and findings about unreadable rows."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.core.knowledge import Finding
from forecaster.demand.worked_hours import WorkedHours, worked_hours
from forecaster.errors import SpecError
from tests.demand.history.test_past_panels import write
from tests.staffing.test_rosters import spec_of

COSTS = "orders_per_driver: 10, cost_short: 30, cost_idle: 10"
SHIFTS = (
    "shifts: [{name: early, start: 06:00, end: 14:00, share: 0.6}, {name: late, start: 14:00, end: 20:00, share: 0.4}]"
)
RENAMED = pd.DataFrame({"alias": ["OLD"], "depot_id": ["A"]})
DAY = date(2026, 11, 2)


def read(folder: Path, *rows: str, columns: str = "{shift: part}") -> tuple[WorkedHours, list[Finding]]:
    write(folder, "clock", "date,depot_id,part,hours", *rows)
    worked = f"worked_hours: {{source: {{kind: csv, path: clock.csv}}, columns: {columns}}}"
    shifts = f"{SHIFTS}, " if "shift" in columns else ""
    spec, findings = spec_of(folder, f"staffing: {{{COSTS}, {shifts}{worked}}}"), list[Finding]()
    hours = worked_hours(spec, ("A", "B", "C"), RENAMED, findings)
    assert hours is not None
    return hours, findings


def test_hours_of_people_become_drivers_of_a_shift(tmp_path: Path) -> None:
    people = [f"2026-11-02,{depot},early,7.5" for depot in ("A", "OLD", "A")]
    hours, findings = read(tmp_path, *people, "2026-11-02,A,late,6", "2026-11-02,C,late,0", "2026-11-03,B,late,14")
    assert findings == []
    crews = hours.crews(DAY, ("A", "B", "C"), ("early", "late"), np.array([8.0, 6.0]))
    assert crews is not None
    assert crews[0][:, :, 0].tolist() == [[3, 0, 0], [1, 0, 0]]
    assert crews[1].tolist() == [True, False, True]
    assert hours.crews(date(2026, 11, 4), ("A",), ("early", "late"), np.array([8.0, 6.0])) is None
    assert hours.digest(date(2026, 11, 4)) == ""
    assert hours.digest(DAY) != hours.digest(date(2026, 11, 3))


def test_whole_day_is_one_shift(tmp_path: Path) -> None:
    hours, _ = read(tmp_path, "2026-11-02,B,,28", columns="{hours: hours}")
    crews = hours.crews(DAY, ("A", "B"), (), np.array([8.0]))
    assert crews is not None
    assert crews[0][:, :, 0].tolist() == [[0, 4]]


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("soon,A,early,8", "column 'date': found 'soon', wanted a date such as 2024-03-05"),
        ("2026-11-02,X,early,8", "column 'depot_id': found 'X', wanted a depot that counts"),
        ("2026-11-02,A,night,8", "column 'part': found 'night', wanted a shift of staffing.shifts: early, late"),
        ("2026-11-02,A,early,-1", "column 'hours': found '-1', wanted a number from 0 to 1,000,000"),
        ("2026-11-02,A,early,1e12", "column 'hours': found '1e12', wanted a number from 0 to 1,000,000"),
        ("2026-11-02,A,early,many", "column 'hours': found 'many', wanted a number from 0 to 1,000,000"),
    ],
)
def test_unreadable_rows_are_reported_and_omitted(tmp_path: Path, row: str, message: str) -> None:
    hours, findings = read(tmp_path, row, "2026-11-02,B,early,8")
    assert [(finding.rule, finding.message) for finding in findings] == [
        ("worked_form", f"clock.csv:2: {message}; the row is left out")
    ]
    crews = hours.crews(DAY, ("A", "B"), ("early", "late"), np.array([8.0, 6.0]))
    assert crews is not None
    assert crews[1].tolist() == [False, True]


@pytest.mark.parametrize(
    ("shifts", "columns", "message"),
    [
        (f"{SHIFTS}, ", "{hours: hours}", "found several shifts and no columns.shift"),
        ("", "{shift: part}", "found columns.shift and no shifts"),
        ("", "{hours: date}", "columns name date, depot_id, date; wanted a column of its own for each"),
    ],
)
def test_rejects_columns_that_do_not_fit_the_shifts(tmp_path: Path, shifts: str, columns: str, message: str) -> None:
    worked = f"worked_hours: {{source: {{kind: csv, path: clock.csv}}, columns: {columns}}}"
    with pytest.raises(SpecError, match=message):
        spec_of(tmp_path, f"staffing: {{{COSTS}, {shifts}{worked}}}")
