"""Which columns of a wide table count for a depot: by what they hold, where their names say
something else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from forecaster.onboarding import column_names, columns
from forecaster.onboarding.columns import Column

_NEARLY_ALL = 0.95  # of the rows in which a column is the sum of the others
_ALIKE = 0.3  # correlation of the steps from row to row; without a common week it is about a tenth
_LARGE = 0.7  # of the others together
_NO_DEPOT: tuple[column_names.Role, ...] = ("total", "calendar", "other")
_CALENDAR = ("day_of_week", "day", "month", "quarter", "year")


def depots_among(names: Sequence[str], by_name: dict[str, Column], days: Any) -> tuple[list[str], dict[str, str]]:
    """Of a wide table's columns of numbers those that count for a depot, and of each other one why
    it does not.

    A name such as `Nr 2`, `NO` or `Total Wine` is a depot's where its counts rise and fall with
    those of the others. What rises and falls with them and is none, as a forecast or a cost may, is
    known by its name alone, and a total by being as large as the others together.
    """
    order = np.argsort(days.to_numpy(), kind="stable")
    days = days.iloc[order].reset_index(drop=True)
    numbers = {name: by_name[name].numbers(columns.marks(by_name[name], by_name)).to_numpy()[order] for name in names}
    plain = [name for name in names if not is_doubtful(name)]
    reasons = {name: "by its name" for name in names if name not in plain}
    # one series, and what is known next to it
    if len(plain) == 1 and column_names.says(plain[0], "demand"):
        return plain, reasons
    doubtful = [
        name
        for name in reasons
        if not column_names.says(name, "measure")
        and column_names.rank(name, "total") >= column_names.INEXACT
        and columns.is_of_counts(by_name[name])
        and not by_name[name].is_flag
        and not _is_of_the_calendar(numbers[name], days)
    ]
    others = {name: _sum_of([*plain, *doubtful], numbers, but=name) for name in doubtful}
    depots = {*plain, *(name for name in doubtful if _moves_with(numbers[name], others[name]))}
    depots -= {name for name in doubtful if column_names.says(name, "total") and _is_large(numbers[name], others[name])}
    for name in [name for name in names if column_names.says(name, "total")]:
        if _is_sum(numbers[name], _sum_of(sorted(depots), numbers, but=name)):
            reasons[name] = "the sum of the others"
            depots -= {name}
    return [name for name in names if name in depots], {n: why for n, why in reasons.items() if n not in depots}


def is_doubtful(name: str) -> bool:
    """Does a column's name say something else than a depot's?"""
    return any(column_names.says(name, role) for role in _NO_DEPOT)


def _sum_of(names: Sequence[str], numbers: dict[str, Any], but: str) -> Any:
    chosen = [numbers[name] for name in names if name != but]
    return np.nansum(chosen, axis=0) if chosen else np.zeros(len(numbers[but]))


def _is_sum(total: Any, others: Any) -> bool:
    known = np.isfinite(total)
    return bool(known.any() and np.isclose(total[known], others[known], atol=0.5).mean() >= _NEARLY_ALL)


def _is_large(total: Any, others: Any) -> bool:
    """Is it nearly as much as all others together, so that it may be their sum, or that of some the
    file has not?"""
    return bool(np.nanmean(total) > _LARGE * np.nanmean(others))


def _moves_with(counts: Any, others: Any) -> bool:
    steps, beside = np.diff(counts), np.diff(others)
    known = np.isfinite(steps) & np.isfinite(beside)
    if known.sum() < 2 or not steps[known].std() or not beside[known].std():
        return False
    return bool(np.corrcoef(steps[known], beside[known])[0, 1] > _ALIKE)


def _is_of_the_calendar(values: Any, days: Any) -> bool:
    """Does the weekday, the week or another part of the day's date say the value?"""
    parts = [getattr(days.dt, part) for part in _CALENDAR] + [days.dt.isocalendar().week]
    several = [part for part in parts if 1 < part.nunique() <= len(part) / 1.5]
    return any(bool((pd.Series(values).groupby(part.to_numpy()).nunique() <= 1).all()) for part in several)
