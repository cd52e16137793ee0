from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from forecaster.onboarding import sheets, tables
from forecaster.onboarding.description.table import describe

DAYS = [f"2026-02-{day:02d}" for day in range(1, 21)]
Rows = Sequence[Sequence[str | int]]


def notes_of(folder: Path, content: Mapping[str, Rows]) -> list[str]:
    import xlsxwriter

    file = folder / "book.xlsx"
    with xlsxwriter.Workbook(str(file)) as book:
        for name, rows in content.items():
            sheet = book.add_worksheet(name)
            for place, row in enumerate(rows):
                sheet.write_row(place, 0, row)
    table = tables.read(file)
    return sheets.notes(table, describe(table))


def one_depot(level: int) -> Rows:
    return [["Date", "Parcels"], *([day, level + 7 * place] for place, day in enumerate(DAYS))]


def test_note_names_sheets_that_may_be_depots(tmp_path: Path) -> None:
    content = {"About": [["Counts by depot"]], "North": one_depot(90), "South": one_depot(70), "West": one_depot(80)}
    assert notes_of(tmp_path, content) == [
        "sheets 'South', 'West' are not read but have the same columns as 'North', the only sheet that is read: if "
        "each sheet is a depot, combine the rows on one sheet with a column that names the depot"
    ]


def test_note_names_monthly_sheets_below_titles_and_with_reordered_columns(tmp_path: Path) -> None:
    january = [["Depot", "Date", "Parcels"], *([depot, day, 90 + n] for n, day in enumerate(DAYS) for depot in "AB")]
    february = [["February"], [], ["Date", "Depot", "Parcels"], ["2026-03-01", "A", 90]]
    assert notes_of(tmp_path, {"January": january, "February": february}) == [
        "sheet 'February' is not read but has the same columns as 'January', the only sheet that is read: combine the "
        "rows on one sheet, or save each sheet as a file and name all files in `--from`"
    ]


def test_sheets_with_the_header_in_the_same_row_are_read_by_one_key(tmp_path: Path) -> None:
    header = ["Depot", "Date", "Parcels"]
    january = [header, *([depot, day, 90 + n] for n, day in enumerate(DAYS) for depot in "AB")]
    february = [header, ["A", "2026-03-01", 90]]
    assert notes_of(tmp_path, {"January": january, "February": february}) == [
        "sheet 'February' is not read but has the same columns as 'January', the only sheet that is read: set "
        'demand.source.sheet: "*" to read all of them'
    ]


def test_sheets_with_one_column_per_day_are_compared_by_their_other_columns(tmp_path: Path) -> None:
    def month(number: int, length: int) -> Rows:
        header = ["Depot", *(f"2026-{number:02d}-{day:02d}" for day in range(1, length + 1))]
        return [header, *([depot, *range(90, 90 + length)] for depot in ("North", "South"))]

    notes = notes_of(tmp_path, {"Jan": month(1, 31), "Feb": month(2, 28), "Notes": [["Depot", "Remark"], ["North", 1]]})
    assert [note.partition(":")[0] for note in notes] == [
        "sheet 'Feb' is not read but has the same columns as 'Jan', the only sheet that is read"
    ]


def test_unrelated_sheets_are_not_named(tmp_path: Path) -> None:
    assert notes_of(tmp_path, {"North": one_depot(90), "Prices": [["Date", "Price"], ["2026-02-01", 3]]}) == []
