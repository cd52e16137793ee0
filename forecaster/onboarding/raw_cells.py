"""First rows of a file, unprocessed and including titles, from which its kind, encoding, delimiter
and sheet are guessed."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import lzma
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from forecaster.demand.sources import encodings, text_stream
from forecaster.errors import MissingExtra, SpecError

ROWS = 200  # rows examined
_HEAD = 2**21  # bytes
_DELIMITERS = (",", ";", "\t", "|")
_AGREE = 0.6  # share of the lines with as many fields as the table has columns
_EXCEL = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_PACKED: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda path: pa.input_stream(str(path), compression="zstd"),
}
_OTHER_TEXTS = {
    "JSON": r"\s*(\[\s*[\[{]|\{\s*\")",
    "HTML": r"\s*<(!doctype html|html|head|table)\b",
    "XML": r"\s*<\?xml\b",
}  # beginning of such a text
Kind = Literal["csv", "excel", "parquet"]


@dataclass(frozen=True)
class RawCells:
    """Rows of text; empty cells are empty text. For a Parquet file, only the names of its columns,
    as one row."""

    path: Path
    kind: Kind
    rows: Sequence[Sequence[str]]
    delimiter: str = ","
    encoding: str = "utf-8"
    sheet: str | None = None  # name, if it is not the first one
    sheets: tuple[str, ...] = ()
    # first rows of the other sheets
    other_sheets: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)


def read(path: Path) -> RawCells:
    """Read the first rows of a file. Raises SpecError for an unreadable file, MissingExtra if a
    workbook needs a package that is not installed."""
    if path.is_dir():
        return _parquet(path, sorted(path.rglob("*.parquet")))
    try:
        with path.open("rb") as stream:
            start = stream.read(8)
        if start.startswith(b"PAR1"):
            return _parquet(path, [path])
        if path.suffix.lower() in _EXCEL or start.startswith(b"\xd0\xcf\x11\xe0") or _is_workbook(path, start):
            return _excel(path)
        return _csv(path, _head(path))
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file; wanted a CSV, Parquet or Excel file") from None
    except (OSError, EOFError, lzma.LZMAError, zipfile.BadZipFile) as error:
        raise SpecError(f"{path}: cannot be read ({error}); wanted a CSV, Parquet or Excel file") from None


def _parquet(path: Path, files: Sequence[Path]) -> RawCells:
    if not files:
        raise SpecError(f"{path}: found a folder without Parquet files; wanted a CSV, Parquet or Excel file")
    try:
        return RawCells(path, "parquet", [pq.read_schema(files[0]).names])
    except (pa.ArrowException, OSError) as error:
        raise SpecError(f"{path}: not a readable Parquet file ({error})") from None


def _is_workbook(path: Path, start: bytes) -> bool:
    if not start.startswith(b"PK"):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name in ("[Content_Types].xml", "content.xml") for name in archive.namelist())


def _excel(path: Path) -> RawCells:
    try:
        import python_calamine
    except ImportError:
        raise MissingExtra(
            f"{path} needs python-calamine, which is not installed here: pip install 'harbor-forecaster[excel]'"
        ) from None
    try:
        workbook = python_calamine.CalamineWorkbook.from_path(str(path))
        visible = [sheet.name for sheet in workbook.sheets_metadata if str(sheet.visible).endswith(".Visible")]
        sheets = {name: _sheet_rows(workbook.get_sheet_by_name(name)) for name in visible or workbook.sheet_names}
    except Exception as error:  # the library's errors have no common base
        raise SpecError(f"{path}: not a readable workbook ({error})") from None
    filled = {name: rows for name, rows in sheets.items() if rows}
    if not filled:
        raise SpecError(f"{path}: found no sheet with cells; wanted one with a header and rows")
    name = max(filled, key=lambda name: sum(cell != "" for row in filled[name] for cell in row))
    is_first = name == next(iter(filled))
    names, rows = tuple(filled), filled.pop(name)
    return RawCells(path, "excel", rows, sheet=None if is_first else name, sheets=names, other_sheets=filled)


def _sheet_rows(sheet: Any) -> list[list[str]]:
    rows: list[list[str]] = []
    for cells in sheet.iter_rows() if sheet.height else ():
        rows.append([_words(cell) for cell in cells])
        if len(rows) == ROWS:
            break
    return rows


def _words(cell: Any) -> str:
    if isinstance(cell, datetime):
        return cell.date().isoformat() if cell.time() == time() else cell.isoformat(" ")
    if isinstance(cell, date):
        return cell.isoformat()
    return str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell).strip()


def _head(path: Path) -> bytes:
    """First bytes of a text, decompressed."""
    if path.suffix.lower() == ".zip":
        with zipfile.ZipFile(path) as archive, archive.open(text_stream.tables(archive)[0]) as member:
            return member.read(_HEAD)
    opened = _PACKED.get(path.suffix.lower(), _plain)
    with opened(path) as stream:
        head: bytes = stream.read(_HEAD)
    return head


def _plain(path: Path) -> Any:
    return path.open("rb")


def _csv(path: Path, head: bytes) -> RawCells:
    encoding = _encoding(head)
    text = head.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")
    if kind := next((kind for kind, start in _OTHER_TEXTS.items() if re.match(start, text, re.IGNORECASE)), None):
        raise SpecError(
            f"{path}: looks like {kind}, which is not supported; wanted an export as a CSV, Parquet or Excel file"
        )
    lines = text.splitlines()[: ROWS + 1]
    if not any(line.strip() for line in lines):
        raise SpecError(f"{path}: the file is empty; wanted a header and rows with days and counts")
    lines = lines[:-1] if len(lines) > ROWS else lines
    delimiter = _delimiter(lines)
    return RawCells(path, "csv", _fields(lines, delimiter), delimiter, encoding)


def _encoding(head: bytes) -> str:
    """Encoding by byte order mark, by zeros, or the first one that reads all letters."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    if head[:400].count(0) > len(head[:400]) / 4:
        return "utf-16-le" if head[1:2] == b"\0" else "utf-16-be"
    try:
        head.decode("utf-8-sig")
        return "utf-8"
    except UnicodeDecodeError as error:
        if error.start >= len(head) - 3 and len(head) == _HEAD:  # a letter that was cut off
            return "utf-8"
    return encodings.guess(head.decode("utf-8", "surrogateescape").splitlines()) or "cp1252"


def _fields(lines: Sequence[str], delimiter: str) -> list[list[str]]:
    """One row per line, so that positions match line numbers."""
    if delimiter == r"\s+":
        return [line.split() for line in lines]
    return [[cell.strip() for cell in next(csv.reader(io.StringIO(line), delimiter=delimiter), [])] for line in lines]


def _delimiter(lines: Sequence[str]) -> str:
    """Delimiter that splits most lines into equally many fields; among equals, the one with the
    most fields."""
    scores = {mark: _score(_fields(lines, mark)) for mark in _DELIMITERS}
    best = max(share for share, _ in scores.values())
    if best >= _AGREE / 2:
        near = [mark for mark, (share, _) in scores.items() if share >= best - 0.1]
        return max(near, key=lambda mark: scores[mark][1])
    blanks_share, _ = _score(_fields(lines, r"\s+"))
    return r"\s+" if blanks_share >= _AGREE else ","


def _score(rows: Sequence[Sequence[str]]) -> tuple[float, int]:
    """Share of rows with the usual number of fields, and that number; (0, 1) if it is one."""
    widths = Counter(len(row) for row in rows if row)
    widths.pop(1, None)
    if not widths:
        return 0, 1
    width, count = widths.most_common(1)[0]
    return count / max(sum(1 for row in rows if row), 1), width
