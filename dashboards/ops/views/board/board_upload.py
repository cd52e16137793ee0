"""Parses an edited workbook of the week board: the orders and drivers that a planner changed in it.

A cell is changed if it differs from the exported value on the workbook's hidden sheet. A cell that
is not a count, or not on the board, is rejected with its position.
"""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from typing import Any

from dashboards.ops.views.board.board_file import DRIVERS, ORDERS, PUBLISHED
from forecaster.core.language import _
from forecaster.errors import MissingExtra, OverrideError
from forecaster.planning.overrides import MAX_ORDERS, Cell, shown

MOST_FAULTS = 10  # named in one answer
Rows = list[list[Any]]


@dataclass(frozen=True)
class ChangedCell:
    """Requested orders or drivers of a depot's day; `before` is the exported value."""

    depot_id: str
    target_date: date
    before: float
    number: int
    of_crew: bool = False


def changed_cells(content: bytes, *, by_shift: bool) -> tuple[ChangedCell, ...]:
    """Return the changed cells of a workbook's orders and drivers, in its order.

    Raises OverrideError for a file that is not from the week board, and for invalid cells, of which
    it names up to `MOST_FAULTS`; if crews are `by_shift`, drivers of a whole day are invalid.
    Raises MissingExtra.
    """
    sheets, faults = read_sheets(content, (ORDERS, DRIVERS, PUBLISHED)), list[str]()
    if not (sheets.get(ORDERS) and all(len(row) == 4 for row in sheets.get(PUBLISHED) or [[]])):
        raise OverrideError(_("found no sheets “Orders” and “Published”, wanted the Excel file of the week board"))
    before = list(sheets[PUBLISHED][1:])
    orders = {(str(row[0]), day_of(row[1])): row[2] for row in before}
    changed = tuple(_Sheet(ORDERS, sheets[ORDERS], orders, faults).changes())
    if DRIVERS in sheets:
        drivers = {(str(row[0]), day_of(row[1])): row[3] for row in before}
        crews = tuple(_Sheet(DRIVERS, sheets[DRIVERS], drivers, faults).changes())
        for cell in crews if by_shift else ():
            values = {"depot": cell.depot_id, "day": cell.target_date, "drivers": cell.number}
            faults.append(
                _("{depot} on {day}: found {drivers} drivers, wanted them by shift, on the page of the day", **values)
            )
        changed += tuple(replace(cell, of_crew=True) for cell in crews)
    refuse(faults)
    return changed


def refuse(faults: Sequence[str]) -> None:
    """Raise OverrideError that names up to `MOST_FAULTS` of the faults, if there are any."""
    if faults:
        more = [_("and {n} more", n=len(faults) - MOST_FAULTS)] if len(faults) > MOST_FAULTS else []
        raise OverrideError("; ".join([*faults[:MOST_FAULTS], *more]))


def read_sheets(content: bytes, names: Collection[str]) -> Mapping[str, Rows]:
    """Return the cells of the sheets with these names that the workbook has. Raises OverrideError
    for a file that is not a workbook, and MissingExtra."""
    try:
        import python_calamine
    except ModuleNotFoundError as error:
        raise MissingExtra(f"{error}; to read it back: pip install 'harbor-forecaster[excel]'") from error
    try:
        book = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        present = [name for name in names if name in book.sheet_names]
        return {name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in present}
    except (python_calamine.CalamineError, ValueError, OSError) as error:
        raise OverrideError(_("found no workbook, wanted an Excel file of the page")) from error


@dataclass(frozen=True)
class _Sheet:
    """A sheet with one row per depot and one column per day, and its cells as exported (`before`);
    errors are appended to `faults`."""

    name: str
    rows: Rows
    before: Mapping[Cell, Any]  # empty text if a depot is closed
    faults: list[str]

    def changes(self) -> Iterator[ChangedCell]:
        depot_ids, days, earlier_ids = {cell[0] for cell in self.before}, dict(self._days()), set[str]()
        for line, row in enumerate(self.rows[1:], 1):
            depot_id = str(row[0])
            if depot_id in depot_ids - earlier_ids:
                earlier_ids.add(depot_id)
                yield from self._of_depot(line, row, depot_id, days)
            elif any(cell != "" for cell in row):
                self._fault(line, 0, row[0], _("a depot of the board, once"))

    def _days(self) -> Iterator[tuple[int, date]]:
        days = {cell[1] for cell in self.before}
        for column, cell in enumerate(self.rows[0][2:], 2):
            if (day := day_of(cell)) in days:
                days.remove(day)
                yield column, day
            elif cell != "":
                self._fault(0, column, cell, _("a day of the board, once"))

    def _of_depot(
        self, line: int, row: Sequence[Any], depot_id: str, days: Mapping[int, date]
    ) -> Iterator[ChangedCell]:
        for column, cell in enumerate(row[2:], 2):
            before: Any = self.before.get((depot_id, days[column]), "") if column in days else ""
            if cell == before and not isinstance(cell, bool):
                continue
            if before == "":
                self._fault(line, column, cell, _("nothing, as on a closed day"))
            elif isinstance(cell, float) and 0 <= cell <= MAX_ORDERS and cell == int(cell):
                yield ChangedCell(depot_id, days[column], before, int(cell))
            else:
                self._fault(line, column, cell, _("a whole number from 0 to {most}", most=f"{MAX_ORDERS:,}"))

    def _fault(self, line: int, column: int, cell: Any, expected: str) -> None:
        self.faults.append(cell_fault(self.name, line, column, cell, expected))


def cell_fault(sheet: str, line: int, column: int, cell: Any, expected: str) -> str:
    """Describe an invalid cell of a sheet; line and column count from 0."""
    place, value = f"{sheet}!{_letters(column)}{line + 1}", cell if isinstance(cell, date) else shown(cell)
    return _("{place}: found {cell}, wanted {wanted}", place=place, cell=value, wanted=expected)


def day_of(cell: Any) -> Any:
    """Return the day of a cell with an instant; any other cell is returned unchanged."""
    return cell.date() if isinstance(cell, datetime) else cell


def _letters(column: int) -> str:
    """Return the name of a column, counted from 0: A, B, …, Z, AA."""
    name = ""
    while column >= 0:
        name, column = chr(65 + column % 26) + name, column // 26 - 1
    return name
