"""Selection of the column for recorded_at, and the reason for omitting another one."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from forecaster.config import load
from forecaster.onboarding import start, tables
from forecaster.onboarding.days import record_times
from forecaster.onboarding.days.record_times import RecordedAt
from forecaster.onboarding.description.table import describe

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAYS = [date(2026, 3, 1) - timedelta(days=back) for back in range(60)]
SEVERAL = "; of several rows per depot and day, the last row in the file counts"


def next_morning(day: date) -> str:
    return f"{day + timedelta(days=1)}T05:00:00+01:00"


def file_of(folder: Path, recorded_at: Callable[[date], str], name: str = "updated_at", more: str = "") -> Path:
    rows = [
        f"{hub},{day},{level + day.day},{recorded_at(day)}" for day in DAYS for hub, level in (("N1", 90), ("N2", 300))
    ]
    file = folder / "hubs.csv"
    file.write_text(f"hub,date,volume,{name}\n{more}" + "\n".join(rows) + "\n", "utf-8")
    return file


def guess(file: Path) -> RecordedAt:
    table = tables.read(file)
    return record_times.guess(table, describe(table), ZoneInfo("Europe/Berlin"), NOW)


@pytest.mark.parametrize("name", ["updated_at", "loaded_at", "recorded_at", "geändert"])
def test_column_of_instants_after_their_days_becomes_recorded_at(tmp_path: Path, name: str) -> None:
    assert guess(file_of(tmp_path, next_morning, name)).column == name


def test_corrections_placed_first_in_the_file_count(tmp_path: Path) -> None:
    correction = f"N1,{DAYS[3]},55,{next_morning(DAYS[1])}\n"
    file = file_of(tmp_path, next_morning, more=correction)
    outcome = start.create([file], tmp_path / "fleet", country="DE", ask=None, now=NOW)
    spec = load(tmp_path / "fleet" / start.PIPELINE)
    assert (spec.demand.columns.recorded_at, spec.demand.aggregate) == ("updated_at", "none")
    assert outcome.fault is None


@pytest.mark.parametrize(
    ("recorded_at", "reason"),
    [
        (
            lambda day: "2026-03-02T09:00:00+01:00",
            "77% of the rows were recorded more than 14 days after their day, as in a single export, so backtests "
            "would not see them before that",
        ),
        (lambda day: f"{day}T18:00:00+01:00", "100% of the rows were recorded before the end of their day and "
         "would be rejected"),
        (lambda day: f"{day:%d.%m.%Y} 05:00", "'01.03.2026 05:00' is not a timestamp such as "
         "2024-03-05T04:10:00-05:00"),
        (lambda day: next_morning(day) if day.day != 2 else "", "an empty cell is not a timestamp such as "
         "2024-03-05T04:10:00-05:00"),
        (lambda day: "2026-03-02T19:00:00+01:00", "'2026-03-02T19:00:00+01:00' is in the future"),
    ],
)  # fmt: skip
def test_harmful_column_is_omitted_with_a_note(tmp_path: Path, recorded_at: Callable[[date], str], reason: str) -> None:
    note = f"column 'updated_at' is not used as `demand.columns.recorded_at`: {reason}{SEVERAL}"
    assert guess(file_of(tmp_path, recorded_at)) == RecordedAt(note=note)


def test_rows_that_are_parts_of_a_day_have_no_recorded_at(tmp_path: Path) -> None:
    rows = [
        f"{hub},{day}T{hour:02d}:00:00,{hour + day.day},{next_morning(day)}"
        for day in DAYS
        for hub in ("N1", "N2")
        for hour in (9, 12, 15)
    ]
    file = tmp_path / "hours.csv"
    file.write_text("hub,time,orders,updated_at\n" + "\n".join(rows) + "\n", "utf-8")
    assert guess(file) == RecordedAt(
        note="column 'updated_at' is not used as `demand.columns.recorded_at`: several rows add up to the count of "
        "a day, each with its own recording time"
    )


def test_series_without_depots_has_its_column_reported_and_not_read(tmp_path: Path) -> None:
    file = tmp_path / "shop.csv"
    rows = [f"{day},{90 + day.day},{next_morning(day)}" for day in DAYS]
    file.write_text("date,sales,updated_at\n" + "\n".join(rows) + "\n", "utf-8")
    assert guess(file) == RecordedAt(
        note="column 'updated_at' is not read: if it states when a row was recorded, name it in "
        "`demand.columns.recorded_at` instead of `ignore`"
    )


def test_file_without_such_a_column_gives_no_note(tmp_path: Path) -> None:
    assert guess(file_of(tmp_path, lambda day: "x", "remark")) == RecordedAt()
