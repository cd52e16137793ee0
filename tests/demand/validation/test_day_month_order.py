"""Dates in which day and month can be swapped: the order that gives a run of days is right, or the
batch stops."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from forecaster.config import load
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.demand.validation.days.order import other_order

NOW = datetime(2026, 11, 25, 12, tzinfo=UTC)
FIRST_DAYS = pd.date_range("2026-11-01", "2026-11-12")
NO_DAYS = np.zeros(0, np.int64)


def result_of(folder: Path, days: Iterable[str], source: str = "", kind: str = "csv") -> IngestResult:
    rows = pd.DataFrame(
        [
            (depot, day, level + 7 * (place % 7) + 3 * (place % 5))
            for place, day in enumerate(days)
            for depot, level in (("A", 90), ("B", 300))
        ],
        columns=["depot_id", "date", "demand"],
    )
    where = f"path: demand.{'xlsx' if kind == 'excel' else kind}"
    if kind == "csv":
        rows.to_csv(folder / "demand.csv", index=False)
    elif kind == "excel":
        rows.to_excel(folder / "demand.xlsx", index=False, engine="xlsxwriter")
    elif kind == "parquet":
        rows.to_parquet(folder / "demand.parquet", index=False)
    else:
        with closing(sqlite3.connect(folder / "demand.db")) as database:
            rows.to_sql("demand", database, index=False, if_exists="replace")
        where = 'url: "sqlite:///demand.db", table: demand'
    (folder / "pipeline.yaml").write_text(
        f"name: t\nstate: {folder}/{len(source)}\ndemand: {{source: {{kind: {kind}, {where}{source}}}}}\n"
        "calendar: {holidays: false}\n",
        "utf-8",
    )
    return ingest(load(folder / "pipeline.yaml"), now=NOW)


def written(days: Iterable[pd.Timestamp], form: str) -> list[str]:
    return [day.strftime(form) for day in days]


@pytest.mark.parametrize(
    ("form", "declared"),
    [
        ("%d/%m/%Y", "%m/%d/%Y"),
        ("%m/%d/%Y", "%d/%m/%Y"),
        ("%d.%m.%Y", "%m.%d.%Y"),
        ("%d.%m.%y", "%m.%d.%y"),
        ("%Y-%d-%m", "%Y-%m-%d"),
        ("%Y-%m-%d", "%Y-%d-%m"),
        ("%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"),
    ],
)
def test_days_in_the_other_order_stop_the_batch_and_name_the_date_format(
    tmp_path: Path, form: str, declared: str
) -> None:
    days = written(FIRST_DAYS, form)
    stopped = result_of(tmp_path, days, f', date_format: "{declared}"').stopped or ""
    assert stopped.startswith(
        "day_month_order: found 12 days from 2026-01-11 to 2026-12-11, all among the first 12 of a month; "
        f"demand.source.date_format: '{form}' would read them as 12 days from 2026-11-01 to 2026-11-12; wanted "
    )
    result = result_of(tmp_path, days, f', date_format: "{form}" ')
    assert (result.accepted, result.findings) == (24, ())


def test_the_default_order_is_checked_as_well(tmp_path: Path) -> None:
    stopped = result_of(tmp_path, written(FIRST_DAYS, "%Y-%d-%m")).stopped or ""
    assert "; demand.source.date_format: '%Y-%d-%m' would read them as 12 days" in stopped


def test_text_in_a_sheet_is_read_in_the_suggested_order(tmp_path: Path) -> None:
    days = written(FIRST_DAYS, "%d/%m/%Y")
    stopped = result_of(tmp_path, days, ', date_format: "%m/%d/%Y"', "excel").stopped or ""
    assert "; demand.source.date_format: '%d/%m/%Y' would read them as 12 days" in stopped
    assert result_of(tmp_path, days, ', date_format: "%d/%m/%Y" ', "excel").accepted == 24


@pytest.mark.parametrize("kind", ["parquet", "sql", "excel"])
def test_source_without_a_declared_form_has_to_be_corrected(tmp_path: Path, kind: str) -> None:
    stopped = result_of(tmp_path, written(FIRST_DAYS, "%Y-%d-%m"), kind=kind).stopped or ""
    assert "; with day and month swapped, they are 12 days from 2026-11-01 to 2026-11-12" in stopped
    assert "date_format" not in stopped


def test_readable_part_of_the_days_is_enough(tmp_path: Path) -> None:
    days = written(pd.date_range("2026-10-01", "2026-10-17"), "%d/%m/%Y")
    result = result_of(tmp_path, days, ', date_format: "%m/%d/%Y"')
    assert (result.stopped or "").startswith("day_month_order: found 12 days from 2026-01-10 to 2026-12-10")


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_days_swapped_only_up_to_the_12th_stop_the_batch(tmp_path: Path, kind: str) -> None:
    days = [
        day.strftime("%Y-%d-%m" if day.day <= 12 else "%Y-%m-%d") for day in pd.date_range("2026-01-01", "2026-09-30")
    ]
    stopped = result_of(tmp_path, days, kind=kind).stopped or ""
    assert "; with day and month swapped up to the 12th of each month, they are 273 days" in stopped


@pytest.mark.parametrize(
    "days",
    [
        FIRST_DAYS,
        FIRST_DAYS[:3].append(pd.DatetimeIndex(["2026-11-09"])),
        [day for day in pd.date_range("2025-01-01", "2025-12-31") if day.day <= 12],
        pd.date_range("2026-01-01", "2026-11-01", freq="MS"),
        pd.date_range("2024-03-05", "2026-11-20"),
        [day for day in pd.date_range("2026-06-01", "2026-11-20") if day.day_of_week < 5],
        [day for day in pd.date_range("2025-06-01", "2026-11-20") if day.month != 8],
    ],
)
def test_accepts_days_in_their_correct_order(days: Iterable[pd.Timestamp]) -> None:
    numbers = pd.DatetimeIndex(days).to_numpy("datetime64[D]").astype("int64")
    assert other_order(numbers, NO_DAYS) is None


def test_accepts_restated_days_of_different_months() -> None:
    numbers = np.array(["2026-02-03", "2026-03-09", "2026-05-04", "2026-08-11"], "datetime64[D]").astype("int64")
    assert other_order(numbers, NO_DAYS) is None


YEAR_FIRST = pd.date_range("2026-09-27", "2026-11-24")


def test_year_first_days_that_are_read_day_first_stop_the_batch(tmp_path: Path) -> None:
    days = written(YEAR_FIRST, "%y.%m.%d")
    stopped = result_of(tmp_path, days, ', date_format: "%d.%m.%y"').stopped or ""
    assert stopped.startswith(
        "day_month_order: found 59 days from 2001-10-26 to 2031-10-26, as a rule a year apart; "
        "demand.source.date_format: '%y.%m.%d' would read them as 59 days from 2026-09-27 to 2026-11-24; wanted "
    )
    assert result_of(tmp_path, days, ', date_format: "%y.%m.%d" ').accepted == 118


@pytest.mark.parametrize("days", [YEAR_FIRST, pd.DatetimeIndex([f"{year}-12-24" for year in range(2022, 2026)])])
def test_accepts_correct_days_with_two_digit_years(tmp_path: Path, days: pd.DatetimeIndex) -> None:
    assert result_of(tmp_path, written(days, "%d/%m/%y"), ', date_format: "%d/%m/%y"').findings == ()


def test_one_date_of_several_years_is_not_a_run_of_year_first_days(tmp_path: Path) -> None:
    days = [f"24/12/{year}" for year in range(15, 24)]
    result = result_of(tmp_path, days, ', date_format: "%d/%m/%y"')
    assert "day_month_order" not in {finding.rule for finding in result.findings}
    assert result.accepted == 18


def test_partly_buddhist_years_stop_the_batch(tmp_path: Path) -> None:
    days = [f"{day:%d/%m}/{day.year + 543 * (day.month > 1)}" for day in pd.date_range("2024-01-01", "2024-02-20")]
    [finding] = [found for found in result_of(tmp_path, days, ', date_format: "%d/%m/%Y"').findings
                 if found.rule == "unreadable"]  # fmt: skip
    assert finding.severity == "stop"
    assert "they look like Buddhist years (BE), which are 543 ahead" in finding.message
