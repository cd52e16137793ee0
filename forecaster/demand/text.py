"""What the values of a column mean: words, numbers, yes or no, calendar days, instants.

A source gives text, or a type of its own. Nothing given becomes "", NaN or NaT; what cannot be read becomes infinite
(a number) or NaT (a day, an instant), for the caller to refuse. Every distinct value is parsed once.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd

Kind = Literal["double", "string"]
Column = Any  # a pandas Series
LONGEST = 200  # characters of a depot id


def kind_of(column: Column) -> Kind:
    """Numbers or words? Text is numbers when more than half of its distinct values are."""
    if pd.api.types.is_numeric_dtype(column):
        return "double"
    given = column.dropna()
    if len(given) and not isinstance(given.iloc[0], str):
        return "double" if np.isfinite(numbers(given)).all() else "string"
    if isinstance(column.dtype, pd.CategoricalDtype):
        return "string"
    distinct = pd.Series(words(given).unique(), dtype="str").replace("", None).dropna()
    return "string" if len(distinct) and np.isinf(numbers(distinct)).mean() >= 0.5 else "double"


def in_one_line(ids: Column) -> Column:
    """Which ids are one line of at most LONGEST characters and no relative path: fit for tables, pages and URLs."""
    broken = ids.str.contains(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
    return (ids.str.len() <= LONGEST) & ~broken & ~ids.isin([".", ".."])


def words(column: Column) -> Column:
    """Text without blanks around it, empty where nothing is given; a whole number is written without a point."""
    whole = pd.api.types.is_float_dtype(column)

    def parse(values: Column) -> Column:
        if whole:
            return values.map(lambda value: str(int(value)) if float(value).is_integer() else str(value)).astype("str")
        return values.astype("str").str.strip()

    return each_value(column, parse, "").astype("str")


def ids(column: Column) -> Column:
    """`words` as a categorical, whose categories are the distinct words in the order of their appearance."""
    codes, values = pd.factorize(column)
    told = words(pd.Series(values, name=None)) if len(values) else pd.Series([], dtype="str")
    back, distinct = pd.factorize(pd.concat([told, pd.Series([""], dtype="str")], ignore_index=True))
    return pd.Series(pd.Categorical.from_codes(back[codes], pd.Index(distinct, dtype="str")), index=column.index)


def numbers(column: Column, thousands: str | None = None, decimal: str = ".") -> Column:
    """Doubles: NaN where nothing is given, infinite where it is not a number.

    In text, `thousands` may stand between groups of digits, and `decimal` before the decimals.
    """
    if pd.api.types.is_numeric_dtype(column):
        found = column.astype("float64")
        return found.abs().where(np.isinf(found), found)
    mark, point = re.escape(thousands or ""), re.escape(decimal)
    whole = rf"(\d+|\d{{1,3}}({mark}\d{{2,3}})*{mark}\d{{3}})" if thousands else r"\d+"
    form = rf"[+-]?({whole}{point}?\d*|{point}\d+)([eE][+-]?\d+)?"

    def parse(values: Column) -> Column:
        text = values.astype("str").str.strip()
        plain = text.where(text.str.fullmatch(form).astype(bool), "inf")
        if thousands:
            plain = plain.str.replace(thousands, "", regex=False)
        if decimal != ".":
            plain = plain.str.replace(decimal, ".", regex=False)
        return pd.to_numeric(plain).astype("float64").where(text != "", np.nan)

    return each_value(column, parse, np.nan).astype("float64")


def days(column: Column, zone: ZoneInfo) -> Column:
    """Calendar days, NaT where nothing or no ISO date is given; a timestamp falls on its local day, short or long.

    A timestamp with an offset is taken to the zone first, one without is local already.
    """
    if pd.api.types.is_datetime64_any_dtype(column):
        local = column.dt.tz_convert(zone).dt.tz_localize(None) if column.dt.tz is not None else column
        day = local.dt.normalize().astype("datetime64[s]")
        return day.where(day.dt.year.between(1, 9999), pd.NaT)  # no table and no text holds other years

    def parse(values: Column) -> Column:
        text = values.astype("str").str.strip()
        date = text.str.fullmatch(r"\d{4}-\d{2}-\d{2}").astype(bool)
        found = pd.to_datetime(text.where(date, None), format="%Y-%m-%d", errors="coerce").astype("datetime64[s]")
        rest = ~date & (text != "")
        if rest.any():
            local = instants(text[rest], zone).dt.tz_convert(zone).dt.tz_localize(None)
            found.loc[rest] = local.dt.normalize().astype("datetime64[s]")
        return found

    return each_value(column, parse, pd.NaT).astype("datetime64[s]")


def instants(column: Column, zone: ZoneInfo) -> Column:
    """Instants in UTC, NaT where none can be read; without an offset they are local."""
    if pd.api.types.is_datetime64_any_dtype(column):
        aware = column if column.dt.tz is not None else localize(column, zone)
        return aware.dt.tz_convert("UTC").astype("datetime64[us, UTC]")

    def parse(values: Column) -> Column:
        text = values.astype("str").str.strip()
        offset = text.str.fullmatch(r"\d{4}-\d\d-\d\d[T ].*(Z|[+-]\d\d(:?\d\d)?)").astype(bool)
        plain = text.str.fullmatch(r"\d{4}-\d\d-\d\d([T ][\d:.]+)?").astype(bool)
        aware = pd.to_datetime(text.where(offset, None), format="ISO8601", errors="coerce", utc=True)
        naive = pd.to_datetime(text.where(plain, None), format="ISO8601", errors="coerce").astype("datetime64[us]")
        return aware.astype("datetime64[us, UTC]").fillna(localize(naive, zone).dt.tz_convert("UTC"))

    return each_value(column, parse, pd.NaT).astype("datetime64[us, UTC]")


def localize(local: Column, zone: ZoneInfo) -> Column:
    """In autumn's hour that comes twice the first is meant; spring's missing hour moves on."""
    return local.dt.tz_localize(zone, ambiguous=np.ones(len(local), bool), nonexistent="shift_forward")


def each_value(column: Column, parse: Callable[[Column], Column], missing: Any) -> Column:
    """Parse every distinct value once."""
    codes, values = pd.factorize(column)
    parsed = parse(pd.Series(values).reset_index(drop=True))
    return parsed.reindex(codes, fill_value=missing).set_axis(column.index)


def yes(column: Column) -> Column:
    """1 or 0 for yes or no, NaN where nothing is given, infinite for anything else."""
    said = {"1": 1.0, "0": 0.0, "true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0, "": np.nan, "1.0": 1.0, "0.0": 0.0}
    return each_value(
        words(column), lambda text: text.str.lower().map(lambda word: said.get(word, np.inf)), np.nan
    ).astype("float64")
