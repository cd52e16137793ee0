"""CSV serialization (RFC 4180) without formula injection: opening it in a spreadsheet runs nothing.

A text that begins like a formula gets a leading '; numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

FORMULA = frozenset("=+-@\t\r\n＝＋－＠")  # full-width signs act as the normal ones in some spreadsheets


@dataclass(frozen=True)
class CsvSheet:
    columns: tuple[str, ...]
    rows: Sequence[Sequence[Any]]

    def csv(self) -> bytes:
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\r\n")
        writer.writerow([cell(name) for name in self.columns])
        writer.writerows([[cell(value) for value in row] for row in self.rows])
        return out.getvalue().encode()


def sheet(row: type, rows: Iterable[Any]) -> CsvSheet:
    """Sheet of dataclasses of one type, one column per field."""
    columns = tuple(field.name for field in fields(row))
    return CsvSheet(columns, [[getattr(record, name) for name in columns] for record in rows])


def cell(value: Any) -> str:
    """Return a value in JSON spelling, except that text is unquoted and None is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, date):  # includes datetime
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, str):
        return harmless(value)
    return harmless(json.dumps(value, default=_plain, ensure_ascii=False))


def harmless(text: str) -> str:
    """Prefix a text that a spreadsheet may read as a formula.

    Spreadsheets skip blanks before a formula, and some skip the prefix too.
    """
    bare = text.lstrip(" \u00a0\ufeff\x00")
    return f"'{text}" if text[:1] in FORMULA or bare[:1] in FORMULA else text


def _plain(value: Any) -> Any:
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)
