"""Columns of counts without a column of sites: one series, one column per site, or partitions of
one total."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from forecaster.errors import SpecError
from forecaster.onboarding import column_names, columns
from forecaster.onboarding.columns import Column, listed
from forecaster.onboarding.description import counts
from forecaster.onboarding.description.identities import Identity, identities
from forecaster.onboarding.description.questions import Choice, Question

_ALIKE = 0.3  # correlation of the steps from row to row; without a common week it is about 0.1
_HOUR = re.compile(
    r"(h|hour|hr|std|stunde|heure|ora|hora)[ _]?[0-2]?[0-9]|[0-2]?[0-9][:h][0-5][0-9].*|[0-2]?[0-9]\.[0-5][0-9]"
    r"|[0-2]?[0-9] ?(am|pm|uhr|h)",
    re.IGNORECASE,
)
_FEW_TIMES = 6  # minimum number of columns of hours or weekdays in such a table
_NO_SITE: tuple[column_names.Role, ...] = ("total", "calendar", "other")
_CALENDAR = ("day_of_week", "day", "month", "quarter", "year")


@dataclass(frozen=True)
class CountColumns:
    """Columns that count, one per site or one for all; and the other columns, with a reason each."""

    names: tuple[str, ...]
    evidence: str
    are_sites: bool
    others: Mapping[str, str] = field(default_factory=dict)
    question: Question | None = None


def choose(by_name: Mapping[str, Column], names: Sequence[str], rows: counts.SiteRows) -> CountColumns | None:
    """Columns of counts of a table without a column of sites; None if rows are events."""
    numbers = {name: columns.numbers(by_name[name], by_name).to_numpy(float) for name in names}
    plain, reasons = _without_other_measures(by_name, names, numbers, rows)
    relations = identities({name: numbers[name] for name in names if name in plain or _is_total(name)})
    totals = {relation.total: relation for relation in relations if relation.total}
    for name in totals:
        reasons[name] = "the sum of the others"
    parts = [name for name in plain if name not in totals]
    if partition := next((relation for relation in relations if _splits(relation, parts)), None):
        return _of_partitions(partition, totals, reasons)
    if len(parts) < 2:
        return _single(by_name, plain or names, rows, reasons)
    if _are_measures(by_name, parts, numbers):
        return _single(by_name, [*totals, *parts], rows, reasons)
    why = "one column per depot"
    if question := _whether_sites(parts, [*totals]):
        return CountColumns(tuple(parts), why, True, reasons, question)
    return CountColumns(tuple(parts), why, True, reasons)


def _of_partitions(partition: Identity, totals: Mapping[str, Identity], reasons: dict[str, str]) -> CountColumns:
    """Two groups of columns with one sum: their total if a column holds it, else one of the groups."""
    both = f"{_plus(partition.left)} equals {_plus(partition.right)} in every row: only one of the two counts"
    if totals:
        total = next(iter(totals))
        other_reasons = dict.fromkeys((*partition.left, *partition.right), "part of the total")
        other_reasons |= {name: why for name, why in reasons.items() if name != total}
        return CountColumns((total,), f"the total; {both}", False, other_reasons)
    choices = tuple(Choice(",".join(group), "one column per site") for group in (partition.left, partition.right))
    question = Question("count", both, choices)
    other_reasons = dict.fromkeys(partition.right, "the other partition") | reasons
    return CountColumns(partition.left, both, True, other_reasons, question)


def _single(
    by_name: Mapping[str, Column], names: Sequence[str], rows: counts.SiteRows, reasons: Mapping[str, str]
) -> CountColumns | None:
    """One series, whose count is chosen as in a table of readings."""
    count = counts.choose(by_name, [*dict.fromkeys(names)], rows)
    if count.column is None:
        if count.question is None:
            return None
        return CountColumns((), count.evidence, False, reasons, count.question)
    other_reasons = dict.fromkeys(names, "not the count") | dict(reasons)
    other_reasons.pop(count.column.name, None)
    return CountColumns((count.column.name,), count.evidence, False, other_reasons, count.question)


def _without_other_measures(
    by_name: Mapping[str, Column], names: Sequence[str], numbers: Mapping[str, Any], rows: counts.SiteRows
) -> tuple[list[str], dict[str, str]]:
    """Columns that may be the count of a site, and the reasons against the others.

    A name such as `Nr 2`, `NO` or `Total Wine` is a site if its counts are correlated with the
    others. Other correlated columns, such as forecasts or costs, are recognized only by name, and
    totals as the sum of the others.
    """
    plain = [name for name in names if not is_doubtful(name)]
    reasons = {name: "by its name" for name in names if name not in plain}
    if len(plain) == 1 and column_names.says(plain[0], "demand"):
        return plain, reasons
    order = np.argsort(rows.days.to_numpy(), kind="stable")
    days = rows.days.iloc[order].reset_index(drop=True)
    pool = [*plain, *(name for name in reasons if _counts_something(by_name[name], numbers[name][order], days))]
    for name in [name for name in pool if name not in plain]:
        rest = [numbers[other] for other in pool if other != name]
        other_sum = np.nansum(rest, axis=0) if rest else np.zeros(len(order))
        if _may_be_site(name, numbers[name][order], other_sum[order]):
            plain.append(name)
            del reasons[name]
    return [name for name in names if name in plain], reasons


def is_doubtful(name: str) -> bool:
    """True if a column's name denotes something other than a depot."""
    return any(column_names.says(name, role) for role in _NO_SITE)


def _counts_something(column: Column, values: Any, days: Any) -> bool:
    """True for counts in a column whose name denotes something other than a site."""
    name = column.name
    if column_names.says(name, "measure") or column_names.rank(name, "total") < column_names.INEXACT:
        return False
    return columns.is_of_counts(column) and not column.is_flag and not _is_of_the_calendar(values, days)


def _may_be_site(name: str, values: Any, other_counts: Any) -> bool:
    is_large = column_names.says(name, "total") and np.nanmean(values) > 0.7 * np.nanmean(other_counts)
    return _moves_with(values, other_counts) and not is_large


def _are_measures(by_name: Mapping[str, Column], names: Sequence[str], numbers: Mapping[str, Any]) -> bool:
    """True if columns have different units: fractions next to integers, units among the names, or
    counts of different things."""
    fractions = {name for name in names if np.nanmean(numbers[name] % 1 != 0) > 0.2}
    if fractions and len(fractions) < len(names):
        return True
    if any(column_names.says(name, role) for name in names for role in ("property", "stock", "money")):
        return True
    counting = [name for name in names if column_names.rank(name, "demand") < column_names.INEXACT]
    return bool(counting)


def _whether_sites(parts: Sequence[str], totals: Sequence[str]) -> Question | None:
    """Question whether columns are sites, if their names denote kinds of things."""
    things = [name for name in parts if _says_thing(name)]
    if not things:
        return None
    sites = Choice(",".join(parts), "one column per site")
    total_choices = [Choice(name, "one site: the sum of the others") for name in totals]
    single = [] if total_choices else [Choice(name, "one site: this column alone") for name in parts[:3]]
    choices = (*total_choices, sites) if total_choices else (sites, *single)
    return Question("count", f"are the columns sites, or counts of one site: {listed(list(parts))}?", choices)


def _says_thing(name: str) -> bool:
    """True if a name denotes what is counted rather than where: people, vehicles, an age group."""
    if re.fullmatch(r"[<>≤≥] ?[0-9]+|[0-9]+ ?[-–+] ?[0-9]*", name.strip()):
        return True
    return any(column_names.holds_word(name, role) for role in ("thing", "demand", "quantity"))


def refuse_times(names: Sequence[str], path: object) -> None:
    """Raise SpecError if columns are hours of a day or days of a week."""
    hours = [name for name in names if _HOUR.fullmatch(name.strip())]
    hours = hours or [name for name in names if {*map(str, range(24))} <= {*names} and name.isdigit()]
    weekdays = [name for name in names if column_names.is_word(name, "weekdays")]
    kind, those = ("hours", hours) if len(hours) >= _FEW_TIMES else ("weekdays", weekdays)
    if len(those) >= _FEW_TIMES:
        raise SpecError(
            f"{path}: found columns {listed(those)} that seem to be {kind}; wanted one row for each of the {kind}, or "
            "one column with the daily count"
        )


def _splits(relation: Identity, parts: Sequence[str]) -> bool:
    return relation.total is None and {*relation.left, *relation.right} <= {*parts}


def _is_total(name: str) -> bool:
    return column_names.says(name, "total")


def _plus(names: Sequence[str]) -> str:
    return " + ".join(names)


def _moves_with(values: Any, other_values: Any) -> bool:
    steps, other_steps = np.diff(values), np.diff(other_values)
    is_known = np.isfinite(steps) & np.isfinite(other_steps)
    if is_known.sum() < 2 or not steps[is_known].std() or not other_steps[is_known].std():
        return False
    return bool(np.corrcoef(steps[is_known], other_steps[is_known])[0, 1] > _ALIKE)


def _is_of_the_calendar(values: Any, days: Any) -> bool:
    """True if the value is determined by the weekday, the week or another part of the date."""
    parts = [getattr(days.dt, part) for part in _CALENDAR] + [days.dt.isocalendar().week]
    several = [part for part in parts if 1 < part.nunique() <= len(part) / 1.5]
    return any(bool((pd.Series(values).groupby(part.to_numpy()).nunique() <= 1).all()) for part in several)
