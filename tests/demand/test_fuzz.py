"""Thousands of damaged sources, by seed: each row is accepted or rejected with its line, or the
whole file is rejected."""

from __future__ import annotations

import csv
import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import date, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from deltalake import write_deltalake

from forecaster.config import Spec
from forecaster.demand import sources
from forecaster.demand.ingest import ingest
from forecaster.demand.validation.contract import Contract
from tests.mutations import (
    CELLS,
    NAMES,
    NOW,
    PIPELINE,
    VALUES,
    ZONES,
    an_end,
    as_csv,
    attempt,
    mutated_csv,
    rows,
    spec_of,
)

DEMAND = PIPELINE.partition("depots:")[0]
exhaustive = pytest.mark.exhaustive
SOURCE = "{kind: csv, path: demand.csv}"
FORMS: list[tuple[str, dict[str, Any]]] = [
    ("", {}),
    ("", {"quoting": csv.QUOTE_ALL}),
    (", delimiter: ;", {"delimiter": ";"}),
    (', delimiter: "\\t"', {"delimiter": "\t", "lineterminator": "\r\n"}),
    (", encoding: cp1252", {}),
    (", encoding: cp932", {"lineterminator": "\r"}),
]


@pytest.fixture(autouse=True)
def ends() -> Iterator[None]:
    with an_end():
        yield


def sorted_rows(spec: Spec) -> tuple[int, int, int]:
    """Rows read, accepted and rejected; each rejected one has its place, a rule and a sentence."""
    feed = sources.open_feed(spec.demand.source, spec, NAMES)
    contract, counts = Contract(spec, now=NOW), np.zeros(3, int)
    for block in feed.blocks:
        parts = contract.sort(block)
        counts += len(block), len(parts.accepted), len(parts.refused)
        assert (
            parts.refused["message"].str.contains(r":\d+: depot .*found .*wanted") & (parts.refused["rule"] != "")
        ).all()
        places = [*zip(block[":file"], block["row"], strict=True)]
        parted = [*zip(parts.accepted["source"], parts.accepted["row"], strict=True)]
        parted += zip(parts.refused["source"], parts.refused["row"], strict=True)
        assert Counter(parted) == Counter(places)
    read, accepted, refused = counts.tolist()
    return read, accepted, refused


def lines_of(text: str) -> list[str]:
    return text.replace("\r\n", "\n").replace("\r", "\n").split("\n")


def lines_within(spec: Spec) -> int:
    """Lines on which cells continue, except empty ones; a quote ends the last of them."""
    cells = sources.read(spec.demand.source, spec, NAMES)[list(NAMES)].astype("str").to_numpy().ravel()
    lines = [lines_of(cell)[1:] for cell in cells if {"\n", "\r"} & {*cell}]
    return sum(1 + sum(line != "" for line in of_cell[:-1]) for of_cell in lines)


@pytest.mark.parametrize(
    ("seed", "form"),
    [(0, FORMS[0]), *(pytest.param(seed, form, marks=exhaustive) for seed, form in enumerate(FORMS) if seed)],
)
def test_rows_of_damaged_csv_files_are_each_accepted_or_rejected(
    tmp_path: Path, seed: int, form: tuple[str, dict[str, Any]]
) -> None:
    random, lines = np.random.default_rng(seed), 0
    text = DEMAND.replace("path: demand.csv", f"path: 'demand*.csv'{form[0]}")
    for number in range(500):
        content = mutated_csv(random, NAMES, **form[1])
        (tmp_path / f"demand{number}.csv").write_bytes(content)
        lines += sum(line != "" for line in lines_of(content.decode("latin-1"))[1:])
    spec = spec_of(tmp_path, ZONES[seed], text)
    read, accepted, refused = sorted_rows(spec)
    assert read == accepted + refused == lines - lines_within(spec)
    assert accepted > read / 2


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [
        pytest.param(
            column,
            value,
            kind,
            marks=[] if number % len(NAMES) == place else exhaustive,
            id=f"{kind}-{column}",
        )
        for number, (value, kind) in enumerate(VALUES)
        for place, column in enumerate(NAMES)
    ],
)
def test_value_of_any_type_is_accepted_or_rejected_with_its_row(
    tmp_path: Path, column: str, value: Any, kind: pa.DataType
) -> None:
    table = pa.Table.from_pandas(pd.DataFrame(rows(), columns=list(NAMES)))
    values = pa.array([None, value, *[None] * 10], kind)
    table = table.set_column(NAMES.index(column), column, values)
    pq.write_table(table, tmp_path / "demand.parquet")
    spec = spec_of(tmp_path, "America/New_York", DEMAND.replace(SOURCE, "{kind: parquet, path: demand.parquet}"))
    read, accepted, refused = sorted_rows(spec)
    assert read == accepted + refused == 12
    if column == "demand" and not attempt(lambda: write_deltalake(str(tmp_path / "demand"), table), others=True)[1]:
        spec = spec_of(tmp_path, "America/New_York", DEMAND.replace(SOURCE, "{kind: delta, path: demand}"))
        assert sorted_rows(spec) == (read, accepted, refused)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["parquet", "delta"])
@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=exhaustive)])
def test_damaged_file_is_rejected_or_all_its_rows_are_accounted_for(tmp_path: Path, seed: int, kind: str) -> None:
    random, table = np.random.default_rng(seed), pd.DataFrame(rows(), columns=list(NAMES))
    if kind == "parquet":
        table.to_parquet(tmp_path / "demand", index=False)
        files, inputs = [tmp_path / "demand"], 500
    else:
        write_deltalake(str(tmp_path / "demand"), table)
        files, inputs = [file for file in (tmp_path / "demand").rglob("*.*") if file.is_file()], 100
    spec = spec_of(tmp_path, "UTC", DEMAND.replace(SOURCE, f"{{kind: {kind}, path: demand}}"))
    for number in range(inputs):
        file = files[number % len(files)]
        whole = file.read_bytes()
        content = bytearray(whole)
        for place in random.integers(len(content), size=random.integers(1, 5)):
            content[place] = random.integers(256)
        file.write_bytes(content[: random.integers(len(content))] if number % 10 == 9 else content)
        counts, message = attempt(partial(sorted_rows, spec))
        file.write_bytes(whole)
        assert "demand" in message or counts[0] == counts[1] + counts[2]


@pytest.mark.parametrize("column", range(len(NAMES)))
def test_any_cell_of_a_workbook_only_loses_its_row(tmp_path: Path, column: int) -> None:
    far = [date(9999, 12, 31), date(1900, 1, 1), -1, 2**62, 9.9e307, 1e-300, True, None]
    with xlsxwriter.Workbook(str(tmp_path / "demand.xlsx"), {"strings_to_formulas": False}) as book:
        sheet, day = book.add_worksheet(), book.add_format({"num_format": "dd/mm/yyyy"})
        sheet.write_row(0, 0, NAMES)
        for line, cell in enumerate([*CELLS, *far], start=1):
            sheet.write_row(line, 0, rows()[line % 12])
            if isinstance(cell, date):
                sheet.write_datetime(line, column, cell, day)
            else:
                sheet.write(line, column, cell)
    spec = spec_of(tmp_path, ZONES[column], DEMAND.replace(SOURCE, "{kind: excel, path: demand.xlsx}"))
    read, accepted, refused = sorted_rows(spec)
    assert read == accepted + refused == len(CELLS) + len(far)
    whole, random = (tmp_path / "demand.xlsx").read_bytes(), np.random.default_rng(column)
    for _ in range(25):
        content = bytearray(whole)
        for place in random.integers(len(content), size=4):
            content[place] = random.integers(256)
        (tmp_path / "demand.xlsx").write_bytes(content)
        counts, message = attempt(partial(sorted_rows, spec))
        assert "demand.xlsx" in message or counts[0] == counts[1] + counts[2]


def test_any_cell_of_a_wide_table_only_loses_its_reading(tmp_path: Path) -> None:
    lines = [[day, "7", "8"] for _, day, _, _ in rows(len(CELLS))]
    for line, cell in zip(lines, CELLS, strict=True):
        line[2] = cell
    (tmp_path / "demand.csv").write_text(
        as_csv([["date", "A", "B"], *lines], quoting=csv.QUOTE_ALL), "utf-8", newline=""
    )
    text = "name: t\ntimezone: UTC\ndemand: {source: {kind: csv, path: demand.csv, wide: depots}}\n"
    result = ingest(spec_of(tmp_path, "UTC", text), now=NOW + timedelta(days=len(CELLS)))
    blank = sum(not cell.strip() for cell in CELLS)  # which is no reading
    assert result.read == result.accepted + result.quarantined == 2 * len(CELLS) - blank


def odd_values(random: np.random.Generator) -> Iterator[Any]:
    yield from random.permutation(np.array([*CELLS, "2024-02-09"], object))[:3]
    yield from (b"\xff\x00", 2**62, -1, 9.9e307, float("inf"), None)


@pytest.mark.long
@pytest.mark.parametrize("kind", ["TEXT", "REAL", "INTEGER", "DATE", "DATETIME", "BLOB"])
def test_any_value_of_a_database_only_loses_its_row(tmp_path: Path, kind: str) -> None:
    random = np.random.default_rng(0)
    source = "{kind: sql, url: 'sqlite:///demand.db', table: demand}"
    for number in range(2 * len(ZONES)):
        spec = spec_of(tmp_path, ZONES[number % len(ZONES)], DEMAND.replace(SOURCE, source))
        (tmp_path / "demand.db").unlink(missing_ok=True)
        column = number % 4
        with closing(sqlite3.connect(tmp_path / "demand.db")) as database:
            declared = [f"{name} {kind if place == column else 'TEXT'}" for place, name in enumerate(NAMES)]
            database.execute(f"CREATE TABLE demand ({', '.join(declared)})")
            odd = [[*rows()[0][:column], value, *rows()[0][column + 1 :]] for value in odd_values(random)]
            database.executemany("INSERT INTO demand VALUES (?, ?, ?, ?)", [*rows(), *odd])
            database.execute("UPDATE demand SET depot_id = CAST(x'ff31' AS TEXT) WHERE date = '2024-02-03'")
            database.commit()
        read, accepted, refused = sorted_rows(spec)
        assert read == accepted + refused == 12 + 9
        assert refused >= 1


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12"])
def test_lake_stores_and_returns_rejected_rows_with_odd_cells(tmp_path: Path, zone: str) -> None:
    spec = spec_of(tmp_path, zone, DEMAND)
    odd = [["A", "2024-02-01", cell, "2024-03-05T00:00Z"] for cell in CELLS]
    odd += [["B", cell, "1", "2024-03-05T00:00Z"] for cell in CELLS]
    odd += [["C", "2024-02-01", "1", cell] for cell in CELLS]
    odd += [[cell, "2024-02-01", "1", "2024-03-05T00:00Z"] for cell in CELLS]
    (tmp_path / "demand.csv").write_text(as_csv([NAMES, *odd], quoting=csv.QUOTE_ALL), "utf-8", newline="")
    result = ingest(spec, now=NOW)
    assert result.read == len(odd) == result.accepted + result.quarantined
    assert ingest(spec, now=NOW).accepted == 0
