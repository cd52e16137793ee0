"""Other sheets of a workbook with the same columns, whose readings are not read."""

from __future__ import annotations

from collections.abc import Sequence

from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.tables import FileTable

_LISTED = 12  # sheets named in a note


def notes(table: FileTable, readings: Description) -> list[str]:
    """Note about other sheets with the same columns as the one that is read, and the remedy."""
    rows = _of_the_same_form(table, readings)
    if not rows:
        return []
    names = [*rows]
    listed = ", ".join(f"'{name}'" for name in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    name = table.cells.sheet or table.cells.sheets[0]
    way_out = 'set demand.source.sheet: "*" to read all of them'
    if set(rows.values()) != {table.header_row}:
        way_out = "combine the rows on one sheet, or save each sheet as a file and name all files in `--from`"
    if readings.depot_column is None:
        way_out = "if each sheet is a depot, combine the rows on one sheet with a column that names the depot"
    verb = "is not read but has" if len(names) == 1 else "are not read but have"
    noun = "sheet" if len(names) == 1 else "sheets"
    return [f"{noun} {listed}{more} {verb} the same columns as '{name}', the only sheet that is read: {way_out}"]


def _of_the_same_form(table: FileTable, readings: Description) -> dict[str, int]:
    """Sheets with the same header as the one that is read, and its row; if columns are days, with
    the same other columns."""
    header = _filled(table.cells.rows[table.header_row - 1])
    other_columns = {name for name in (readings.depot_column, *readings.ignored) if name}

    def is_alike(row: Sequence[str]) -> bool:
        if readings.layout != "days":
            return _filled(row) == header
        return other_columns < _filled(row) and 2 * len(_filled(row)) > len(header)

    of_sheets = {
        name: next((number for number, row in enumerate(rows, start=1) if is_alike(row)), 0)
        for name, rows in table.cells.other_sheets.items()
    }
    return {name: number for name, number in of_sheets.items() if number}


def _filled(row: Sequence[str]) -> set[str]:
    return {cell for cell in row if cell}
