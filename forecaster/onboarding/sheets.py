"""Further sheets of a workbook: those with the same columns hold readings that are not read."""

from __future__ import annotations

from collections.abc import Sequence

from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.tables import FileTable

_LISTED = 12  # sheets that a note names


def notes(table: FileTable, readings: Description) -> list[str]:
    """A note where other sheets have the columns of the one that is read: which they are, and what
    to do."""
    names = _of_the_same_form(table, readings)
    if not names:
        return []
    listed = ", ".join(f"'{name}'" for name in names[:_LISTED])
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    name = table.cells.sheet or table.cells.sheets[0]
    way_out = "put the rows under one another on one sheet, or make a file of each sheet and name all in `--from`"
    if readings.depot_column is None:
        way_out = (
            "where sheets are depots, put the rows under one another on one sheet with a column that names the depot"
        )
    verb = "is not read and has" if len(names) == 1 else "are not read and have"
    noun = "sheet" if len(names) == 1 else "sheets"
    return [f"{noun} {listed}{more} {verb} the same columns as '{name}', the only one that is read: {way_out}"]


def _of_the_same_form(table: FileTable, readings: Description) -> list[str]:
    """Sheets with the header of the one that is read; where columns are days, with the other
    columns of it."""
    header = _filled(table.cells.rows[table.header_row - 1])
    if readings.layout != "days":
        return [name for name, rows in table.cells.other_sheets.items() if header in map(_filled, rows)]
    named = {name for name in (readings.depot_column, *readings.ignored) if name}
    return [
        name
        for name, rows in table.cells.other_sheets.items()
        if any(named < _filled(row) and 2 * len(_filled(row)) > len(header) for row in rows)
    ]


def _filled(row: Sequence[str]) -> set[str]:
    return {cell for cell in row if cell}
