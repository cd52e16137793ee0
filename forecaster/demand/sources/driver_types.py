"""Type conversion from database drivers: Arrow columns, watermarks (high-water marks) and a content
digest."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.demand.sources.feed import EXACT, LONGEST_CELL
from forecaster.errors import SourceError

_NUMBERS = frozenset({int, float, Decimal})
_FROM_TEXT: Mapping[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "Decimal": Decimal,
    "datetime": datetime.fromisoformat,
    "date": date.fromisoformat,
    "str": str,
}


def table(names: Sequence[str], rows: Sequence[Sequence[Any]], dates: Collection[str] = ()) -> pa.Table:
    """Table of the named columns; extra values of a row are dropped. `dates` are given as text."""
    values = list(zip(*rows, strict=True)) if rows else [()] * len(names)
    return pa.table(
        {name: (_dates if name in dates else _array)(column) for name, column in zip(names, values, strict=False)}
    )


def _array(values: Sequence[Any]) -> pa.Array:
    """Convert to numbers, instants, days, booleans or text; text for other, mixed or unsuitable
    types."""
    kinds = frozenset(map(type, values)) - {type(None)}
    try:
        return _typed(values, kinds)
    except (OverflowError, ValueError, TypeError, pa.ArrowException):  # a number or an instant out of its type's range
        return pa.array([_words(value) for value in values], pa.string())


def _typed(values: Sequence[Any], kinds: frozenset[type]) -> pa.Array:
    if kinds == {int}:
        try:
            return pa.array(values, pa.int64())
        except (OverflowError, pa.ArrowInvalid):  # wider than 64 bits
            return _doubles(values)
    if kinds and kinds <= _NUMBERS:
        return _doubles(values)
    if kinds == {datetime}:
        zoned = {value.tzinfo is not None for value in values if value is not None}
        if zoned == {False}:
            return pa.array(values, pa.timestamp("us"))
        if zoned == {True}:
            # not left to Arrow, which takes local time for UTC once pandera is imported
            values = [None if value is None else value.astimezone(UTC) for value in values]
            return pa.array(values, pa.timestamp("us", tz="UTC"))
    if kinds == {date}:
        return pa.array(values, pa.date32())
    if kinds == {bool}:
        return pa.array(values, pa.bool_())
    return pa.array([_words(value) for value in values], pa.string())


def _words(value: Any) -> str | None:
    """Value as text; bytes are decoded, with escapes if they are not UTF-8."""
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)[:LONGEST_CELL].decode("utf-8", "backslashreplace")
    try:
        text = str(value)
    except ValueError:  # an integer of more digits than Python prints
        return f"a value of type {type(value).__name__}"
    text = text if len(text) <= LONGEST_CELL else text[:LONGEST_CELL] + "…"
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _doubles(values: Sequence[Any]) -> pa.Array:
    """Numbers as doubles, or as text if doubles would change integers, such as long ids."""
    if any(_is_beyond_exact(value) for value in values):
        return pa.array([_digits(value) for value in values], pa.string())
    return pa.array([None if value is None else float(value) for value in values], pa.float64())


def _is_beyond_exact(value: Any) -> bool:
    is_whole = isinstance(value, int) or (isinstance(value, Decimal) and value.is_finite())
    return is_whole and abs(value) > EXACT


def _digits(value: Any) -> str | None:
    """Number as text, an integer without a point."""
    if isinstance(value, int) or value is None:
        return _words(value)
    return str(int(value)) if math.isfinite(value) and value == int(value) else str(value)


def _dates(values: Sequence[Any]) -> pa.Array:
    """ISO dates or instants; unchanged if any value is something else."""
    try:
        return pa.array(pd.to_datetime(pd.Series(values, dtype="str"), format="ISO8601"), from_pandas=True)
    except (ValueError, TypeError):
        return _array(values)


def watermark(column: str, value: Any) -> str:
    """Watermark as text, to be read by `since`. Raises SourceError for a value without a reliable
    order."""
    kind = type(value).__name__
    if kind not in _FROM_TEXT:
        raise SourceError(
            f"watermark '{column}': found a value of type {kind}; wanted a column of integers, timestamps, days or text"
        )
    text = value.isoformat() if isinstance(value, date) else str(value)
    return json.dumps([column, kind, text], ensure_ascii=False)


def since(text: str | None, column: str) -> Any:
    """Value of a watermark; None if there is none for this column."""
    if text is None:
        return None
    try:
        of, kind, value_text = json.loads(text)
        return _FROM_TEXT[kind](value_text) if of == column else None
    except (ValueError, KeyError, TypeError, ArithmeticError):
        raise SourceError(
            f"watermark '{column}': found {text!r}, which no feed produced; wanted a watermark from a feed"
        ) from None


class Content:
    """Digest of rows, independent of their order and blocks."""

    def __init__(self) -> None:
        self._sum, self._rows = 0, 0

    def add(self, rows: pa.Table) -> None:
        """Add rows to the digest; integers and doubles of equal value count as equal."""
        text = pd.DataFrame({name: _text(rows[name]) for name in rows.column_names})
        if len(text):
            hashes = pd.util.hash_pandas_object(text, index=False).to_numpy()
            self._sum = (self._sum + int(hashes.sum())) % 2**64
            self._rows += len(text)

    @property
    def digest(self) -> str:
        """Twelve hex digits."""
        return hashlib.sha256(f"{self._rows} {self._sum}".encode()).hexdigest()[:12]


def _text(values: pa.ChunkedArray) -> Any:
    return pc.fill_null(pc.cast(values, pa.string()), "\0").to_pandas()
