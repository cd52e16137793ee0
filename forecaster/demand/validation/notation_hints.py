"""Which notation would read what could not be read: another order of day and month, another mark in numbers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import Spec, WrittenSource
from forecaster.demand.parsing import Notation, days, numbers
from forecaster.demand.sources import encodings

LOOKED_AT = 20_000  # rows
FEW_COUNTS = 5  # with a point, which may look like thousands by chance
NEARLY_ALL = 0.95  # of the values that a notation must read, to be worth naming
_DAYS = (
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y-%m-%d",
    "%Y-%d-%m",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d/%m/%y",
    "%m/%d/%y",
    "%d/%b/%Y",
    "%d %b %Y",
)
_SEPARATORS = ("/", ".", "-")
_TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S")
_BLANKS = (" ", "\u00a0", "\u202f", "'", "\u2019")
MARKS = (  # thousands and decimal, the simplest first
    (",", "."),
    (None, ","),
    *((blank, ".") for blank in _BLANKS),
    (".", ","),
    *((blank, ",") for blank in _BLANKS),
)


class Decimals:
    """What counts with a point look like, block after block; of a source that declares its marks nothing is asked."""

    def __init__(self, spec: Spec) -> None:
        source, self._column = spec.demand.source, spec.demand.columns.demand
        self._written = isinstance(source, WrittenSource)  # of others only text is asked: numbers are what they are
        declared = self._written and {"thousands", "decimal"} & source.model_fields_set
        self._open = not declared and spec.demand.aggregate != "count"
        self.counts, self.example = 0, ""

    @property
    def may_be_thousands(self) -> bool:
        """Have all of them, and some there are, three decimals and one to three digits before, as 1.234 has?"""
        return self._open and self.counts >= FEW_COUNTS

    def look_at(self, block: pd.DataFrame, counts: pd.Series[float]) -> None:
        """`counts` are those of the block as numbers."""
        if not self._open or not (self._written or _is_text(block[self._column])):
            return
        number = counts.to_numpy()
        with np.errstate(invalid="ignore"):
            fractions = np.flatnonzero(np.isfinite(number) & (number % 1 != 0))
        if len(fractions):
            text = block[self._column].iloc[fractions].astype("str").str.strip()
            self._open = bool(text.str.fullmatch(r"[+-]?[1-9]\d{0,2}\.\d{3}").all())
            self.counts, self.example = self.counts + len(text), self.example or str(text.iloc[0])


def hint(refused: pd.DataFrame, accepted_days: pd.Series[Any], spec: Spec) -> str:
    """What to set so that rows refused for one rule can be read, empty where nothing would do; `refused` is as
    `quarantine` describes, and `accepted_days` are those that can be read as it is. Only what people wrote, in a CSV
    or a sheet, has a notation."""
    rule, source = refused["rule"].iloc[0], spec.demand.source
    if rule == "row_form" and isinstance(source, WrittenSource):
        return _of_bytes(refused.head(LOOKED_AT))
    column = {"date_form": spec.demand.columns.date, "count_form": spec.demand.columns.demand}.get(rule)
    if column is None or not isinstance(source, WrittenSource):
        return ""
    cells = [json.loads(content).get(column) for content in refused["content"].head(LOOKED_AT)]
    values = pd.Series([str(value) for value in cells if value not in (None, "")], dtype="str")
    if values.empty:
        return ""
    return _of_days(values, accepted_days, spec) if rule == "date_form" else _of_numbers(values)


def _of_bytes(refused: pd.DataFrame) -> str:
    odd = refused[refused["message"].str.contains(f"found {encodings.NO_TEXT}", regex=False)]
    cells = [json.loads(content).values() for content in odd["content"]]
    encoding = encodings.guess(encodings.unescaped(str(cell)) for row in cells for cell in row)
    if not encoding or len(odd) < NEARLY_ALL * len(refused):
        return ""
    return f"demand.source.encoding: {encoding} would read {_how_many(len(odd) / len(refused))} of them"


def _is_text(column: pd.Series[Any]) -> bool:
    values = column.cat.categories if isinstance(column.dtype, pd.CategoricalDtype) else column
    return pd.api.types.is_string_dtype(values)


def _of_days(values: pd.Series[str], accepted: pd.Series[Any], spec: Spec) -> str:
    shares: dict[str, float] = {}
    for form in day_forms():
        read = days(values, spec.zone, Notation(date_format=form))
        shares[form] = float((read >= pd.Timestamp("1970-01-01")).mean())
    best = max(shares.values())
    if best < NEARLY_ALL:
        return ""
    fit = [f"'{form}'" for form, share in shares.items() if share == best][:2]
    if len(accepted) and not any(_reads_some(form[1:-1], accepted, spec) for form in fit):
        return (
            f"{' or '.join(fit)} would read {_how_many(best)} of them, and none of the days that are read now: they "
            "are written in two ways, of which demand.source.date_format reads one"
        )
    return f"demand.source.date_format: {' or '.join(fit)} would read {_how_many(best)} of them"


def _reads_some(form: str, accepted: pd.Series[Any], spec: Spec) -> bool:
    """Would a form read any of the days as they are written now?"""
    text = accepted.dt.strftime(Notation.of(spec.demand.source).date_format or "%Y-%m-%d").astype("str")
    return bool(days(text, spec.zone, Notation(date_format=form)).notna().any())


def _of_numbers(values: pd.Series[str]) -> str:
    shares = [float(np.isfinite(numbers(values, Notation(*marks))).mean()) for marks in MARKS]
    best = max(shares)
    if best < NEARLY_ALL:
        return ""
    return f"demand.source.{_keys(*MARKS[shares.index(best)])} would read {_how_many(best)} of them"


def _keys(thousands: str | None, decimal: str) -> str:
    parts = [f"thousands: {json.dumps(thousands)}"] if thousands else []  # a blank of another kind can be seen so
    parts += [f'decimal: "{decimal}"'] if decimal != "." else []
    return " and ".join(parts)


def day_forms() -> Iterator[str]:
    for time in _TIMES:
        for form in _DAYS:
            for separator in _SEPARATORS if "/" in form else ("/",):
                yield form.replace("/", separator) + time


def _how_many(share: float) -> str:
    return "all" if share == 1 else f"{share:.0%}"
