"""Text forms of days: those that are tried, and the likeliest of several that fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from forecaster.demand.parsing import day_numbers

_DAYS = (
    "%d/%m/%Y",
    "%m/%d/%Y",
    "%Y-%m-%d",
    "%Y-%d-%m",
    "%Y/%m/%d",
    "%Y%m%d",
    "%d/%m/%y",
    "%m/%d/%y",
    "%y/%m/%d",
    "%d/%b/%Y",
    "%d/%b/%y",
    "%d %b %Y",
    "%d %B %Y",
    "%b %d, %Y",
    "%B %d, %Y",
    "%G-W%V-%u",
)
_SEPARATORS = ("/", ".", "-")
_TIMES = ("", " %H:%M", " %H:%M:%S", "T%H:%M:%S", " %I:%M %p", " %I:%M:%S %p")
Days = Any  # a pandas Series


def day_forms() -> Iterator[str]:
    """All forms, the common ones first."""
    for time in _TIMES:
        for form in _DAYS:
            for separator in _SEPARATORS if "/" in form else ("/",):
                yield form.replace("/", separator) + time


def likeliest(read: Mapping[str, Days]) -> list[str]:
    """Forms, each with the days that it reads from the same text, the likeliest first.

    The likeliest form has the most consecutive days, or else the smallest gaps; among equals, the
    first. A form that reads as the day what the likeliest reads as a two-digit year is listed only
    if it is equally likely: it reads most of the same texts, as days that are years apart.
    """
    spread = {form: _spread(days) for form, days in read.items()}
    ranked = sorted(read, key=spread.__getitem__)
    return [form for form in ranked if spread[form] == spread[ranked[0]] or not _moves_year(form, ranked[0])]


def _spread(days: Days) -> tuple[float, float]:
    """Share of days that do not follow another day, and the median gap."""
    gaps = np.diff(np.unique(day_numbers(days.dropna().to_numpy())))
    return (float((gaps != 1).mean()), float(np.median(gaps))) if len(gaps) else (1.0, 0.0)


def _moves_year(form: str, other: str) -> bool:
    return form.startswith("%y") != other.startswith("%y")
