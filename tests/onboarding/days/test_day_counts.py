"""Days given as numbers: seconds, milliseconds, or serial numbers of a spreadsheet."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from forecaster.config import CsvSource, load
from forecaster.onboarding import start, tables
from forecaster.onboarding.days import day_counts

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
DAYS = [date(2026, 3, 1) - timedelta(days=back) for back in range(60)]


def seconds(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, 17, tzinfo=UTC).timestamp())


def file_of(folder: Path, numbers: list[int], name: str) -> Path:
    rows = [f"{site},{number},{level + number % 7}" for number in numbers for site, level in (("A", 90), ("B", 300))]
    file = folder / "counts.csv"
    file.write_text(f"site,{name},n\n" + "\n".join(rows) + "\n", "utf-8")
    return file


@pytest.mark.parametrize(
    ("numbers", "form"),
    [
        ([seconds(day) for day in DAYS], "unix"),
        ([1000 * seconds(day) for day in DAYS], "unix_ms"),
        ([(day - date(1899, 12, 30)).days for day in DAYS], "excel"),
    ],
)
@pytest.mark.parametrize("name", ["day", "t"])
def test_pipeline_file_declares_the_form_of_counted_days(
    tmp_path: Path, numbers: list[int], form: str, name: str
) -> None:
    file = file_of(tmp_path, numbers, name)
    outcome = start.create([file], tmp_path / "fleet", country="US", ask=None, now=NOW)
    demand = load(tmp_path / "fleet" / start.PIPELINE).demand
    assert isinstance(demand.source, CsvSource)
    assert (demand.source.date_format, demand.columns.date, demand.columns.depot_id) == (form, name, "site")
    assert outcome.fault is None
    assert "seen      2 depots, 60 days, 2026-01-01 to 2026-03-01, 120 readings" in outcome.lines


def test_numbers_without_a_run_of_days_are_not_days(tmp_path: Path) -> None:
    file = file_of(tmp_path, [1_700_000_000 + 40_000_003 * place for place in range(30)], "receipt")
    assert day_counts.written_out(tables.read(file)) is None


def test_numbers_of_other_lengths_are_not_days() -> None:
    assert day_counts.form_of(pd.Series(["412", "1787875200"], dtype="str")) is None
