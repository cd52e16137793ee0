"""Notation of days and numbers in a file: the date form, the decimal mark and the thousands mark
that read its values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

from forecaster.demand import parsing
from forecaster.demand.long_dates import plain_dates
from forecaster.demand.parsing import Notation
from forecaster.demand.validation.days.forms import day_forms, likeliest
from forecaster.demand.validation.notation_hints import MARKS

LOOKED_AT = 2_000  # distinct values
_TOGETHER = 100  # consecutive ones among them: days that form a run show it
_NEARLY_ALL = 0.9  # share of the values that a notation must read
_PART = 0.05  # minimum share of them written in another way
_FEW = 20  # distinct values that suffice to reject days
_YEARS = pd.Timestamp("1990-01-01"), pd.Timestamp("2100-01-01")
_UTC = ZoneInfo("UTC")
_MONTHS = (
    "%d %b %Y",
    "%d. %b %Y",
    "%d %B %Y",
    "%d. %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%d-%b-%y",
    "%d-%B-%Y",
    "%b %d %Y",
    *(f"{weekday}{day}" for weekday in ("%a", "%a,", "%A", "%A,") for day in (" %d %b %Y", " %d %B %Y")),
    *("%a, %b %d, %Y", "%a %b %d %Y", "%A, %B %d, %Y", "%A %B %d, %Y", "%A, %d. %B %Y"),
)
_OTHERS = ("%G-W%V-%u", "%Y-%j", "%Y-%m-%d %H:%M:%S %Z", "%Y-%m-%d %H:%M:%S.%f %Z", "%Y-%m-%d %H:%M %Z")
_CLOCKS = (" %I:%M %p", " %I:%M:%S %p", ", %H:%M", " %H:%M:%S.%f")
_SIGNS = {
    **dict.fromkeys(("%m", "%y", "%H", "%I", "%M", "%S"), "[0-9]{1,2}"),
    "%d": "[0-9]{1,2}(?:st|nd|rd|th)?",
    **dict.fromkeys(("%Y", "%G"), "[0-9]{4}"),
    **dict.fromkeys(("%a", "%b"), r"[^\W\d_]{3,4}"),
    **dict.fromkeys(("%A", "%B"), r"[^\W\d_]+"),
    "%V": "[0-9]{2}",
    "%u": "[1-7]",
    "%j": "[0-9]{3}",
    "%Z": "(?:UTC|GMT)",
    "%p": "[APap][Mm]",
    "%f": "[0-9]+",
}
_PLAIN = (None, ".")


@dataclass(frozen=True)
class DateForm:
    """Form of days as in `date_format`; None is ISO 8601."""

    form: str | None
    share: float  # share of the values that it reads
    # another form that reads as many, with another order of day, month and year
    rival: str | None = None


def distinct(column: Any) -> Any:
    """Stripped texts of a column, distinct and not empty: at most LOOKED_AT, spread over the
    column, in stretches of consecutive ones."""
    values = pd.Series(column.dropna().unique())
    if len(values) > LOOKED_AT:
        starts = np.linspace(0, len(values) - _TOGETHER, LOOKED_AT // _TOGETHER).astype(int)
        values = values.iloc[(starts[:, None] + np.arange(_TOGETHER)).ravel()]
    values = values.astype("str").str.strip()
    return values[values != ""].drop_duplicates().reset_index(drop=True)


def date_form(values: Any) -> DateForm | None:
    """Form in which nearly all of these texts are days; None if there is none."""
    if not len(values) or not values.str.contains(r"[0-9]").mean() >= _NEARLY_ALL:
        return None
    iso = _share(values, None) if values.str.match(r"[0-9]{4}-").mean() > _NEARLY_ALL / 2 else 0.0
    if iso >= _NEARLY_ALL:
        return DateForm(None, iso)
    few = values.iloc[:: max(1, len(values) // _FEW)]
    forms = dict.fromkeys([*_in_shape(few), *_in_shape(plain_dates(few, "%d. %B"))])
    shares = {form: _share(values, form) for form in forms}
    best = max(shares.values(), default=0.0)
    if best < _NEARLY_ALL:
        return None
    fit = likeliest({form: days(values, form) for form in forms if shares[form] == best})
    rival = next((form for form in fit[1:] if _signs(form) == _signs(fit[0])), None)
    return DateForm(fit[0], best, rival)


def two_forms(values: Any) -> tuple[Any, Any] | None:
    """Texts of each of the two forms of days in which nearly all are written; None if there are not
    exactly two."""
    parts = [part for _, part in values.groupby(values.str.replace(r"\w+", "0", regex=True))]
    parts = sorted((part for part in parts if len(part) >= _PART * len(values)), key=len, reverse=True)
    if len(parts) != 2 or sum(map(len, parts)) < _NEARLY_ALL * len(values):
        return None
    first, second = (part.reset_index(drop=True) for part in parts)
    return (first, second) if date_form(first) and date_form(second) else None


def of_buddhist_era(values: Any) -> Any:
    """Texts among these that are current days in years of the Buddhist era."""
    before = values.str.replace(r"(?<![0-9])25[2-9][0-9](?![0-9])", lambda year: str(int(year[0]) - 543), regex=True)
    return values[(before != values) & (date_form(before) is not None)]


def marks(values: Any, other_columns: Sequence[Any] = ()) -> tuple[str | None, str] | None:
    """Thousands and decimal mark that read nearly all of these texts; None if none do.

    Ambiguous values such as 1.234 count as thousands, unless numbers of other columns contradict.
    """
    if not len(values) or not values.str.contains("[0-9]").mean() >= _NEARLY_ALL:
        return None
    plain = np.isfinite(parsing.numbers(values, Notation())).all()
    if plain and not _like_thousands(values, "."):
        return _PLAIN
    shares = {pair: float(np.isfinite(parsing.numbers(values, Notation(*pair))).mean()) for pair in (_PLAIN, *MARKS)}
    best = max(shares.values())
    if best < _NEARLY_ALL:
        return None
    fit = [pair for pair, share in shares.items() if share == best]
    if fit[0] == _PLAIN and not _like_thousands(values, "."):
        return _PLAIN
    mark = "." if fit[0] == _PLAIN else ","
    if _like_thousands(values, mark) and not _as_decimal(other_columns, mark):
        return (mark, "," if mark == "." else ".")
    return next((pair for pair in fit if pair[0] != mark), fit[0])


def days(column: Any, form: str | None) -> Any:
    """Days of the column; NaT if unreadable."""
    return parsing.days(column, _UTC, Notation(date_format=form))


@lru_cache(1)
def _shapes() -> dict[str, re.Pattern[str]]:
    """Pattern of each form: matching it is a thousand times as fast as parsing."""
    shapes = {}
    for form in _forms():
        shape = re.escape(form)
        for sign, signs in _SIGNS.items():
            shape = shape.replace(sign, signs)
        shapes[form] = re.compile(shape)
    return shapes


def _in_shape(few: Any) -> list[str]:
    return [form for form, shape in _shapes().items() if _how_many(few.tolist(), shape) > len(few) / 2]


def _how_many(texts: Sequence[str], shape: re.Pattern[str]) -> int:
    return sum(shape.fullmatch(text) is not None for text in texts)


def _forms() -> list[str]:
    month_forms = [form + clock for form in _MONTHS for clock in ("", " %H:%M", " %H:%M:%S")]
    half_days = [form + clock for form in day_forms() if ":" not in form for clock in _CLOCKS]
    return [*day_forms(), *month_forms, *half_days, *_OTHERS]


def _share(values: Any, form: str | None) -> float:
    read = days(values, form)
    return float(((read >= _YEARS[0]) & (read < _YEARS[1])).mean())


def _signs(form: str) -> list[str]:
    """Signs of a form, sorted."""
    return sorted(re.findall("%.", form))


def _like_thousands(values: Any, mark: str) -> bool:
    """True if all values with the mark have three digits after it, and not always zeros."""
    with_mark = values[values.str.contains(mark, regex=False)]
    form = rf"\D*[1-9][0-9]{{0,2}}(\{mark}[0-9]{{3}})+\D*"  # a currency may stand next to it
    zeros = rf"\{mark}000\D*$"
    return bool(len(with_mark) and with_mark.str.fullmatch(form).all() and not with_mark.str.contains(zeros).all())


def _as_decimal(other_columns: Sequence[Any], mark: str) -> bool:
    """True if the mark is a decimal one in any of these columns."""
    form = rf"\D*[0-9]+\{mark}([0-9]{{1,2}}|[0-9]{{4,}})\D*"
    return any(values.str.fullmatch(form).mean() > 0.1 for values in other_columns if len(values))
