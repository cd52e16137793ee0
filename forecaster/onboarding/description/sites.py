"""Site of a row: the column whose values have rows on most days and are not a property of an event."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from forecaster.onboarding import column_names, columns
from forecaster.onboarding.columns import Column
from forecaster.onboarding.description.questions import NO_COLUMN, Choice, Question

_NEARLY_ALL = 0.95
_MOST = 0.6  # share of the days with rows of a value, for a column that may name sites
_CLOCK = re.compile(
    r"[0-2]?[0-9][:.h][0-5]?[0-9].*|[0-9]{1,2} ?[-–] ?[0-9]{1,2}( ?h| ?Uhr)?|[0-9]{1,2} ?(am|pm|AM|PM|Uhr)"
)
_NO_SITE: tuple[column_names.Role, ...] = (
    "calendar",
    "actor",
    "part",
    "metric",
    "scenario",
    "open",
    "measure",
    "money",
    "property",
    "stock",
    "total",
)


@dataclass(frozen=True)
class SiteColumn:
    """Column that names the site, None for a single site; its evidence, and a question if that is
    not sufficient."""

    column: Column | None
    evidence: str
    question: Question | None = None


def choose(by_name: Mapping[str, Column], days: Any, used_names: Sequence[str]) -> SiteColumn:
    """Choose the column that names the site: by its name if its values fit, else by its values
    alone if no other column fits as well."""
    names = [name for name in by_name if name not in used_names and _may_name(by_name[name])]
    fitting_names = [name for name in column_names.best(names, "depot") if _fits_name(by_name[name], days)]
    if fitting_names:
        return _by_name([by_name[name] for name in fitting_names], [by_name[name] for name in names], days)
    if days.nunique() >= _NEARLY_ALL * len(days):
        return SiteColumn(None, "one row a day")
    likely = [by_name[name] for name in names if _fits_values(by_name[name], days)]
    if not likely:
        return _of_articles([by_name[name] for name in names], days)
    if len(likely) == 1 and columns.repeats(likely[0], days) < 1 - _NEARLY_ALL:
        return SiteColumn(likely[0], "each value has one row on most days")
    best = min(likely, key=lambda column: (columns.repeats(column, days), column.are_numbers))
    ranked = [best, *(column for column in likely if column is not best)]
    choices = [Choice(column.name, _values(column)) for column in ranked]
    one_site = Choice(NO_COLUMN, "one site for all rows")
    return SiteColumn(best, "", Question("site", "which column names the site?", (*choices, one_site)))


def _of_articles(candidates: list[Column], days: Any) -> SiteColumn:
    """One site; a question if a column names articles with one row per day each."""
    for column in candidates:
        is_one_a_day = columns.repeats(column, days) < 1 - _NEARLY_ALL and column.values.nunique() >= 2
        if column_names.says(column.name, "article") and is_one_a_day and not column.are_numbers:
            choices = (Choice(NO_COLUMN, "one site for all rows"), Choice(column.name, _values(column)))
            return SiteColumn(None, "", Question("site", "forecast each article, or one site?", choices))
    return SiteColumn(None, "no column has the same names on most days")


def presence(column: Column, days: Any) -> float:
    """Share of the days with rows of a value within its span, weighted by rows."""
    codes, _ = pd.factorize(column.values)
    numbers = pd.factorize(days, sort=True)[0]
    is_known = (codes >= 0) & (numbers >= 0)
    rows = pd.DataFrame({"value": codes[is_known], "day": numbers[is_known]})
    if not len(rows):
        return 0.0
    grouped = rows.groupby("value")["day"]
    share = grouped.nunique() / (grouped.max() - grouped.min() + 1)
    return float(np.average(share, weights=grouped.size()))


def is_of_clock(column: Column) -> bool:
    """True for times of day such as `9:30 AM` or `10-11`."""
    texts = column.distinct
    return not column.are_numbers and bool(texts.map(lambda text: _CLOCK.fullmatch(text) is not None).mean() > 0.9)


def _may_name(column: Column) -> bool:
    """False for days, fractions, times of day and booleans."""
    if column.dates is not None or is_of_clock(column):
        return False
    if pd.api.types.is_bool_dtype(column.values):
        return False
    if pd.api.types.is_float_dtype(column.values) and (column.values.dropna() % 1 != 0).any():
        return False
    return column.are_numbers is False or bool((column.numbers((None, ".")).dropna() % 1 == 0).all())


def _fits_name(column: Column, days: Any) -> bool:
    """True if its values fit a site: no counts, no property of a person."""
    name = column.name
    if column_names.holds_word(name, "actor") or columns.counts_by_name(column):
        return False
    if not column.are_numbers:
        return True
    if columns.varies_by_day(column, days):
        return False
    is_exact = column_names.rank(name, "depot") < column_names.INEXACT or column_names.is_id(name)
    return presence(column, days) > (_MOST if is_exact else 0.9)


def _fits_values(column: Column, days: Any) -> bool:
    if any(column_names.says(column.name, role) for role in _NO_SITE) or column_names.says(column.name, "demand"):
        return False
    values = column.values.nunique()
    least = _NEARLY_ALL if column.are_numbers else _MOST  # a count has the same values on few days
    return 2 <= values <= max(len(days) / 5, 2) and presence(column, days) > least


def _by_name(candidates: list[Column], all_of_them: list[Column], days: Any) -> SiteColumn:
    best = min(candidates, key=lambda column: (columns.repeats(column, days) > 0.5, candidates.index(column)))
    within = columns.depot_of_area(best, all_of_them, days)
    if within is not None:
        return SiteColumn(within, f"each is in one '{best.name}'")
    rivals = [column for column in candidates if column is not best and _is_rival(column, best)]
    if not rivals:
        return SiteColumn(best, "by its name")
    choices = tuple(Choice(column.name, _values(column)) for column in (best, *rivals))
    return SiteColumn(best, "", Question("site", "which column names the site?", choices))


def _is_rival(column: Column, best: Column) -> bool:
    """True if its name denotes a site as well, and neither column names areas of the other's sites."""
    ranks = [column_names.rank(candidate.name, "depot") >= column_names.INEXACT for candidate in (column, best)]
    if ranks[0] > ranks[1] or column_names.says(column.name, "area"):
        return False
    return not columns.constant_a_depot(column, best.values) and not columns.constant_a_depot(best, column.values)


def _values(column: Column) -> str:
    examples = ", ".join(column.distinct[:3])
    more = len(column.distinct) - 3
    return f"its values: {examples}" + (f" and {more} more" if more > 0 else "")
