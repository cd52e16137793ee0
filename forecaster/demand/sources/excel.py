"""Excel reader: the cells of one sheet of a workbook (xlsx, xlsm, xlsb, xls, ods), with row
numbers.

A column of numbers stays numeric, one of days or instants becomes timestamps; mixed columns become
text in the notation that the source declares. A formula counts with its last result. Text or a day
in vertically merged cells is repeated in each of their rows. Rows without a value are skipped, like
blank lines of a CSV file.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import date, datetime, time
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from forecaster.config import ExcelSource, Spec
from forecaster.config.sources import ALL_SHEETS
from forecaster.demand.parsing import Notation, day_numbers, days
from forecaster.demand.sources import files, layout, recognition
from forecaster.demand.sources.feed import ROW, Columns, Ending, FurtherSheets, Pieces, header_names
from forecaster.demand.sources.files import File
from forecaster.errors import MissingExtra, SourceError

_ROWS_A_TABLE = 20_000
Row = tuple[int, Sequence[Any]]  # its number, counted from 1, and its cells


def pieces(source: ExcelSource, spec: Spec, columns: Columns, **_: str | None) -> Pieces:
    """Rows of each file's sheet, in the order of the files; the digest covers the files' bytes."""
    digests, further = [], list[FurtherSheets]()
    for file in files.files(source, spec):
        with file.open() as stream:
            content = stream.read()
        digests.append(hashlib.sha256(content).hexdigest())
        with recognition.explained(file, source, spec, columns):
            sheets = _sheets(file, content, source)
        yield from _of_sheets(file, content, sheets, source, spec, columns)
        further += _further_sheets(file, content, source, spec, columns)
    digest = digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()
    return Ending(digest[:12], further_sheets=tuple(further))


def _of_sheets(
    file: File,
    content: bytes,
    sheets: Sequence[tuple[str, Iterator[Row]]],
    source: ExcelSource,
    spec: Spec,
    columns: Columns,
) -> Iterator[tuple[str, pa.Table]]:
    """Rows of the declared sheets; with all sheets, those without any required column, such as
    notes, are skipped."""
    is_any = source.sheet == ALL_SHEETS
    required_names = recognition.request(source, spec, columns).names
    any_read = False
    for place, (name, rows) in enumerate(sheets, start=1):
        header = next(rows, (1, [""]))[1]
        names = header_names(_words(cell, source) for cell in header)
        if is_any and not {*required_names} & {*names} and (any_read or place < len(sheets)):
            continue
        try:
            read_columns = columns.of(f"{file.place}, sheet '{name}'", names)
        except SourceError as error:
            request = recognition.request(source, spec, columns)
            raise SourceError(f"{error}{_remedy(content, source, name, request)}") from None
        positions, any_read = [names.index(column) for column in read_columns], True
        label = f"{file.name}, sheet '{name}'" if is_any else file.name
        yield label, _table([], read_columns, positions, source)
        while some := list(islice(rows, _ROWS_A_TABLE)):
            yield label, _table(some, read_columns, positions, source)


def _further_sheets(
    file: File, content: bytes, source: ExcelSource, spec: Spec, columns: Columns
) -> Iterator[FurtherSheets]:
    """Sheets with the same columns as the sheet of readings that is read."""
    if source is not spec.demand.source or source.sheet == ALL_SHEETS:
        return
    [(read, rows)] = _sheets(file, content, source)
    width, of_sheets = _width(next(rows, (1, ()))[1]), dict[str, Any]()
    for name, sheet in _sheets(file, content, source.model_copy(update={"sheet": ALL_SHEETS})):
        header = next(sheet, (1, [""]))[1]
        names = header_names(_words(cell, source) for cell in header)
        with suppress(SourceError):
            columns.of(file.place, names)
            if name != read and (source.wide is None or 2 * _width(header) > width):
                of_sheets[name] = _days_of(names, sheet, source, spec)
    if of_sheets:
        yield FurtherSheets(file.name, read, of_sheets)


def _width(header: Sequence[Any]) -> int:
    return sum(cell != "" for cell in header)


def _days_of(names: Sequence[str], rows: Iterator[Row], source: ExcelSource, spec: Spec) -> Any:
    """Days of the readings on a sheet."""
    notation, column = Notation.of(source), spec.demand.columns.day
    values = pd.Series(names, dtype="str")
    if source.wide != "days":
        cells = [row[names.index(column)] for _, row in rows] if column in names else []
        values = _typed(cells, source).to_pandas()
    return np.unique(day_numbers(days(values, spec.zone, notation).dropna().to_numpy()))


def _sheets(file: File, content: bytes, source: ExcelSource) -> list[tuple[str, Iterator[Row]]]:
    """Name of each declared sheet, and its rows from the header on."""
    try:
        import python_calamine
    except ImportError:
        raise MissingExtra(
            f"{file.place} needs python-calamine, which is not installed here: pip install 'harbor-forecaster[excel]'"
        ) from None
    with _sound(file):
        workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
        names = _names(file, workbook, source.sheet)
        return [(name, _rows(workbook.get_sheet_by_name(name), source)) for name in names]


def _rows(sheet: Any, source: ExcelSource) -> Iterator[Row]:
    first = (sheet.start or (0, 0))[1]
    merged = [
        (top, bottom, left - first)
        for (top, left), (bottom, _) in sheet.merged_cell_ranges or ()
        if bottom > top >= source.header_row
    ]
    rows: Iterator[Row] = enumerate(sheet.iter_rows(), start=1)
    rows = ((number, cells) for number, cells in rows if number >= source.header_row)
    return (row for row in _filled_down(rows, merged) if row[1].count("") < len(row[1]))


def _remedy(content: bytes, source: ExcelSource, sheet_name: str, request: layout.Request) -> str:
    """Setting that finds the required columns: another row of the sheet, or another sheet."""
    import python_calamine

    workbook = python_calamine.CalamineWorkbook.from_filelike(io.BytesIO(content))
    if remedy := layout.of_cells(_first_rows(workbook, sheet_name, source), source.header_row, request):
        return remedy
    for name in _of_cells(workbook):
        if any({*request.names} <= {*fields} for _, fields in _first_rows(workbook, name, source)):
            return f"; sheet '{name}' contains them: set sheet: {json.dumps(name, ensure_ascii=False)}"
    return ""


def _first_rows(workbook: Any, name: str, source: ExcelSource) -> layout.Rows:
    cells = workbook.get_sheet_by_name(name).iter_rows()
    rows = islice(enumerate(cells, start=1), source.header_row + layout.LINES)
    return [
        (number, [_words(cell, source).strip() for cell in row]) for number, row in rows if row.count("") < len(row)
    ]


def _names(file: File, workbook: Any, declared_sheet: str | int | None) -> list[str]:
    """Names of the sheets to read: the declared one, by name or number; else the first visible
    sheet with cells, or all of these."""
    names: list[str] = workbook.sheet_names
    if isinstance(declared_sheet, int) and declared_sheet <= len(names):
        return [names[declared_sheet - 1]]
    is_any = declared_sheet == ALL_SHEETS
    if declared_sheet is not None and declared_sheet not in names and not is_any:
        sheet_list = ", ".join(f"'{name}'" for name in names)
        raise SourceError(
            f"{file.place}: found sheets {sheet_list}; wanted the sheet {declared_sheet!r}: set the source's `sheet`"
        )
    if declared_sheet is not None and not is_any:
        return [str(declared_sheet)]
    visible_names = [sheet.name for sheet in workbook.sheets_metadata if str(sheet.visible).endswith(".Visible")]
    candidates = [
        name for name in _of_cells(workbook) if name in visible_names and workbook.get_sheet_by_name(name).height
    ]
    if not candidates:
        raise SourceError(f"{file.place}: found no sheet with cells; wanted one with a header and rows")
    return candidates if is_any else candidates[:1]


def _of_cells(workbook: Any) -> list[str]:
    """Names of the sheets that have cells; others only hold a chart."""
    return [sheet.name for sheet in workbook.sheets_metadata if str(sheet.typ).endswith(".WorkSheet")]


def _filled_down(rows: Iterator[Row], merged: Sequence[tuple[int, int, int]]) -> Iterator[Row]:
    """Rows with text and days of merged cells repeated in each row; numbers are not, since they
    would count twice."""
    sources = {(row, column): (top, column) for top, bottom, column in merged for row in range(top + 1, bottom + 1)}
    tops, values = set(sources.values()), dict[tuple[int, int], Any]()
    of_rows: dict[int, list[int]] = {}
    for row, column in (*sources, *tops):
        of_rows.setdefault(row, []).append(column)
    for number, cells in rows:
        if number - 1 in of_rows:
            cells = list(cells)
            for column in of_rows[number - 1]:
                place = number - 1, column
                if place in tops:
                    values[place] = cells[column]
                elif isinstance(value := values.get(sources[place]), str | date):
                    cells[column] = value
        yield number, cells


def _table(rows: Sequence[Row], read_columns: Sequence[str], positions: Sequence[int], source: ExcelSource) -> pa.Table:
    columns = list(zip(*(cells for _, cells in rows), strict=True))
    values = {
        name: _typed(columns[position] if columns else (), source)
        for name, position in zip(read_columns, positions, strict=True)
    }
    return pa.table({**values, ROW: pa.array([number for number, _ in rows], pa.int64())})


def _typed(cells: Sequence[Any], source: ExcelSource) -> pa.Array:
    """Cells of a column as numbers, instants or, if mixed, text; empty cells are null, except in
    text."""
    kinds = {*map(type, cells)} - ({str} if all(cell == "" for cell in cells if isinstance(cell, str)) else set())
    if kinds and kinds <= {int, float}:
        numbers = [None if cell == "" else float(cell) for cell in cells]
        is_integer = all(number is None or _is_whole(number) for number in numbers)
        return pa.array(numbers, pa.float64()).cast(pa.int64() if is_integer else pa.float64())
    if kinds and kinds <= {date, datetime}:
        moments = [None if cell == "" else _moment(cell) for cell in cells]
        return pa.array(moments, pa.timestamp("us"))
    return pa.array([_words(cell, source) for cell in cells], pa.string())


def _is_whole(number: float) -> bool:
    return number.is_integer() and abs(number) < 2**53


def _moment(cell: date) -> datetime:
    return cell if isinstance(cell, datetime) else datetime.combine(cell, time())


def _words(cell: Any, source: ExcelSource) -> str:
    """Cell as text; a day includes its time if text uses another date format, so that they cannot
    be confused."""
    if isinstance(cell, bool):
        return "true" if cell else "false"
    if isinstance(cell, int | float):
        text = str(int(cell)) if _is_whole(float(cell)) else repr(cell)
        return text.replace(".", source.decimal)
    if isinstance(cell, date):
        moment = _moment(cell)
        return moment.isoformat() if source.date_format or moment.time() != time() else moment.date().isoformat()
    return str(cell)


@contextmanager
def _sound(file: File) -> Iterator[None]:
    """Reject a file that is not a workbook, or is damaged or locked."""
    try:
        yield
    except SourceError:
        raise
    except BaseException as error:  # the library's panics are not derived from Exception
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if type(error).__name__ == "PasswordError":
            raise SourceError(
                f"{file.place}: found a password-protected workbook; wanted one without a password"
            ) from None
        raise SourceError(
            f"{file.place}: not a readable workbook ({error}); wanted one, as declared by kind: excel"
        ) from None
