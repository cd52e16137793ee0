"""Null words are empty in every kind of source and every column."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pytest

from forecaster.config import load
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.errors import SpecError
from forecaster.lake import Lake

NOW = datetime(2024, 3, 6, 12, tzinfo=UTC)
ROWS = pd.DataFrame(
    {
        "depot_id": ["A", "A", "A", "B", "B", "B"],
        "date": ["2024-03-01", "2024-03-02", "2024-03-03"] * 2,
        "demand": ["90", "N/A", "97", "NULL", " n/a ", "5"],
        "promo": ["1", "0", "null", "0", "0", "1"],
    }
)


def ingested(folder: Path, source: str) -> IngestResult:
    (folder / "pipeline.yaml").write_text(
        f"name: t\ndemand: {{source: {{{source}, null_values: [n/a, null]}}}}\n"
        "calendar: {holidays: false, known_future: [promo]}\n",
        "utf-8",
    )
    return ingest(load(folder / "pipeline.yaml"), now=NOW)


def write(folder: Path, kind: str) -> str:
    if kind == "csv":
        ROWS.to_csv(folder / "demand.csv", index=False)
        return "kind: csv, path: demand.csv"
    if kind == "excel":
        ROWS.to_excel(folder / "demand.xlsx", index=False, engine="xlsxwriter")
        return "kind: excel, path: demand.xlsx"
    if kind == "sql":
        with closing(sqlite3.connect(folder / "demand.db")) as database:
            ROWS.to_sql("demand", database, index=False)
        return 'kind: sql, url: "sqlite:///demand.db", table: demand'
    frame = ROWS.astype("category") if kind == "coded parquet" else ROWS
    frame.to_parquet(folder / "demand.parquet", index=False)
    return "kind: parquet, path: demand.parquet"


@pytest.mark.parametrize("kind", ["csv", "excel", "sql", "parquet", "coded parquet"])
def test_cell_with_a_null_value_is_empty(tmp_path: Path, kind: str) -> None:
    result = ingested(tmp_path, write(tmp_path, kind))
    assert (result.accepted, result.quarantined, result.stopped) == (6, 0, None)
    table = Lake(load(tmp_path / "pipeline.yaml").lake_url).read("demand").to_pandas().sort_values(["depot_id", "date"])
    assert table["demand"].fillna(-1).tolist() == [90, -1, 97, -1, -1, 5]
    assert table["promo"].fillna(-1).tolist() == [1, 0, -1, 0, 0, 1]


def test_wide_cell_with_a_null_value_is_no_reading(tmp_path: Path) -> None:
    (tmp_path / "demand.csv").write_text("date,A,B\n2024-03-01,90,-\n2024-03-02,n/a,7\n", "utf-8")
    (tmp_path / "pipeline.yaml").write_text(
        'name: t\ndemand: {source: {kind: csv, path: demand.csv, wide: depots, null_values: ["-", "n/a"]}}\n', "utf-8"
    )
    result = ingest(load(tmp_path / "pipeline.yaml"), now=NOW)
    assert (result.read, result.accepted) == (2, 2)


def test_rejects_a_blank_null_value(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        'name: t\ndemand: {source: {kind: csv, path: demand.csv, null_values: [" "]}}\n', "utf-8"
    )
    with pytest.raises(SpecError, match="found a blank word"):
        load(tmp_path / "pipeline.yaml")
