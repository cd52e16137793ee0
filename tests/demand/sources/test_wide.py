"""Wide tables of any kind of source are read like the long table with the same readings."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter
from deltalake import write_deltalake
from pydantic import ValidationError

from forecaster.config import CsvSource, DeltaSource, ExcelSource, ParquetSource, Spec, SqlSource, load
from forecaster.config.sources import AnySource
from forecaster.demand import ingest, sources
from forecaster.demand.sources import wide
from forecaster.errors import SourceError
from forecaster.lake import Lake

ASKED = ["depot_id", "date", "demand"]


def readings(source: AnySource, spec: Spec, *optional: str) -> list[tuple[object, ...]]:
    """depot, date, demand and line of each reading, then optional columns."""
    rows = sources.read(source, spec, ASKED, optional)
    columns = [rows[name].astype(object) for name in (*ASKED, "row", *optional)]
    return list(zip(*columns, strict=True))


def csv_source(spec: Spec, content: str | bytes, **keys: object) -> CsvSource:
    (spec.folder / "wide.csv").write_bytes(content.encode() if isinstance(content, str) else content)
    return CsvSource(kind="csv", path="wide.csv", **{"wide": "depots", **keys})  # type: ignore[arg-type]


def test_each_cell_in_a_column_per_depot_is_a_reading_on_its_line(spec: Spec) -> None:
    source = csv_source(spec, "date,Alder,promo,Birch\n2024-03-05,92,1,166\n2024-03-06,,0,x\n2024-03-07, ,1,\n")
    assert readings(source, spec, "promo") == [
        ("Alder", "2024-03-05", "92", 2, "1"),
        ("Birch", "2024-03-05", "166", 2, "1"),
        ("Birch", "2024-03-06", "x", 3, "0"),
    ]


def test_each_cell_in_a_column_per_day_is_a_reading_on_its_line(spec: Spec) -> None:
    source = csv_source(spec, "05.03.2024,depot_id,06.03.2024\n92,Alder,93\n,Birch,166\n", wide="days")
    assert readings(source, spec) == [
        ("Alder", "05.03.2024", "92", 2),
        ("Alder", "06.03.2024", "93", 2),
        ("Birch", "06.03.2024", "166", 3),
    ]


def test_columns_without_readings_can_be_ignored_by_name(spec: Spec) -> None:
    source = csv_source(spec, "date,weekday,Alder,Total\n2024-03-05,Tue,92,92\n", ignore=["weekday", "Total"])
    assert readings(source, spec) == [("Alder", "2024-03-05", "92", 2)]
    with pytest.raises(ValidationError, match="ignore names columns of a wide table, but wide is not set"):
        CsvSource(kind="csv", path="a.csv", ignore=("Total",))


def test_header_row_can_be_combined_with_wide(spec: Spec) -> None:
    source = csv_source(spec, 'Parcels\n"open,\n\ndate,Alder,Birch\n2024-03-05,92,166\n', header_row=4)
    assert [(depot, line) for depot, _, _, line in readings(source, spec)] == [("Alder", 5), ("Birch", 5)]


def test_column_without_a_header_has_readings_without_a_depot(spec: Spec) -> None:
    source = csv_source(spec, "date,Alder,,\n2024-03-05,92,,\n2024-03-06,93,7,\n")
    assert [reading[0] for reading in readings(source, spec)] == ["Alder", "Alder", ""]


def test_fault_of_a_line_applies_to_each_of_its_readings(spec: Spec) -> None:
    source = csv_source(spec, "date,Alder,Birch\n2024-03-05,92\n2024-03-06,1,2\n2024-03-07,1,2,3\nlast line\n")
    rows = sources.read(source, spec, ASKED)
    assert rows["row"].tolist() == [2, 3, 3, 4, 4, 5]
    assert rows[":fault"].ne("").tolist() == [False, False, False, True, True, True]
    assert rows["depot_id"].isna().tolist() == [False] * 5 + [True]


def test_undecodable_byte_only_loses_the_reading_of_its_cell(spec: Spec) -> None:
    source = csv_source(spec, b"date,Alder,Birch\n2024-03-05,92,1\xfc\n2024-03-0\xfc,1,2\n")
    rows = sources.read(source, spec, ASKED)
    assert rows[":fault"].ne("").tolist() == [False, True, True, True]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("date,Alder,Alder", "found column 'Alder' twice; wanted each name once"),
        ("day,Alder", "found columns day, Alder; wanted 'date'"),
        ("date", "found columns date; wanted further ones, one per depot, because the source is `wide`"),
        (
            "date,depot_id,demand",
            "as in a table with one row per reading; wanted a wide table, or no `wide` in the source",
        ),
    ],
)
def test_rejects_tables_that_are_not_wide(spec: Spec, header: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        readings(csv_source(spec, f"{header}\n"), spec)


def test_wide_table_without_rows_has_the_columns_of_a_long_one(spec: Spec) -> None:
    rows = sources.read(csv_source(spec, "date,Alder\n"), spec, ASKED)
    assert rows.empty
    assert {*ASKED, "row"} <= set(rows.columns)


WIDE = {"date": [date(2024, 3, 5), date(2024, 3, 6)], "Alder": [92, 93], "Birch": [None, 166.5]}


@pytest.mark.parametrize("kind", ["parquet", "delta", "sql", "excel"])
def test_every_kind_of_source_may_be_wide(spec: Spec, kind: str) -> None:
    path, source = spec.folder / f"wide.{kind}", AnySource
    if kind == "parquet":
        pq.write_table(pa.table(WIDE), path)
        source = ParquetSource(kind="parquet", path=path.name, wide="depots")
    elif kind == "delta":
        write_deltalake(str(path), pa.table(WIDE))
        source = DeltaSource(kind="delta", path=path.name, wide="depots")
    elif kind == "sql":
        pd.DataFrame(WIDE).to_sql("wide", f"sqlite:///{path}", index=False)
        source = SqlSource(kind="sql", url=f"sqlite:///{path.name}", table="wide", wide="depots")
    else:
        with xlsxwriter.Workbook(str(path), {"default_date_format": "dd/mm/yyyy"}) as book:
            sheet = book.add_worksheet()
            for column, (name, values) in enumerate(WIDE.items()):
                sheet.write_column(0, column, [name, *values])
        source = ExcelSource(kind="excel", path=path.name, wide="depots")
    read = readings(source, spec)
    assert [(depot, str(day)[:10], demand) for depot, day, demand, _ in read] == [
        ("Alder", "2024-03-05", 92),
        ("Alder", "2024-03-06", 93),
        ("Birch", "2024-03-06", 166.5),
    ]
    assert [line for *_, line in read] == ([2, 3, 3] if kind == "excel" else [1, 2, 2])


def test_cells_of_several_types_are_text_and_numbers_stay_numbers(spec: Spec) -> None:
    path = spec.folder / "wide.parquet"
    columns = {"date": ["2024-03-05"], "A": ["7"], "B": [1.5], "C": [2], "D": pa.array([b"3"]), "E": pa.nulls(1)}
    pq.write_table(pa.table({**columns, "F": pa.array(["9"]).dictionary_encode(), "G": [True]}), path)
    source = ParquetSource(kind="parquet", path=path.name, wide="depots")
    assert [demand for _, _, demand, _ in readings(source, spec)] == ["7", "1.5", "2", "3", "9", "true"]


def test_many_rows_are_unpivoted_in_parts(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wide, "_CELLS", 7)
    lines = [f"2024-03-{day:02},{day},{day + 100},{day + 200}" for day in range(1, 32)]
    read = readings(csv_source(spec, "\n".join(["date,A,B,C", *lines])), spec)
    assert read == [
        (depot, f"2024-03-{day:02}", str(day + plus), day + 1)
        for day in range(1, 32)
        for depot, plus in (("A", 0), ("B", 100), ("C", 200))
    ]


PIPELINE = """
name: t
timezone: Europe/Berlin
state: {folder}/var
demand: {{source: {{kind: csv, path: {folder}/wide.csv, {keys}}}, columns: {{depot_id: site, date: day}}}}
"""


def pipeline(spec: Spec, content: str, keys: str) -> Spec:
    (spec.folder / "wide.csv").write_text(content)
    (spec.folder / "wide.yaml").write_text(PIPELINE.format(folder=spec.folder, keys=keys))
    return load(spec.folder / "wide.yaml")


def refused(spec: Spec) -> list[str]:
    ingest.ingest(spec, now=datetime(2024, 4, 1, 3, tzinfo=UTC))
    return sorted(Lake(spec.lake_url).read("quarantine").to_pydict()["message"])


def test_invalid_cell_is_quarantined_with_its_line_and_column(spec: Spec) -> None:
    lines = [f"2024-03-{day:02},{day},{day + 100},{day + 200}" for day in range(1, 32)]
    lines[9] = "2024-03-10,10,n/a,210"
    whole = pipeline(spec, "\n".join(["day,Alder,Birch,Cedar", *lines]), "wide: depots")
    (message,) = refused(whole)
    assert message.startswith("wide.csv:11: depot Birch on 2024-03-10, column 'Birch': found 'n/a', wanted a number")
    assert len(Lake(whole.lake_url).read("demand")) == 3 * 31 - 1


def test_invalid_day_header_is_reported_with_its_column(spec: Spec) -> None:
    header = ",".join(["site", *(f"{day:02}.03.2024" for day in range(1, 32)), "Total"])
    rows = [",".join([name, *(f"{day + 50}" for day in range(1, 32)), "1"]) for name in ("Alder", "Birch")]
    rows[1] = rows[1].replace(",60,", ",-3,")
    whole = pipeline(spec, "\n".join([header, *rows]), 'wide: days, date_format: "%d.%m.%Y"')
    assert [message.partition(", wanted")[0] for message in refused(whole)] == [
        "wide.csv:2: depot Alder, column 'Total': found 'Total'",
        "wide.csv:3: depot Birch on 10.03.2024, column '10.03.2024': found '-3'",
        "wide.csv:3: depot Birch, column 'Total': found 'Total'",
    ]
    assert len(Lake(whole.lake_url).read("demand")) == 2 * 31 - 1
