"""A file as a table with named columns: the position of its header, and the values below it as the
product reads them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from forecaster.config import Spec
from forecaster.demand import sources
from forecaster.errors import SpecError
from forecaster.onboarding import notation, raw_cells
from forecaster.onboarding.raw_cells import RawCells

_LISTED = 12  # columns named in a message
_BELOW = 20  # rows below a header used to find the content of its columns
_NUMBER = re.compile(r"[+-]?[0-9][0-9.,' \u00a0\u202f]*")
_OWN = (sources.ROW, sources.FAULT, sources.FILE)


@dataclass(frozen=True)
class FileTable:
    """Rows of a file, or its first millions."""

    path: Path
    cells: RawCells
    header_row: int
    columns: tuple[str, ...]  # without repeated names
    frame: Any  # a pandas DataFrame of these columns
    # of the source: its kind and notation
    settings: dict[str, Any] = field(default_factory=dict)
    more: tuple[Path, ...] = ()  # additional files of the same form, whose rows are in the frame

    def without(self, names: Sequence[str]) -> FileTable:
        """The table without the named columns."""
        columns = [name for name in self.columns if name not in names]
        return replace(self, columns=tuple(columns), frame=self.frame[[name for name in columns if name in self.frame]])


def read(path: Path) -> FileTable:
    """Read a file as a table. Raises SpecError for an unreadable file, or one without a header."""
    cells = raw_cells.read(path)
    header_row = 1 if cells.kind == "parquet" else _header_row(cells)
    names = Counter(name for name in map(str.strip, cells.rows[header_row - 1]) if name)
    columns = tuple(name for name, count in names.items() if count == 1 and name not in _OWN and name[0] != ":")
    repeated = [name for name, count in names.items() if count > 1]
    if repeated or not columns:
        _refuse_repeated(path, cells, header_row, columns, repeated)
    settings = _settings(cells, header_row)
    frame = _frame(path, settings, columns)
    if not len(frame):
        listed = ", ".join(f"'{name}'" for name in columns[:_LISTED])
        raise SpecError(
            f"{path}: found columns {listed}, but no rows of values below them; wanted rows with days and counts"
        )
    return FileTable(path, cells, header_row, columns, frame[[name for name in columns if name in frame]], settings)


def _refuse_repeated(
    path: Path, cells: RawCells, header_row: int, columns: Sequence[str], repeated: Sequence[str]
) -> None:
    """Reject a header with hardly any unique name, such as measures below a first row of sites."""
    listed = ", ".join(f"'{name}'" for name in repeated[:_LISTED])
    above = [cell for cell in cells.rows[header_row - 2] if cell] if header_row > 1 else []
    if len(columns) <= 2 and 2 <= len(above) < len(cells.rows[header_row - 1]):
        sites = ", ".join(f"'{name}'" for name in above[:_LISTED])
        raise SpecError(
            f"{path}: found a header that seems to have two rows: {sites} in line {header_row - 1}, and {listed}, each "
            f"several times, in line {header_row}; wanted one row with unique names, as in '{above[0]}' for its "
            "counts, without the other columns, or one row per site and day"
        )
    if not columns:
        listed = listed or ", ".join(f"'{cell}'" for cell in cells.rows[header_row - 1][:_LISTED])
        raise SpecError(
            f"{path}: found no column with a unique name in line {header_row}, which contains {listed}; wanted "
            "each name once, as in depot,date,orders"
        )


def _settings(cells: RawCells, header_row: int) -> dict[str, Any]:
    """Keys of the source in addition to its path, except those that depend on the values."""
    settings: dict[str, Any] = {"kind": cells.kind}
    if cells.kind == "csv" and cells.delimiter != ",":
        settings["delimiter"] = cells.delimiter
    if cells.encoding != "utf-8":
        settings["encoding"] = cells.encoding
    if cells.sheet is not None:
        settings["sheet"] = cells.sheet
    if header_row > 1:
        settings["header_row"] = header_row
    return settings


def _frame(path: Path, settings: dict[str, Any], columns: Sequence[str]) -> Any:
    source = {"path": str(path.resolve()), **settings}
    spec = Spec.model_validate({"name": "draft", "demand": {"source": source}})
    feed = sources.open_feed(spec.demand.source, spec, (), columns)
    frame = next(feed.blocks)
    return frame[frame[sources.FAULT] == ""].reset_index(drop=True)


def _header_row(cells: RawCells) -> int:
    """Line of the header: the first one as wide as the table that names the content below it."""
    rows = [list(row) for row in cells.rows]
    widths = Counter(_width(row) for row in rows if _width(row) > 1)
    if not widths:
        first = next((row for row in rows if any(row)), [])
        raise SpecError(
            f"{cells.path}: found one column, '{' '.join(first)[:60]}'; wanted columns with a depot, a day and a "
            "count, separated by commas, semicolons, tabs or |"
        )
    width = max(value for value, count in widths.items() if count >= max(widths.values()) / 2)
    for place, row in enumerate(rows):
        filled = sum(cell != "" for cell in row)
        if filled >= max(2, width / 2) and not _is_of_values(row, rows[place + 1 : place + 1 + _BELOW]):
            return place + 1
        if filled >= max(2, width / 2):
            break
    start = " ".join(cell for cell in next(row for row in rows if _width(row) > 1) if cell)
    raise SpecError(
        f"{cells.path}: found no header: the first row of the table, '{start[:80]}', contains values; wanted a line "
        "with column names above it, as in depot,date,orders"
    )


def _width(row: Sequence[str]) -> int:
    return max((place for place, cell in enumerate(row, start=1) if cell), default=0)


def _is_of_values(row: Sequence[str], below: Sequence[Sequence[str]]) -> bool:
    """True if the row holds the same kind of values as the rows below: days above days, or numbers
    above all numbers."""
    numbers = days = above = 0
    for place, cell in enumerate(row):
        values = pd.Series([other[place] for other in below if place < len(other) and other[place]], dtype="str")
        if not len(values):
            continue
        if _are_days(values):
            days += 1
            if cell and _are_days(pd.Series([cell])):
                return True
        elif values.map(_is_number).mean() > 0.8:
            numbers += 1
            above += _is_number(cell)
    return bool(days == 0 and numbers and above == numbers and not any(map(_is_word, row)))


def _are_days(values: Any) -> bool:
    return notation.date_form(notation.distinct(values)) is not None


def _is_number(cell: str) -> bool:
    return _NUMBER.fullmatch(cell) is not None


def _is_word(cell: str) -> bool:
    return bool(cell) and not _is_number(cell)
