"""The error for a file that differs from its declared source names its likely kind and the key to
set."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import xlsxwriter

from forecaster.config import Spec, load
from forecaster.demand import sources
from forecaster.errors import SourceError

DAYS = range(1, 20)
LONG = "site,day,parcels\n" + "".join(f"{site},2026-08-{day:02},{day * 7}\n" for day in DAYS for site in ("Alder", "B"))
WIDE = "day,Alder,Birch,Cedar,Dogwood\n" + "".join(
    f"2026-08-{day:02},{day},2,{'' if day % 3 else 1},4.5\n" for day in DAYS
)
HEADERS = ",".join(f"2026-08-{day:02}" for day in DAYS)
BY_DAY = f"site,{HEADERS}\n" + "".join(f"{site},{'7,' * 18}8\n" for site in ("Alder", "Birch"))
DECIMAL_COMMAS = "day;Alder;Birch;Cedar\n" + "".join(f"{day:02}/08/2026;{day},5;2,5;4,5\n" for day in DAYS)
TITLE = "Parcel report,,\nGenerated 2026-11-24,,\n\n"
OF_STORE = "Store,DayOfWeek,day,Sales,Customers\n" + "".join(f"1,{day % 7},2026-08-{day:02},9,9\n" for day in DAYS)


def message(folder: Path, content: str | bytes, source: str = "kind: csv, path: f.csv") -> str:
    """Message about the file, from its place on; empty if it can be read."""
    path = folder / source.partition("path: ")[2].partition(",")[0]
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    columns = "{depot_id: site, date: day, demand: parcels}"
    (folder / "p.yaml").write_text(f"name: t\ndemand: {{source: {{{source}}}, columns: {columns}}}\n")
    spec = load(folder / "p.yaml")
    try:
        sources.read(spec.demand.source, spec, ["site", "day", "parcels"])
    except SourceError as error:
        return str(error).removeprefix(f"{folder}/")
    return ""


@pytest.mark.parametrize(
    ("content", "end"),
    [
        (TITLE + LONG, "; the header seems to be line 4: set header_row: 4"),
        ('"Report, all","",""\n' + LONG, "; the header seems to be line 2: set header_row: 2"),
        (TITLE + LONG.replace("site,day,", "Ort,Tag,"), "line 4 (Ort, Tag, parcels): set header_row: 4"),
        (WIDE, "; the file seems to have one column per depot (Alder, Birch, Cedar, …): set wide: depots"),
        (WIDE.replace("day,", "Datum,"), ': set wide: depots and demand.columns.date: "Datum"'),
        (BY_DAY, "one column per day (2026-08-01, 2026-08-02, 2026-08-03, …): set wide: days"),
        (BY_DAY.replace("site", "Ort"), ': set wide: days and demand.columns.depot_id: "Ort"'),
        (TITLE + WIDE, ": set header_row: 4 and wide: depots"),
        (
            WIDE.replace(",", ";"),
            "delimited by ';' and the file seems to have one column per depot (Alder, Birch, Cedar, …): "
            "set delimiter: ';' and wide: depots",
        ),
        (
            DECIMAL_COMMAS,
            "delimited by ';' and the file seems to have one column per depot (Alder, Birch, Cedar): "
            "set delimiter: ';' and wide: depots",
        ),
        (LONG.replace(",", ";"), "; the header has one column 'site;day;parcels': set delimiter: ';'"),
        (LONG.replace(",", "\t"), ': set delimiter: "\\t"'),
        ("Report\n\n" + LONG.replace(",", "|"), ": set delimiter: '|' and header_row: 3"),
        (
            LONG.partition("\n")[2],
            "; line 1 seems to be a data row: wanted a line with column names above it, such as site,day,parcels",
        ),
        (
            LONG.replace("site,day", "Site, DAY "),
            "'Site' for 'site', 'DAY' for 'day'? Case, spaces and punctuation matter",
        ),
        (OF_STORE, "found columns Store, DayOfWeek, day, Sales, Customers; wanted 'site', 'parcels'"),
        (LONG.encode("utf-16"), "; it looks like UTF-16: set encoding: utf-16"),
        (LONG.encode("utf-16-le"), "; it looks like UTF-16-LE: set encoding: utf-16-le"),
        (LONG.encode("utf-32"), "; it looks like UTF-32: set encoding: utf-32"),
        (
            "<!DOCTYPE html>\n<html><body>Sign in</body></html>",
            "; it looks like a web page, perhaps for login or an error: wanted the file itself; open it in a browser",
        ),
        ('[{"site": "A"}]', "; it looks like JSON, perhaps an API response; wanted another export format"),
        ('<?xml version="1.0"?><a/>', "; it looks like XML; wanted another export format"),
        (b"%PDF-1.7\n", "; it looks like a PDF"),
        ("", "; the file is empty"),
        (" \n\n", "; the file is empty"),
    ],
)
def test_recognizes_text_with_another_layout_or_encoding(spec: Spec, content: str | bytes, end: str) -> None:
    assert message(spec.folder, content).endswith(end)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_recognizes_utf_8_where_another_encoding_is_declared(spec: Spec, encoding: str) -> None:
    end = "; it looks like UTF-8: set encoding: utf-8"
    assert message(spec.folder, LONG, f"kind: csv, path: f.csv, encoding: {encoding}").endswith(end)
    marked = b"\xef\xbb\xbf" + LONG.encode()
    assert message(spec.folder, marked, "kind: csv, path: f.csv, encoding: cp1252").endswith(end)


def files() -> dict[str, bytes]:
    book, table, archive = io.BytesIO(), io.BytesIO(), io.BytesIO()
    with xlsxwriter.Workbook(book) as writer:
        writer.add_worksheet("Cover").write(0, 0, "Report")
        sheet = writer.add_worksheet("Data")
        for line, text in enumerate(LONG.splitlines()):
            sheet.write_row(line, 0, text.split(","))
    pq.write_table(pa.table({"site": ["A"]}), table)
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("a.csv", LONG)
    plain = {"excel": book.getvalue(), "parquet": table.getvalue(), "csv": LONG.encode()}
    return plain | {"zip": archive.getvalue(), "gzip": gzip.compress(LONG.encode())}


@pytest.mark.parametrize(
    ("held", "source", "end"),
    [
        ("excel", "kind: csv, path: f.csv", "; it looks like an Excel workbook: set kind: excel"),
        ("parquet", "kind: csv, path: f.csv", "; it looks like a Parquet file: set kind: parquet"),
        ("gzip", "kind: csv, path: f.csv", "; it looks like a gzip-compressed file: set compression: gzip"),
        ("zip", "kind: csv, path: f.csv", "; it looks like a zip-compressed file: set compression: zip"),
        ("csv", "kind: csv, path: f.csv.gz", "; it looks like plain text: set compression: none"),
        ("csv", "kind: parquet, path: f.parquet", "; it looks like text: set kind: csv"),
        ("csv", "kind: excel, path: f.xlsx", "; it looks like text: set kind: csv"),
        ("excel", "kind: parquet, path: f.parquet", "; it looks like an Excel workbook: set kind: excel"),
        ("parquet", "kind: excel, path: f.xlsx", "; it looks like a Parquet file: set kind: parquet"),
        ("gzip", "kind: excel, path: f.xlsx", "; it looks like a gzip-compressed file: wanted the decompressed file"),
        (
            "excel",
            "kind: excel, path: f.xlsx",
            "found columns Report; wanted 'site', 'day', 'parcels'; sheet 'Data' contains them: set sheet: \"Data\"",
        ),
    ],
)
def test_recognizes_another_kind_of_file_by_its_bytes(spec: Spec, held: str, source: str, end: str) -> None:
    assert message(spec.folder, files()[held], source).endswith(end)


def test_recognizes_a_wide_table_in_a_workbook_and_in_parquet(spec: Spec) -> None:
    lines = [line.split(",") for line in ["Report", "", *WIDE.splitlines()]]
    with xlsxwriter.Workbook(book := io.BytesIO(), {"strings_to_numbers": True}) as writer:
        sheet = writer.add_worksheet()
        for line, cells in enumerate(lines):
            sheet.write_row(line, 0, cells)
    said = message(spec.folder, book.getvalue(), "kind: excel, path: f.xlsx")
    assert said.endswith(": set header_row: 3 and wide: depots")
    columns = {"day": ["2026-08-01", "2026-08-02"], "Alder": [1, 2], "Birch": [3.5, None]}
    pq.write_table(pa.table(columns), table := io.BytesIO())
    said = message(spec.folder, table.getvalue(), "kind: parquet, path: f.parquet")
    assert said.endswith("; the file seems to have one column per depot (Alder, Birch): set wide: depots")


def test_suggested_keys_read_the_file(spec: Spec) -> None:
    assert message(spec.folder, TITLE + LONG, "kind: csv, path: f.csv, header_row: 4") == ""
    assert message(spec.folder, LONG.encode("utf-16"), "kind: csv, path: f.csv, encoding: utf-16") == ""
    assert message(spec.folder, TITLE + WIDE, "kind: csv, path: f.csv, header_row: 4, wide: depots") == ""
    assert message(spec.folder, BY_DAY, "kind: csv, path: f.csv, wide: days") == ""
    assert message(spec.folder, files()["excel"], "kind: excel, path: f.xlsx, sheet: Data") == ""


def test_recognizes_a_header_below_titles_of_a_declared_wide_table(spec: Spec) -> None:
    said = message(spec.folder, TITLE + WIDE, "kind: csv, path: f.csv, wide: depots")
    assert said.endswith("; the header seems to be line 4: set header_row: 4")


def test_message_does_not_list_hundreds_of_columns(spec: Spec) -> None:
    said = message(spec.folder, ",".join(f"c{place}" for place in range(500)) + "\n")
    assert ", c14, … (500 in all); wanted 'site'" in said
