"""Summary of a table's interpretation: one paragraph, and the first days as they would be counted."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import pandas as pd

from forecaster.core.terminal import count
from forecaster.onboarding.columns import listed
from forecaster.onboarding.description.questions import written
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.facts import Facts

_SITES = 6  # sites named
_FIRST_DAYS = 3
_WIDTH = 100
_ONE = {
    "long": "one row per reading",
    "depots": "one column per depot",
    "days": "one column per day",
    "single": "one series",
}


def lines(description: Description, facts: Facts, not_used: list[str]) -> Iterator[str]:
    """Paragraph, then three days with their counts."""
    rows = description.rows[description.rows["demand"].notna() & description.rows["day"].notna()]
    days = rows["day"].dt.normalize()
    by_day = _one_a_version(description, rows).assign(day=days).groupby("day", observed=True)["demand"].sum()
    sites = sorted(str(name) for name in rows["depot"].unique() if name)
    site_names = f" ({listed(sites, _SITES)})" if sites else ""
    sentences = [
        f"{count(facts.depots, 'site')}{site_names}, {facts.first} to {facts.last}, about {by_day.median():,.0f} a day",
        _row(description),
        *(f"rows where {written(name, condition)}" for name, condition in description.where.items()),
        *([f"not used: {listed(not_used, _SITES)}"] if not_used else []),
    ]
    yield from textwrap.wrap(
        f"reads     {'; '.join(sentences)}.", _WIDTH, subsequent_indent=" " * 10, break_on_hyphens=False
    )
    first = _one_a_version(description, rows).assign(day=days)
    for day in sorted(days.unique())[:_FIRST_DAYS]:
        counts = first[first["day"] == day].groupby("depot", observed=True)["demand"].sum()
        entries = "  ".join(f"{name or 'count'} {value:,.10g}" for name, value in counts.head(_SITES).items())
        more = f"  and {len(counts) - _SITES} more" if len(counts) > _SITES else ""
        yield f"          {pd.Timestamp(day):%Y-%m-%d}  {entries}{more}"


def _row(description: Description) -> str:
    """Meaning of a row in words."""
    if description.aggregate == "count":
        return "each row counts as one"
    count_source = f"the count is '{description.demand_column}'" if description.demand_column else ""
    summed = ", summed over the rows of a day" if description.aggregate == "sum" else ""
    last = f", the last '{description.recorded_at}' of each day" if description.recorded_at else ""
    details = f"{count_source}{summed}{last}"
    return f"{_ONE[description.layout]}{'; ' if details else ''}{details}"


def _one_a_version(description: Description, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that count: of several per depot and day the last one, unless they are summed."""
    return rows if description.aggregate != "none" else rows.drop_duplicates(["depot", "day"], keep="last")
