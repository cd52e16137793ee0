"""Workbooks as found in practice: written by one library here, read by another."""

from __future__ import annotations

import io
import sys
import zipfile
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import xlsxwriter

from forecaster.config import ExcelSource, Spec, load
from forecaster.demand import ingest, sources
from forecaster.demand.sources import excel
from forecaster.errors import MissingExtra, SourceError, SourceUnreachable
from forecaster.lake import Lake

ASKED = ["depot", "day", "n"]
Sheets = dict[str, list[list[Any]]]


def write(path: Path, sheets: Sheets, hidden: str = "") -> None:
    with xlsxwriter.Workbook(str(path)) as book:
        day, instant = (book.add_format({"num_format": form}) for form in ("dd/mm/yyyy", "dd/mm/yyyy hh:mm"))
        for name, rows in sheets.items():
            sheet = book.add_worksheet(name)
            if name == hidden:
                sheet.hide()
            for line, cells in enumerate(rows):
                for column, cell in enumerate(cells):
                    if isinstance(cell, date | time):
                        sheet.write_datetime(line, column, cell, instant if isinstance(cell, datetime) else day)
                    elif cell is not None:
                        sheet.write(line, column, cell)


def read(spec: Spec, sheets: Sheets, *optional: str, hidden: str = "", **keys: Any) -> pd.DataFrame:
    write(spec.folder / "book.xlsx", sheets, hidden)
    return sources.read(ExcelSource(kind="excel", path="book.xlsx", **keys), spec, ASKED, optional)


def test_reads_numbers_days_and_text_with_their_types(spec: Spec) -> None:
    rows = read(spec, {"S": [["depot", "day", " n "], ["A", date(2024, 3, 5), 7], ["B", date(2024, 3, 6), None]]})
    assert rows["depot"].tolist() == ["A", "B"]
    assert rows["day"].tolist() == [pd.Timestamp("2024-03-05"), pd.Timestamp("2024-03-06")]
    assert rows["n"].fillna(-1).tolist() == [7, -1]
    assert (rows["row"].tolist(), rows[":file"].tolist()) == ([2, 3], ["book.xlsx"] * 2)


def test_reads_all_sheets_of_one_form_and_skips_notes(spec: Spec) -> None:
    names = ["depot", "day", "n"]
    sheets = {
        "Notes": [["what this is"]],
        "May": [names, ["A", date(2024, 5, 1), 7]],
        "Jun": [["n", "depot", "day"], [8, "A", date(2024, 6, 1)]],
    }
    rows = read(spec, sheets, sheet="*")
    assert rows["n"].tolist() == [7, 8]
    assert rows[":file"].tolist() == ["book.xlsx, sheet 'May'", "book.xlsx, sheet 'Jun'"]
    with pytest.raises(SourceError, match=r"sheet 'Jul': found columns depot, day, m; wanted 'n'"):
        read(spec, {**sheets, "Jul": [["depot", "day", "m"]]}, sheet="*")
    with pytest.raises(SourceError, match=r"sheet 'Notes': found columns what this is; wanted 'depot', 'day', 'n'"):
        read(spec, {"Notes": sheets["Notes"]}, sheet="*")


def test_mixed_column_becomes_text_as_in_a_csv(spec: Spec) -> None:
    cells = [
        [101, date(2024, 3, 5), "1,5"],
        ["101", "06.03.2024", 2.5],
        ["A", 45358, True],
        [1.5, datetime(2024, 3, 8, 6, 30), "7"],
        [2e17, time(3, 4), ""],
    ]
    rows = read(spec, {"S": [ASKED, *cells]})
    assert rows["depot"].tolist() == ["101", "101", "A", "1.5", "2e+17"]
    assert rows["day"].tolist() == ["2024-03-05", "06.03.2024", "45358", "2024-03-08T06:30:00", "03:04:00"]
    assert rows["n"].tolist() == ["1,5", "2.5", "true", "7", ""]
    rows = read(spec, {"S": [ASKED, *cells]}, decimal=",", date_format="%d.%m.%Y")
    assert rows["n"].tolist()[:2] == ["1,5", "2,5"]
    assert rows["day"].tolist()[0] == "2024-03-05T00:00:00"  # no form with days alone takes this for another day


def test_skips_rows_without_values_and_keeps_row_numbers(spec: Spec) -> None:
    sheet = [[], [None, *ASKED], [None, "A", date(2024, 3, 5), 7], [], [None, "B", date(2024, 3, 5), 8], [None, ""]]
    rows = read(spec, {"S": sheet})
    assert rows["depot"].tolist() == ["A", "B"]
    assert rows["row"].tolist() == [3, 5]


def test_skips_rows_above_the_header(spec: Spec) -> None:
    rows = read(spec, {"S": [["Parcels", "", 5], ["made", date(2024, 4, 1)], [], ASKED, ["A", "x", 7]]}, header_row=4)
    assert (rows["depot"].tolist(), rows["row"].tolist()) == (["A"], [5])


def test_merged_text_and_days_fill_each_row_and_numbers_only_the_first(spec: Spec) -> None:
    with xlsxwriter.Workbook(str(spec.folder / "book.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.merge_range("B1:D1", "Parcels")
        sheet.write_row("B2", ASKED)
        sheet.merge_range("B3:B5", "Alder")
        sheet.merge_range("D4:D5", 9)
        sheet.write_column("C3", ["2024-03-05", "2024-03-06", "2024-03-07"])
        sheet.write("D3", 7)
    source = ExcelSource(kind="excel", path="book.xlsx", header_row=2)
    rows = sources.read(source, spec, ASKED)
    assert rows["depot"].tolist() == ["Alder"] * 3
    assert rows["n"].fillna(-1).tolist() == [7, 9, -1]


def test_formula_counts_with_its_result(spec: Spec) -> None:
    with xlsxwriter.Workbook(str(spec.folder / "book.xlsx")) as book:
        sheet = book.add_worksheet()
        sheet.write_row("A1", ASKED)
        sheet.write_row("A2", ["A", "2024-03-05"])
        sheet.write_formula("C2", "=3+4", None, 7)
    rows = sources.read(ExcelSource(kind="excel", path="book.xlsx"), spec, ASKED)
    assert rows["n"].tolist() == [7]


def test_sheet_is_chosen_by_name_or_number_or_is_the_first_visible_with_cells(spec: Spec) -> None:
    sheets: Sheets = {name: [ASKED, [name, "2024-03-05", 7]] for name in ("Hidden", "Data", "Old")}
    sheets = {"Cover": [], **sheets}
    assert read(spec, sheets, hidden="Hidden")["depot"].tolist() == ["Data"]
    assert read(spec, sheets, sheet="Old")["depot"].tolist() == ["Old"]
    assert read(spec, sheets, sheet=2)["depot"].tolist() == ["Hidden"]
    for wrong in ("data", 5):
        with pytest.raises(SourceError, match=rf"book.xlsx: found sheets 'Cover', 'Hidden', .*; wanted .*{wrong}"):
            read(spec, sheets, sheet=wrong)
    with pytest.raises(SourceError, match="found no sheet with cells"):
        read(spec, {"Cover": []})
    with pytest.raises(SourceError, match=r"book.xlsx, sheet 'Cover': found columns a, b; wanted 'depot', 'day', 'n'"):
        read(spec, {"Cover": [["a", "b"]]})


def test_large_sheets_become_several_tables(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(excel, "_ROWS_A_TABLE", 3)
    rows = read(spec, {"S": [ASKED, *([n if n < 6 else f"D{n}", "2024-03-05", n] for n in range(10))]})
    assert rows["row"].tolist() == list(range(2, 12))
    assert rows["depot"].astype(str).tolist()[6:] == ["D6", "D7", "D8", "D9"]


def test_rejects_files_that_are_no_workbook(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    path = spec.folder / "book.xlsx"
    write(path, {"S": [ASKED]})
    whole = path.read_bytes()
    source = ExcelSource(kind="excel", path="book.xlsx")
    for content in (b"", b"depot,day,n\n", b"PK\x03\x04" + bytes(90), whole[:200], whole[: len(whole) // 2]):
        path.write_bytes(content)
        with pytest.raises(SourceError, match=r"book.xlsx: not a readable workbook") as caught:
            sources.read(source, spec, ASKED)
        assert not isinstance(caught.value, SourceUnreachable)
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    with pytest.raises(MissingExtra, match=r"needs python-calamine, .*: pip install 'harbor-forecaster\[excel\]'"):
        sources.read(source, spec, ASKED)


ODS = """<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"
 xmlns:table="urn:oasis:names:tc:opendocument:xmlns:table:1.0"
 xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">
<office:body><office:spreadsheet><table:table table:name="S">{rows}</table:table></office:spreadsheet></office:body>
</office:document-content>"""
CELL = (
    '<table:table-cell office:value-type="{kind}" office:{attribute}="{value}"><text:p>{value}</text:p>'
    "</table:table-cell>"
)
KINDS = {str: ("string", "string-value"), date: ("date", "date-value"), int: ("float", "value")}


def test_reads_libreoffice_sheets(spec: Spec) -> None:
    rows = ""
    for row in (ASKED, ["A", date(2024, 3, 5), 7]):
        cells = [CELL.format(kind=KINDS[type(c)][0], attribute=KINDS[type(c)][1], value=c) for c in row]
        rows += f"<table:table-row>{''.join(cells)}</table:table-row>"
    with zipfile.ZipFile(content := io.BytesIO(), "w") as archive:
        archive.writestr("mimetype", "application/vnd.oasis.opendocument.spreadsheet")
        archive.writestr("META-INF/manifest.xml", "<manifest/>")
        archive.writestr("content.xml", ODS.format(rows=rows))
    (spec.folder / "book.ods").write_bytes(content.getvalue())
    table = sources.read(ExcelSource(kind="excel", path="book.ods"), spec, ASKED)
    assert (table["depot"].tolist(), table["n"].tolist()) == (["A"], [7])
    assert table["day"].astype(str).tolist() == ["2024-03-05"]


PIPELINE = """
name: t
timezone: Europe/Berlin
state: {folder}/var
demand:
  source: {{kind: excel, path: {folder}/book.xlsx, date_format: "%d/%m/%Y", decimal: ",", thousands: "."}}
  columns: {{depot_id: depot, date: day, demand: n}}
"""


def test_days_and_counts_are_read_alike_in_every_cell_type(spec: Spec) -> None:
    days = [date(2024, 3, 5), "06/03/2024", 45358, "45359", "2024-03-09", datetime(2024, 3, 10, 14), "10/13/2024"]
    counts = [7, "1.007,5", 2.5, "8", "9", "10,0", 11]
    write(spec.folder / "book.xlsx", {"S": [ASKED, *([101, *row] for row in zip(days, counts, strict=True))]})
    (spec.folder / "book.yaml").write_text(PIPELINE.format(folder=spec.folder))
    whole = load(spec.folder / "book.yaml")
    ingest.ingest(whole, now=datetime(2024, 4, 1, 3, tzinfo=UTC))
    table = Lake(whole.lake_url).read("demand").sort_by("date")
    assert table["date"].to_pylist() == [date(2024, 3, day) for day in (5, 6, 7, 8, 9, 10)]
    assert table["demand"].to_pylist() == [7, 1007.5, 2.5, 8, 9, 10]
    assert set(table["depot_id"].to_pylist()) == {"101"}
    (message,) = Lake(whole.lake_url).read("quarantine")["message"].to_pylist()
    assert message.startswith("book.xlsx:8: depot 101, column 'day': found '10/13/2024', wanted a date such as 05/03/")
