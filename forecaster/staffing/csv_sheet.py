"""CSV serialization (RFC 4180) without formula injection: a spreadsheet opens it without running
anything.

A text that begins as a formula does gets a ' before it; numbers stay numbers.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import date
from typing import Any

FORMULA = frozenset("=+-@\t\r\n＝＋－＠")  # the wide ones count as the narrow ones in some spreadsheets


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
    """Dataclasses of one kind, a column for each field."""
    columns = tuple(field.name for field in fields(row))
    return CsvSheet(columns, [[getattr(record, name) for name in columns] for record in rows])


def cell(value: Any) -> str:
    """As JSON spells it, but for text, which stands bare, and what is not known, which is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, date):  # and datetime
        return value.isoformat().replace("+00:00", "Z")
    if isinstance(value, str):
        return harmless(value)
    return harmless(json.dumps(value, default=_plain, ensure_ascii=False))


def harmless(text: str) -> str:
    """Spreadsheets pass over blanks before a formula, and some over the mark that is put before
    one."""
    bare = text.lstrip(" \u00a0\ufeff\x00")
    return f"'{text}" if text[:1] in FORMULA or bare[:1] in FORMULA else text


def _plain(value: Any) -> Any:
    return asdict(value) if hasattr(value, "__dataclass_fields__") else str(value)
