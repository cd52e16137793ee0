"""Count of a row: the column of numbers that is summed, or the row itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from forecaster.onboarding import column_names, columns
from forecaster.onboarding.columns import Column, listed
from forecaster.onboarding.description.identities import Identity, identities
from forecaster.onboarding.description.questions import ROW_COUNT, Choice, Question

_NEARLY_ALL = 0.95
_PARTS = 0.1  # share of rows that are not the first one of their site and day
_GRID = 100  # maximum number of times of day of a table of readings
_DENSE = 0.5  # share of the times of day with a row for each site and day, for readings
_CLOCK = r"([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?(?: ?[AaPp][Mm])?)"
_LOOKED_AT = 2_000  # moments sampled to check whether there are few times of day
_SOME, _OFTEN = 20, 0.3  # steps of a running total, and minimum share of rises
_MOSTLY = 0.9  # share of zeros of a property of events
_MEASURES: tuple[column_names.Role, ...] = ("measure", "property", "stock")


@dataclass(frozen=True)
class Count:
    """Column that is summed, None if each row counts as one; its evidence, and a question if that
    is not sufficient."""

    column: Column | None
    evidence: str
    question: Question | None = None


@dataclass(frozen=True)
class SiteRows:
    """Rows of a table by site and day."""

    sites: Any  # a Series, or one text for all rows
    days: Any
    moments: Any  # texts from which the days were read
    orders: tuple[str, ...] = ()  # columns that number rows
    part: str | None = None  # column that distinguishes the rows of a site and day

    def keys(self) -> Any:
        """Integer codes of the site, day and moment of each row."""
        codes = pd.factorize(self.sites)[0] if isinstance(self.sites, pd.Series) else 0
        return pd.DataFrame({"site": codes, "day": pd.factorize(self.days)[0], "moment": pd.factorize(self.moments)[0]})

    @property
    def are_several(self) -> bool:
        """True if many rows are not the first one of their site and day."""
        return bool(self.keys().duplicated(["site", "day"]).mean() > _PARTS)

    def are_regular(self, counts: Any) -> bool:
        """True if each site has one row per instant of a grid of few times per day, except for rows
        that repeat the count of their instant."""
        keys = self.keys().assign(count=np.asarray(counts))
        if keys["moment"].nunique() == keys["day"].nunique():
            return False
        moments = pd.Series(pd.Series(self.moments).unique()).astype("str")
        some = moments.iloc[:: max(1, len(moments) // _LOOKED_AT)]
        if some.str.extract(_CLOCK)[0].nunique() > _GRID:
            return False
        instants = keys.drop_duplicates(["site", "moment", "count"])
        clocks = moments.str.extract(_CLOCK)[0]
        possible = len(keys.drop_duplicates(["site", "day"])) * clocks.nunique()
        is_one_each = instants.duplicated(["site", "moment"]).mean() < 1 - _NEARLY_ALL
        return bool(is_one_each and clocks.nunique() <= _GRID and len(instants) > _DENSE * possible)


def choose(by_name: Mapping[str, Column], names: Sequence[str], rows: SiteRows) -> Count:
    """Choose the count among the numeric columns `names`."""
    several = rows.are_several
    is_grid = several and rows.are_regular(np.zeros(len(rows.days)))
    usable = [name for name in names if _why_not(by_name[name], rows, several and not is_grid) is None]
    counts = [name for name in usable if not columns.is_money(by_name[name], by_name, orders=bool(rows.orders))]
    totals = [identity.total for identity in _identities(by_name, counts) if identity.total]
    if not several or (is_grid and not usable and hold_stock(names)):
        return _of_readings(by_name, usable, counts, totals, rows)
    return _of_parts_or_events(by_name, counts, totals, rows)


def hold_stock(names: Sequence[str]) -> bool:
    """True if a column's name denotes a level, such as free places, rather than a count."""
    return any(column_names.says(name, "stock") for name in names)


def _of_readings(
    by_name: Mapping[str, Column], usable: list[str], counts: list[str], totals: list[str], rows: SiteRows
) -> Count:
    """One row per site and day: the column whose name denotes a count, the total of others, or the
    only one."""
    pool = counts or usable
    if not pool:
        return Count(None, "")
    pool = [name for name in pool if not _is_running_total(by_name[name], rows)] or pool
    why = "" if counts else "; it looks like money: rosters need a count of orders"
    best = _certain(pool, totals)
    if best is not None:
        return Count(by_name[best], _reason(best, pool, totals) + why)
    ranked = [*column_names.best(pool, "demand")]
    ranked += [name for name in pool if name not in ranked]
    choices = tuple(Choice(name, _range(by_name[name])) for name in ranked)
    return Count(by_name[ranked[0]], why, Question("count", "which column is the count?", choices))


def _of_parts_or_events(by_name: Mapping[str, Column], counts: list[str], totals: list[str], rows: SiteRows) -> Count:
    """Several rows per site and day: counts of parts are summed, events are counted."""
    best = _certain(counts, totals)
    if best is not None and (_are_parts(by_name[best], by_name, rows) or best in totals or _is_quantity(best)):
        return Count(by_name[best], _reason(best, counts, totals))
    likely = [name for name in counts if not rows.orders or column_names.says(name, "demand")]
    if not likely:
        money = [name for name in by_name if columns.is_money(by_name[name], by_name, orders=bool(rows.orders))]
        return Count(None, f"each row is one order: there is no column of counts{_amounts(money)}")
    ranked = [*column_names.best(likely, "demand")]
    ranked += [name for name in likely if name not in ranked]
    summed = [Choice(name, f"its sum; {_range(by_name[name])}") for name in ranked]
    row = Choice(ROW_COUNT, "each row is one order, booking or visit")
    is_event = bool(rows.orders) or (
        rows.part is None and not rows.are_regular(columns.numbers(by_name[ranked[0]], by_name))
    )
    choices = (row, *summed) if is_event else (*summed, row)
    return Count(
        None if is_event else by_name[ranked[0]],
        "",
        Question("count", "a site has several rows per day: count the rows, or sum a column?", choices),
    )


def _are_parts(column: Column, by_name: Mapping[str, Column], rows: SiteRows) -> bool:
    """True if the rows of a site and day are its parts, such as channels or hours."""
    return rows.part is not None or rows.are_regular(columns.numbers(column, by_name))


def _certain(pool: list[str], totals: list[str]) -> str | None:
    """Column that certainly is the count: the only one, the total of others, or the only one with a
    fitting name."""
    if len(pool) == 1:
        return pool[0]
    if len(totals) == 1 and totals[0] in pool:
        return totals[0]
    exact = [name for name in pool if column_names.rank(name, "demand") < column_names.INEXACT]
    if len(exact) == 1:
        return exact[0]
    best_names = column_names.best(pool, "demand")
    return best_names[0] if len(best_names) == 1 and not exact else None


def _reason(name: str, pool: list[str], totals: list[str]) -> str:
    if name in totals:
        return "the sum of other columns"
    other_names = [other for other in pool if other != name]
    remark = (
        f"; {listed(other_names)} also contain{'s' if len(other_names) == 1 else ''} numbers" if other_names else ""
    )
    return f"by its name{remark}" if column_names.says(name, "demand") else "the only column of counts"


def _why_not(column: Column, rows: SiteRows, several: bool) -> str | None:
    """Reason why a column of numbers is no count; None if it may be one."""
    name = column.name
    if column_names.is_id(name) or name in rows.orders:
        return "it numbers things"
    if column_names.says(name, "calendar") or any(_is_measure(name, role) for role in _MEASURES):
        return "by its name"
    values = column.numbers(column.marks).dropna()
    runs = values.is_unique and (values.diff().dropna() == 1).mean() > _NEARLY_ALL
    if columns.numbers_rows(column, several) or runs:
        return "it numbers rows"
    if not len(values) or (values < 0).mean() > 0.5:
        return "it has no counts"
    if len(column.distinct) <= 2 and not _is_exact(name):
        return "it has two values at most"
    if several and (values == 0).mean() > _MOSTLY and not _is_exact(name):
        return "it is nearly always 0"
    if several and (values % 1 != 0).mean() > 0.5 and not _is_exact(name):
        return "it is a property of each row, with fractions"
    is_share = ((values >= 0) & (values <= 1)).all() and (values % 1 != 0).any()
    return "it is a share" if is_share else None


def _is_running_total(column: Column, rows: SiteRows) -> bool:
    """True for numbers that only rise from day to day at each site, such as sums since a first day."""
    table = rows.keys().assign(value=column.numbers(column.marks).to_numpy(), day=rows.days.to_numpy())
    steps = table.sort_values(["site", "day"], kind="stable").groupby("site")["value"].diff().dropna()
    return len(steps) > _SOME and bool((steps >= 0).mean() > _NEARLY_ALL and (steps > 0).mean() > _OFTEN)


def _is_measure(name: str, role: column_names.Role) -> bool:
    """True if a name denotes a measure better than a count."""
    return column_names.rank(name, role) < column_names.rank(name, "demand")


def _is_exact(name: str) -> bool:
    return column_names.rank(name, "demand") < column_names.INEXACT


def _is_quantity(name: str) -> bool:
    return any(word in column_names.normalized(name).split("_") for word in column_names.WORDS["quantity"].split())


def _identities(by_name: Mapping[str, Column], names: Sequence[str]) -> tuple[Identity, ...]:
    return identities({name: columns.numbers(by_name[name], by_name).to_numpy(float) for name in names})


def _range(column: Column) -> str:
    values = column.numbers(column.marks).dropna()
    return f"{values.min():g} to {values.max():g}, median {values.median():g}"


def _amounts(money: list[str]) -> str:
    return f"; {listed(money)} {'is' if len(money) == 1 else 'are'} money" if money else ""
