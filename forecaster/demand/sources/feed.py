"""Streaming feed of any source: blocks of rows that know their place, then a content digest and a watermark.

A kind is a generator of pieces, which are Arrow tables of any size, that returns its ending. Here pieces become frames
of a good size, with the types that the rest of the package reads.
"""

from __future__ import annotations

import difflib
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from forecaster.config import credentials
from forecaster.errors import ForecasterError, SourceError

ROW, FAULT, FILE = "row", ":fault", ":file"  # a column of such a name is refused
BLOCK = 2_000_000  # rows of a block at most
_ENOUGH = BLOCK  # rows that are worth a block; smaller pieces wait for the next ones
_EXACT = 2**53  # whole numbers that a double holds


@dataclass(frozen=True)
class Ending:
    """What is known of a source once it has been read."""

    digest: str
    watermark: str | None = None


Pieces = Generator[tuple[str, pa.Table], None, Ending]
"""Each a file's name and rows of it: the columns, `row` and, where a row's form may be wrong, `:fault`."""


class Feed:
    """A source's rows, to be taken once.

    `blocks` are frames of at most BLOCK rows: the columns, `row`, `:fault` ("" where the row's form is fine) and
    `:file` (a Categorical). Text of few distinct values may be a Categorical, too. There is at least one block, if
    need be without rows. An optional column is in the blocks of those files that have it.
    """

    def __init__(self, name: str, pieces: Pieces) -> None:
        self.name = name
        self._ending: Ending | None = None
        self.blocks: Iterator[pd.DataFrame] = self._blocks(pieces)

    @property
    def digest(self) -> str:
        """Twelve hex digits, the same for the same content; known after the last block."""
        return self._require_ending().digest

    @property
    def watermark(self) -> str | None:
        """From where the next feed may start, None where none is declared; known after the last block."""
        return self._require_ending().watermark

    def _require_ending(self) -> Ending:
        assert self._ending is not None, "a feed has its digest and watermark after the last block was taken"
        return self._ending

    def _blocks(self, pieces: Pieces) -> Iterator[pd.DataFrame]:
        with _translated_errors(self.name):
            yield from _gather_blocks(self._until_the_end(pieces))

    def _until_the_end(self, pieces: Pieces) -> Iterator[tuple[str, pa.Table]]:
        self._ending = yield from pieces


@dataclass(frozen=True)
class Columns:
    """What is asked of a source."""

    required: tuple[str, ...]
    optional: tuple[str, ...] = ()

    def of(self, place: str, available: Sequence[str]) -> list[str]:
        """The columns to read of those found. Raises SourceError, which starts with `place`, when a wanted one is not
        there once."""
        chosen = list(dict.fromkeys([*self.required, *(column for column in self.optional if column in available)]))
        for column in chosen:
            if column == ROW or column.startswith(":"):
                raise SourceError(f"{place}: column '{column}' has a name that is used for a row's place; rename it")
            if missing := [name for name in chosen if name not in available]:
                names = f"columns {', '.join(available)}" if any(available) else "no columns, as in an empty file"
                quoted = ", ".join(f"'{name}'" for name in missing)
                raise SourceError(f"{place}: found {names}; wanted {quoted}{_hint(missing, available)}")
            if list(available).count(column) > 1:
                raise SourceError(f"{place}: found column '{column}' twice; wanted each name once")
        return chosen


def _hint(missing: Sequence[str], available: Sequence[str]) -> str:
    if len(available) == 1 and (mark := next((mark for mark in ";\t|," if mark in available[0]), None)):
        return f"; the file seems to be delimited by {mark!r}: set the source's `delimiter`"
    if len(missing) > 1:
        return ""
    [column] = missing
    if other := next((name for name in available if name.casefold() == column.casefold()), None):
        return f"; did you mean '{other}'? Upper and lower case count"
    if close := difflib.get_close_matches(column, available, n=1):
        return f"; did you mean '{close[0]}'?"
    return ""


def numbered(table: pa.Table, first: int) -> pa.Table:
    """The table with `row` counting from `first`."""
    return table.append_column(ROW, pa.array(np.arange(first, first + len(table), dtype=np.int64)))


def joined(blocks: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """The blocks in one frame; Categoricals stay such."""
    if len(blocks) == 1:
        return blocks[0]
    whole = pd.concat(blocks, ignore_index=True)
    for column in whole.columns:
        parts = [block[column] for block in blocks if column in block]
        if len(parts) == len(blocks) and all(isinstance(part.dtype, pd.CategoricalDtype) for part in parts):
            whole[column] = pd.api.types.union_categoricals(parts)
    return whole


@contextmanager
def _translated_errors(name: str) -> Iterator[None]:
    """No error leaves with a credential; nor does its cause, which a traceback would show."""
    try:
        yield
    except ForecasterError as error:
        raise type(error)(credentials.hide(str(error))) from None
    except pa.ArrowException as error:
        raise SourceError(credentials.hide(f"{name}: found values that cannot be held ({error})")) from None


def _gather_blocks(pieces: Iterable[tuple[str, pa.Table]]) -> Iterator[pd.DataFrame]:
    """Blocks of a good size: what is large is cut, what is small waits for the next, unless its columns are others."""
    pending: list[tuple[str, pa.Table]] = []
    empty, any_yielded = None, False
    for name, table in pieces:
        empty = empty or (name, table.slice(0, 0))
        for start in range(0, len(table), BLOCK):
            part = table.slice(start, BLOCK)
            if pending and (_rows(pending) + len(part) > BLOCK or pending[0][1].schema != part.schema):
                yield _frame(pending)
                pending, any_yielded = [], True
            pending.append((name, part))
            if _rows(pending) >= _ENOUGH:
                yield _frame(pending)
                pending, any_yielded = [], True
    if pending:
        yield _frame(pending)
    elif not any_yielded and empty:
        yield _frame([empty])


def _rows(pieces: Iterable[tuple[str, pa.Table]]) -> int:
    return sum(len(table) for _, table in pieces)


def _frame(pieces: Sequence[tuple[str, pa.Table]]) -> pd.DataFrame:
    """The pieces as one block."""
    names = list(dict.fromkeys(name for name, _ in pieces))
    # without what other programs noted in the schema, which pandas would read
    table = pa.concat_tables([piece for _, piece in pieces]).replace_schema_metadata()
    for place, column in enumerate(table.column_names):
        table = table.set_column(place, column, _plain(table[column]))
    if FAULT not in table.column_names:
        table = table.append_column(FAULT, pa.repeat(pa.scalar("", pa.large_string()), len(table)))
    frame: pd.DataFrame = table.unify_dictionaries().to_pandas(
        date_as_object=False, ignore_metadata=True, types_mapper={pa.bool_(): pd.BooleanDtype()}.get
    )
    for column in table.column_names:
        if _too_wide(table[column]):
            frame[column] = table[column].to_pandas(types_mapper={table[column].type: pd.Int64Dtype()}.get)
    codes: NDArray[np.int64] = np.repeat([names.index(name) for name, _ in pieces], [len(piece) for _, piece in pieces])
    frame[FILE] = pd.Categorical.from_codes(codes, pd.Index(names))
    return frame


def _plain(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values of a type that pandas holds well: decimals as doubles, what is wholly unknown as text."""
    kind = values.type
    if pa.types.is_decimal(kind):
        return pc.cast(values, pa.float64())
    if pa.types.is_null(kind):
        return pc.cast(values, pa.string())
    if pa.types.is_dictionary(kind) and not is_text(kind.value_type):
        return _plain(pc.cast(values, kind.value_type))
    return values


def is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _too_wide(values: pa.ChunkedArray) -> bool:
    """Whole numbers with gaps become doubles in pandas: not so where those would be others."""
    if not pa.types.is_int64(values.type) or not values.null_count:
        return False
    ends = pc.min_max(values).as_py()
    return ends["max"] is not None and max(-ends["min"], ends["max"]) > _EXACT
