"""Rows of the quarantine (dead-letter table): a rejected row as read, the rule it broke and a
sentence.

Columns: id, depot_id, date, source, row, rule, message, content, recorded_at, and later the batch.
The id identifies the rejected row and the reason: the same row rejected again for the same rule has
the same id.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from string import Formatter
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.config import Spec
from forecaster.core.language.sentences import MADE_OF, restored, sentence, stored
from forecaster.demand import readings
from forecaster.demand.parsing import Notation, each_value, words
from forecaster.demand.sources import FAULT, FILE, ROW
from forecaster.lake import TABLES

COLUMNS = [name for name in TABLES["quarantine"].names if name != "batch"]
DIGITS = 16
# first rows whose messages keep their parts: a finding quotes the first one
EXPLAINED = 3
_NAME = 60  # characters of a depot id in a message
_SHOWN = 80  # characters of a value in a message
# characters that break lines or reverse their direction
_NO_LETTER = re.compile("[\0-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069]")
Column = Any  # a pandas Series


@dataclass(frozen=True)
class RowSentences:
    """One sentence per row: its text and, for the first few rows, its parts; None for the others."""

    text: Column
    made_of: Column

    @classmethod
    def of(cls, template: str, index: Any, **values: Column) -> RowSentences:
        """Sentences of one template for all of these rows; a value is a column with one entry per
        row, or one value for all."""
        parts = []
        for words_before, name, _, _ in Formatter().parse(template):
            parts += [words_before, _as_text(values[name])] if name else [words_before]
        text = pd.Series(pd.array(_joined(*parts), dtype="str"), index=index)
        made_of: list[Any] = [None] * len(text)
        for place in range(min(len(text), EXPLAINED)):
            of_row = {name: value.iloc[place] if _is_column(value) else value for name, value in values.items()}
            made_of[place] = stored(sentence(template, **of_row))
        return cls(text, pd.Series(made_of, index, dtype=object))

    @classmethod
    def in_order(cls, parts: Sequence[RowSentences], index: Any) -> RowSentences:
        """Combine the sentences of several templates, in the order of an index."""
        if not parts:
            return cls(pd.Series([], index[:0], dtype="str"), pd.Series([], index[:0], dtype=object))
        text, made_of = (pd.concat([getattr(part, name) for part in parts]) for name in ("text", "made_of"))
        return cls(text.reindex(index), made_of.reindex(index))

    @property
    def first(self) -> str:
        """Sentence of the first row."""
        return restored(self.made_of.iloc[0], str(self.text.iloc[0]))

    def among(self, where: Any) -> RowSentences:
        """Sentences of some of the rows."""
        return RowSentences(self.text[where], self.made_of[where])


def first_message(refused: pd.DataFrame) -> str:
    """Sentence of the first of these rejected rows."""
    text = str(refused["message"].iloc[0])
    return restored(refused[MADE_OF].iloc[0], text) if MADE_OF in refused else text


def rows(
    refused: pd.DataFrame, rule: Column, message: RowSentences, content: Column, now: pd.Timestamp
) -> pd.DataFrame:
    """Rows of the lake's `quarantine` without the batch, plus the parts of the messages, which the
    lake does not store; `refused` has depot_id, date, source and row."""
    source = refused["source"].astype("str")
    columns = {
        "id": identity(source, rule, content),
        "depot_id": refused["depot_id"].astype("str"),
        "date": refused["date"],
        "source": source,
        "row": refused["row"],
        "rule": rule,
        "message": message.text,
        "content": content,
        "recorded_at": now,
        MADE_OF: message.made_of,
    }
    return pd.DataFrame(columns, index=refused.index)[[*COLUMNS, MADE_OF]].reset_index(drop=True)


def content(block: pd.DataFrame) -> Column:
    """Each row of a source as JSON text."""
    fields = block.drop(columns=[ROW, FAULT, FILE], errors="ignore")
    parts: list[Any] = []
    for name in fields.columns:
        start = f"{', ' if parts else '{'}{_json(str(name))}: "
        parts += [start, _json_values(fields[name])]
    return pd.Series(pd.array(_joined(*parts, "}"), dtype="str"), index=block.index)


def source_json(accepted: pd.DataFrame, spec: Spec) -> Column:
    """Typed readings as JSON text, in the words of their source; unknown values are empty."""
    columns = spec.demand.columns
    fields = {
        columns.depot_id: accepted["depot_id"].astype("str"),
        columns.day: readings.day_words(accepted, Notation.of(spec.demand.source).written_form),
        columns.demand: accepted["demand"],
    }
    if columns.open:
        fields[columns.open] = accepted["open"].map({0: 0, 1: 1})
    fields |= {name: accepted[name] for name in readings.covariates(accepted)}
    if columns.recorded_at:
        instants = pd.to_datetime(accepted["recorded_at"], unit="us", utc=True)
        fields[columns.recorded_at] = each_value(instants, _isoformat, "")
    return content(pd.DataFrame(fields, index=accepted.index))


def identity(source: Column, rule: Any, text: Column) -> Column:
    """Id of each rejected row: the first digits of the sha256 over source, rule and content."""
    rules = pd.Series(np.broadcast_to(np.asarray(rule, object), len(text)), dtype="str")
    keys = _joined(source.astype("str"), "\0", rules, "\0", text).cast(pa.large_binary()).to_pylist()
    digests = [hashlib.sha256(key).hexdigest()[:DIGITS] for key in keys]
    return pd.Series(digests, index=text.index, dtype="str")


def with_distinct_ids(refused: pd.DataFrame) -> pd.DataFrame:
    """Give identical rejected rows different ids."""
    if not (alike := refused["id"].duplicated(keep=False)).any():
        return refused
    repetition = refused.loc[alike].groupby("id").cumcount().reindex(refused.index, fill_value=0)
    return refused.assign(id=refused["id"].where(repetition == 0, refused["id"] + "-" + repetition.astype("str")))


def where(rows: pd.DataFrame) -> dict[str, Column]:
    """Start of a message: the position as file:row, and the depot."""
    source = each_value(rows["source"], lambda names: names.astype("str"), "")
    depots = each_value(rows["depot_id"], _names, "?")
    return {"place": source + ":" + rows["row"].astype("str"), "depot": depots}


def place(rows: pd.DataFrame) -> Column:
    """Position and depot in one text: file:row: depot."""
    values = where(rows)
    return values["place"] + ": depot " + values["depot"]


def legible(column: Column, longest: int = _SHOWN) -> Column:
    """Value shortened for a message: truncated, on one line, with escapes for characters that
    screens do not show."""

    def shorten(text: Column) -> Column:
        text = text.where(text.str.len() <= longest, text.str.slice(0, longest - 1) + "…")
        return text.str.replace(_NO_LETTER, lambda sign: sign[0].encode("unicode_escape").decode(), regex=True)

    return each_value(words(column), shorten, "").astype("str")


def _is_column(value: Any) -> bool:
    return isinstance(value, pd.Series)


def _as_text(value: Column) -> Column:
    if not _is_column(value):
        return str(value)
    return pd.Series(list(map(str, value)), value.index, dtype="str") if value.dtype == object else value.astype("str")


def _joined(*parts: str | Column) -> Any:
    """Columns of text and fixed words, joined row by row, as an Arrow array."""
    long = pa.large_string()
    arrays = [pa.scalar(part, long) if isinstance(part, str) else pa.array(part, long) for part in parts]
    return pc.binary_join_element_wise(*arrays, pa.scalar("", long))


def _isoformat(instants: Column) -> Column:
    return instants.map(lambda instant: instant.isoformat()).astype("str")


def _names(depots: Column) -> Column:
    text = legible(depots, _NAME)
    return text.where(text != "", "?")


def _json(value: Any) -> str:
    plain = value.item() if isinstance(value, np.generic) else value
    return json.dumps(plain, ensure_ascii=False, default=str)


def _json_values(column: Column) -> Column:
    """Values of a column as JSON; each distinct value is encoded once."""
    # values of several types may be equal and yet be written differently
    if column.dtype == object:
        return pd.Series([_json(value) for value in column.where(column.notna(), None)], column.index, dtype="str")
    # as bits, since 0.0 equals -0.0
    if isinstance(column.dtype, np.dtype) and column.dtype.kind == "f":
        kind = column.dtype
        bits = pd.Series(column.to_numpy().view(f"i{kind.itemsize}"), column.index)
        return each_value(bits, lambda distinct: _all_json(pd.Series(distinct.to_numpy().view(kind))), "null")
    return each_value(column, _all_json, "null")


def _all_json(values: Column) -> Column:
    return pd.Series([_json(value) for value in values.astype(object).where(values.notna(), None)], dtype="str")
