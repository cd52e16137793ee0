"""Any content of a cell only loses its row: far dates, other digits, nested values, endless text."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from forecaster.config import load
from forecaster.demand import parsing
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.demand.sources.feed import LONGEST_CELL
from forecaster.lake import Lake

FIRST, GOOD = date(2026, 5, 14), 150
NOW = datetime(2026, 10, 11, 12, tzinfo=UTC)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo", "Pacific/Kiritimati", "Etc/GMT+12")


FAR_DAYS = ["9999-12-31", "9999-12-31T23:59:59", "2262-04-12"]
EARLY_DAYS = ["0001-01-01", "0001-01-01T00:00:00Z"]
NO_DAYS = ["10000-01-01", "٢٠٢٦-٠٩-٠١"]
NO_COUNTS = ["٣", "３", "12²", "½", "120 %", "Ⅷ", "1" * 500]


def run(folder: Path, source: str, zone: str = "Europe/Berlin") -> tuple[IngestResult, list[dict[str, Any]]]:
    """Result of ingesting a source, and its rows in quarantine."""
    file = folder / "pipeline.yaml"
    file.write_text(f"name: t\ntimezone: {zone}\ndemand: {{source: {source}, recorded: next_day}}\n", "utf-8")
    spec = load(file)
    result = ingest(spec, now=NOW)
    assert result.read == result.accepted + result.unchanged + result.quarantined
    return result, Lake(spec.lake_url).read("quarantine").to_pylist()


def with_csv(folder: Path, cells: str, zone: str = "Europe/Berlin") -> tuple[IngestResult, list[dict[str, Any]]]:
    """Valid rows plus rows of these cells."""
    rows = [f"A,{FIRST + timedelta(day)},{20 + day % 7}" for day in range(GOOD)]
    (folder / "demand.csv").write_text("\n".join(["depot_id,date,demand", *rows, cells, ""]), "utf-8")
    return run(folder, "{kind: csv, path: demand.csv}", zone)


@pytest.mark.parametrize("zone", ZONES)
def test_reads_days_at_the_ends_of_the_calendar_in_every_zone(zone: str) -> None:
    assert parsing.days(pd.Series([*FAR_DAYS, *EARLY_DAYS]), ZoneInfo(zone)).notna().all()
    assert parsing.days(pd.Series(NO_DAYS), ZoneInfo(zone)).isna().all()


def test_digits_of_other_scripts_are_not_numbers() -> None:
    assert np.isinf(parsing.numbers(pd.Series(NO_COUNTS))).all()


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_unreadable_cells_only_lose_their_rows(tmp_path: Path, zone: str) -> None:
    counts = [f"A,{FIRST - timedelta(days=back)},{count}" for back, count in enumerate(NO_COUNTS, start=1)]
    result, rows = with_csv(
        tmp_path, "\n".join([*(f"A,{day},5" for day in (*FAR_DAYS, *EARLY_DAYS, *NO_DAYS)), *counts]), zone
    )
    rules = ["day_not_over"] * len(FAR_DAYS) + ["date_form"] * 4 + ["count_form"] * len(NO_COUNTS)
    assert result.accepted == GOOD
    assert [row["rule"] for row in sorted(rows, key=lambda row: row["row"])] == rules


def test_very_long_text_is_truncated(tmp_path: Path) -> None:
    result, [row] = with_csv(tmp_path, f"A,{FIRST - timedelta(days=1)},{'x' * (LONGEST_CELL + 7)}")
    content = json.loads(row["content"])
    assert (result.accepted, row["rule"]) == (GOOD, "count_form")
    assert content["demand"] == "x" * LONGEST_CELL + "…"


def as_parquet(folder: Path, table: pa.Table) -> str:
    pq.write_table(table, folder / "demand.parquet")
    return "{kind: parquet, path: demand.parquet}"


def as_delta(folder: Path, table: pa.Table) -> str:
    write_deltalake(str(folder / "demand"), table)
    return "{kind: delta, path: demand}"


@pytest.mark.parametrize("write", [as_parquet, as_delta])
@pytest.mark.parametrize(
    "values",
    [
        pa.array([[1], [2, 3]]),
        pa.array([{"a": 1}, {"a": 2}]),
        pa.array([b"\xff\x00", b"7 of 9 parcels"]),
    ],
    ids=["lists", "structs", "bytes"],
)
def test_column_of_another_kind_is_rejected_row_by_row(
    tmp_path: Path, write: Callable[[Path, pa.Table], str], values: pa.Array
) -> None:
    table = pa.table({"depot_id": ["A", "B"], "date": [FIRST, FIRST], "demand": values})
    result, rows = run(tmp_path, write(tmp_path, table))
    assert (result.read, result.accepted) == (2, 0)
    assert {row["rule"] for row in rows} == {"count_form"}


@pytest.mark.parametrize("write", [as_parquet, as_delta])
@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.date32()], ids=str)
def test_far_day_in_a_typed_column_only_loses_its_row(
    tmp_path: Path, write: Callable[[Path, pa.Table], str], kind: pa.DataType
) -> None:
    if not pa.types.is_date(kind):
        far: Any = datetime(9999, 12, 31, 23, tzinfo=UTC if kind.tz else None)
        near: Any = datetime(2026, 9, 1, 12, tzinfo=UTC if kind.tz else None)
    else:
        far, near = date(9999, 12, 31), FIRST
    table = pa.table({"depot_id": ["A", "A"], "date": pa.array([near, far], kind), "demand": [5, 6]})
    result, [row] = run(tmp_path, write(tmp_path, table), "America/New_York")
    assert (result.accepted, row["rule"]) == (1, "day_not_over")


def test_values_of_another_type_in_a_database_only_lose_their_rows(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "orders.db") as database:
        database.execute("create table daily (depot_id text, date text, demand)")
        database.execute("insert into daily values ('A', '2026-09-01', 7)")
        for day, count in enumerate(("'٣'", "x'ff00'", "9e999", "CAST(x'e9e9' AS TEXT)"), start=2):
            database.execute(f"insert into daily values ('A', '2026-09-0{day}', {count})")
    database.close()
    result, rows = run(tmp_path, "{kind: sql, url: 'sqlite:///orders.db', table: daily}")
    assert result.accepted == 1
    assert len(rows) == 4
    assert all(row["rule"].startswith("count") for row in rows)
