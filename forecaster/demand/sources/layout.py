"""Likely layout of a table that lacks required columns: its header line, its delimiter, whether it
has one column per depot or day, and the source keys that declare this."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from forecaster.core.language.near_words import plain

LINES = 60  # lines examined
_MARKS = (";", ",", "\t", "|")
_SHOWN = 3  # names listed
_DAY = re.compile(r"(\d{4}[-./]\d{1,2}[-./]\d{1,2}|\d{1,2}[-./ ](\d{1,2}|[^\W\d]{3,9}\.?)[-./ ](\d{4}|\d\d))([T ].*)?")
_NUMBER = re.compile(r"[+-]?[\d.,'\s]*\d[.,]?(e[+-]?\d+)?%?", re.IGNORECASE)
_NO_DEPOTS = frozenset(  # column names of tables with one row per reading
    """
    id store shop site depot branch station location warehouse item product sku article city region country zone
    state sales orders demand quantity qty count counts number units value values amount total volume parcels visits
    customers target y price open promo promotion holiday weekday dayofweek week month year day date hour stock
    filiale standort markt kunde anzahl menge bestellungen umsatz magasin quantite ventes tienda cantidad ventas
    """.split()  # noqa: SIM905 - read as words
)
Rows = Sequence[tuple[int, Sequence[str]]]  # line number and fields of each row


@dataclass(frozen=True)
class Request:
    """Columns required of a table."""

    names: tuple[str, ...]  # of required columns
    # in a table of readings, those of the depot, the day and the count
    depot: str = ""
    day: str = ""
    count: str = ""


@dataclass(frozen=True)
class Remedy:
    """Likely layout of a table, and the keys that declare it."""

    reasons: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.reasons:
            return ""
        keys = f": set {' and '.join(self.keys)}" if self.keys else ""
        return "; " + " and ".join(self.reasons) + keys


def of_text(lines: Sequence[str], delimiter: str, header_row: int, request: Request) -> str:
    """Settings that would read a text with these first lines, as the end of a message; empty if
    none is found."""
    try:
        mark, rows = _marked(lines, delimiter, header_row, request)
    except (re.error, csv.Error, TypeError, ValueError):  # invalid delimiter
        return ""
    header = next((fields for number, fields in _split(lines, delimiter) if number >= header_row), [])
    remedy = _of_rows(rows, header_row, request, "header_row")
    if mark == delimiter:
        return str(remedy)
    other = f"the file seems to be delimited by {mark!r}"
    one_column = f"the header has one column '{_cut(header[0])}'" if len(header) == 1 else other
    key = f"delimiter: {json.dumps(mark) if mark == chr(9) else repr(mark)}"
    reasons = (other if remedy.reasons else one_column, *remedy.reasons)
    return str(Remedy(reasons, (key, *remedy.keys)))


def of_cells(rows: Rows, header_row: int, request: Request, *, has_header_row: bool = True) -> str:
    """Settings for a table of a workbook or, without a header row key, of another kind."""
    return str(_of_rows(rows, header_row, request, "header_row" if has_header_row else ""))


def _of_rows(rows: Rows, header_row: int, request: Request, key: str) -> Remedy:
    """Find the header line, then the layout of its columns."""
    present = next((place for place, (number, _) in enumerate(rows) if number >= header_row), None)
    if present is None:
        return Remedy()
    place = _header(rows, present, request) if key else present
    number, names = rows[place]
    reasons, keys = list[str](), list[str]()
    if place != present:
        alike = set(request.names) <= {*names}
        reasons.append(f"the header seems to be line {number}" + ("" if alike else f" ({_some(names)})"))
        keys.append(f"{key}: {number}")
    wide = _wide(names, [fields for _, fields in rows[place + 1 :]], request)
    if wide.reasons:
        return Remedy((*reasons, *wide.reasons), (*keys, *wide.keys))
    if not reasons and _is_data(names):
        example = ",".join(request.names)
        return Remedy(
            (f"line {number} seems to be a data row: wanted a line with column names above it, such as {example}",)
        )
    return Remedy(tuple(reasons), tuple(keys))


def _marked(lines: Sequence[str], delimiter: str, header_row: int, request: Request) -> tuple[str, Rows]:
    """Likely delimiter: the one that yields the required names; else, if the declared one does not
    split the header, the one that splits the header and the rows below into equally many fields;
    else the one that gives most lines the same width."""
    marks = [delimiter, *(mark for mark in _MARKS if mark != delimiter)]
    tables = {mark: list(_split(lines, mark)) for mark in marks}
    for same in (_same, _alike):
        for mark, rows in tables.items():
            if any(same(request.names, fields) for _, fields in rows):
                return mark, rows
    if mark := _of_whole_header(tables, delimiter, header_row):
        return mark, tables[mark]
    widths = {mark: Counter(len(fields) for _, fields in rows).most_common(1) for mark, rows in tables.items()}
    fit = {mark: most[0] for mark, most in widths.items() if most and most[0][0] > 1}
    if delimiter in fit or not fit:
        return delimiter, tables[delimiter]
    best = max(fit, key=lambda mark: fit[mark][1])
    if fit[best][1] < max(2, 0.8 * len(tables[best])):
        return delimiter, tables[delimiter]
    return best, tables[best]


def _of_whole_header(tables: Mapping[str, Rows], delimiter: str, header_row: int) -> str:
    """Delimiter that splits a header of one field, and nearly all rows below it, into equally many;
    empty if none does. With decimal commas, the declared comma may split only the rows."""
    widths = {
        mark: [len(fields) for number, fields in rows if number >= header_row][:LINES] for mark, rows in tables.items()
    }
    if widths[delimiter][:1] != [1]:
        return ""
    fit = {
        mark: header
        for mark, (header, *below) in widths.items()
        if header > 1 and below and below.count(header) >= 0.8 * len(below)
    }
    return max(fit, key=lambda mark: fit[mark], default="")


def _split(lines: Sequence[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Fields of each line that is not empty."""
    for number, line in enumerate(lines, start=1):
        if not line.strip() or "\0" in line:
            continue
        if len(delimiter) > 1:
            fields = re.split(delimiter, line.strip())
        else:
            fields = next(csv.reader([line], delimiter=delimiter), [])
        yield number, [field.strip() for field in fields]


def _header(rows: Rows, present: int, request: Request) -> int:
    """Position of the line with the required names; else of the first line as wide as most, if the
    present one is narrower."""
    for same in (_same, _alike):
        for place, (_, names) in enumerate(rows):
            if same(request.names, names):
                return place
    widths = [sum(map(bool, fields)) for _, fields in rows]
    [(usual, lines)] = Counter(widths).most_common(1)
    if usual < 2 or widths[present] >= usual or 2 * lines < len(widths):
        return present
    first = next(place for place, width in enumerate(widths) if width >= usual)
    return first if first > present and not _is_data(rows[first][1]) else present


def _wide(names: Sequence[str], rows: Sequence[Sequence[str]], request: Request) -> Remedy:
    if not request.day or {request.depot, request.count} <= {*names}:
        return Remedy()
    days = [name for name in names if _DAY.fullmatch(name)]
    if len(days) >= 2 and 2 * len(days) >= len(names):
        return _of_kind("day", days, "days", request.depot, next((n for n in names if n and n not in days), ""), names)
    dated = [name for place, name in enumerate(names) if name and _holds(rows, place, _DAY.fullmatch)]
    numeric = [name for place, name in enumerate(names) if name and _holds(rows, place, _NUMBER.fullmatch)]
    depots = [name for name in numeric if name not in dated]
    stamps = [fields[names.index(dated[0])] for fields in rows if dated and len(fields) > names.index(dated[0])]
    if len(depots) < 2 or not dated or len({*stamps}) < len(stamps) or len(dated) + len(depots) < len(names) - 2:
        return Remedy()
    if any(plain(name) in _NO_DEPOTS for name in depots if not name.isdigit()):
        return Remedy()
    return _of_kind("depot", depots, "depots", request.day, dated[0], names)


def _of_kind(
    column_kind: str, headers: Sequence[str], kind: str, required_name: str, present_name: str, names: Sequence[str]
) -> Remedy:
    reason = f"the file seems to have one column per {column_kind} ({_some(headers, total=len(headers))})"
    column = {"depots": "date", "days": "depot_id"}[kind]
    other = (
        (f"demand.columns.{column}: {json.dumps(present_name, ensure_ascii=False)}",)
        if required_name not in names and present_name
        else ()
    )
    return Remedy((reason,), (f"wide: {kind}", *other))


def _holds(rows: Sequence[Sequence[str]], place: int, form: Callable[[str], object]) -> bool:
    """True if the column has values, nearly all of this form."""
    values = [fields[place] for fields in rows if len(fields) > place and fields[place]]
    return len(values) > 0 and sum(form(value) is not None for value in values) >= 0.8 * len(values)


def _is_data(names: Sequence[str]) -> bool:
    """True if a line is a row of readings, with a day and numbers, rather than a header."""
    values = [name for name in names if name]
    days = sum(_DAY.fullmatch(value) is not None for value in values)
    figures = sum(_NUMBER.fullmatch(value) is not None for value in values)
    return days == 1 and figures >= 1


def _same(required_names: Sequence[str], names: Sequence[str]) -> bool:
    return bool(required_names) and {*required_names} <= {*names}


def _alike(required_names: Sequence[str], names: Sequence[str]) -> bool:
    """True if the required names are present, ignoring case, blanks, quotes and signs."""
    return bool(required_names) and {plain(name) for name in required_names} <= {plain(name) for name in names}


def _some(names: Sequence[str], total: int = 0) -> str:
    labels = [_cut(name) for name in names if name]
    return ", ".join(islice(labels, _SHOWN)) + (", …" if max(total, len(labels)) > _SHOWN else "")


def _cut(name: str) -> str:
    return name if len(name) <= 60 else name[:59] + "…"
