"""Rows that do not count: totals among parts or sites, other measures, plans, canceled events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from forecaster.demand import parsing
from forecaster.demand.arrangement import are_one_of
from forecaster.onboarding import column_names
from forecaster.onboarding.columns import Column
from forecaster.onboarding.description.identities import identities
from forecaster.onboarding.description.questions import Choice, Question, written
from forecaster.onboarding.description.sites import is_of_clock

_MOST_KINDS = 60  # values of a column of parts
_MOST_PARTS = 5_000  # for example products
_MOST_STATES = 15
_DENSE = 0.5  # share of the times of day with a row for each site and day, for readings
_FEW = 0.05


@dataclass(frozen=True)
class RowFilter:
    """Condition of `demand.where` with its evidence, and a question if that is not sufficient."""

    where: Mapping[str, Any] = field(default_factory=dict)
    evidence: tuple[str, ...] = ()
    question: Question | None = None


def merged(*filters: RowFilter) -> RowFilter:
    """Combine all filters."""
    where = {name: condition for row_filter in filters for name, condition in row_filter.where.items()}
    question = next((row_filter.question for row_filter in filters if row_filter.question), None)
    return RowFilter(where, tuple(sentence for row_filter in filters for sentence in row_filter.evidence), question)


def kinds(columns: Mapping[str, Column], used_names: tuple[str, ...]) -> RowFilter:
    """Filter for rows of one measure and of actuals, if a column names measures, or plan and
    actual; and for rows of events that took place."""
    filters: list[RowFilter] = []
    for name, column in columns.items():
        if name in used_names or column.dates is not None or (column.are_numbers and not _is_flag(name)):
            continue
        filters += filter(None, [_scenario(column), _metric(column), _states(column)])
    texts = [row_filter for row_filter in filters if not any(_is_flag(name) for name in row_filter.where)]
    states = [row_filter for row_filter in texts if any("not" in condition for condition in row_filter.where.values())]
    return merged(*(row_filter for row_filter in filters if row_filter in texts or not states))


def _scenario(column: Column) -> RowFilter | None:
    values = {column_names.normalized(value): value for value in column.distinct[:_MOST_STATES]}
    actual_values = [value for value in values.values() if column_names.is_word(value, "actual")]
    if not actual_values or not any(column_names.is_word(value, "planned") for value in values.values()):
        return None
    return RowFilter(
        {column.name: actual_values}, (f"rows with {written(column.name, {'not': actual_values})} are excluded",)
    )


def _metric(column: Column) -> RowFilter | None:
    """Filter for rows of one measure, if a column names measures."""
    if not column_names.says(column.name, "metric") or not 2 <= len(column.distinct) <= _MOST_STATES:
        return None
    values = list(column.distinct)
    counting = [value for value in values if column_names.rank(value, "demand") < column_names.INEXACT]
    counting = [value for value in counting if not column_names.says(value, "money")]
    ranked = [*counting, *(value for value in values if value not in counting)]
    question = None
    if len(counting) != 1:
        choices = tuple(Choice(f"{column.name}={value}", "rows of this measure") for value in ranked)
        question = Question("where", f"which measure of '{column.name}' counts?", choices)
    return RowFilter(
        {column.name: [ranked[0]]}, (f"rows with {written(column.name, {'not': ranked[:1]})} are excluded",), question
    )


def _states(column: Column) -> RowFilter | None:
    """Filter for rows of events that took place, if a column has states such as canceled or
    refunded."""
    if not 2 <= len(column.distinct) <= _MOST_STATES:
        return None
    if _is_flag(column.name):
        yes = [value for value in column.distinct if value.casefold() in ("1", "1.0", "yes", "true", "y", "ja", "t")]
        return (
            RowFilter({column.name: {"not": yes}}, (f"rows with {written(column.name, yes)} are excluded",))
            if yes
            else None
        )
    cancellations = [value for value in column.distinct if column_names.is_word(value, "cancelled")]
    if not cancellations or len(cancellations) == len(column.distinct):
        return None
    return RowFilter(
        {column.name: {"not": cancellations}}, (f"rows with {written(column.name, cancellations)} are excluded",)
    )


def _is_flag(name: str) -> bool:
    return column_names.is_word(name, "cancelled_flag")


def of_parts(part: Column, rows: Any) -> RowFilter:
    """Filter for rows of the parts of a site that count once; a question if the parts are versions,
    or one is named like a total but is none."""
    if question := _version_question(part):
        return RowFilter(question=question)
    result = totals(part, rows.assign(part=part.values))
    return result if result.where else RowFilter(question=_total_question(part))


def totals(column: Column, rows: Any) -> RowFilter:
    """Filter that excludes a part, or a site, that is the sum of others; `rows` has site, day,
    demand and, for a column of parts, part."""
    values = list(column.distinct)
    if not 3 <= len(values) <= _MOST_KINDS:
        return RowFilter()
    keys = [name for name in ("site", "moment") if name in rows]
    table = rows.assign(part=parsing.words(rows["part"])).pivot_table(
        index=keys, columns="part", values="demand", aggfunc="sum", observed=True
    )
    relations = identities({str(name): table[name].to_numpy(float) for name in table})
    sums = [relation.total for relation in relations if relation.total]
    if sums:
        return RowFilter(
            {column.name: {"not": sums}},
            (f"rows with {written(column.name, sums)} are excluded: the sum of the others",),
        )
    partition = next((relation for relation in relations if relation.total is None), None)
    if partition is None:
        return RowFilter()
    text = f"{' + '.join(partition.left)} equals {' + '.join(partition.right)} on every day: only one of the two counts"
    choices = tuple(
        Choice(f"{column.name}={','.join(group)}", "these rows") for group in (partition.left, partition.right)
    )
    return RowFilter({column.name: list(partition.left)}, (text,), Question("where", text, choices))


def mask(frame: Any, where: Mapping[str, Any]) -> Any:
    """Mark the rows that fulfill `where`."""
    is_match = pd.Series(True, index=frame.index)
    for name, condition in where.items():
        listed = condition["not"] if isinstance(condition, Mapping) else condition
        is_one = are_one_of(frame[name], [str(value) for value in listed])
        is_match &= ~is_one if isinstance(condition, Mapping) else is_one
    return is_match


def part_column(columns: Mapping[str, Column], keys: Any, used_names: tuple[str, ...]) -> str | None:
    """Column that distinguishes the rows of a site and day, such as channels, products or, if most
    have a row, times of day."""
    for name, column in columns.items():
        if name in used_names or column.dates is not None or not 2 <= column.values.nunique() <= _MOST_PARTS:
            continue
        if column.are_numbers and not _numbers_parts(column.name):
            continue
        part = pd.factorize(parsing.words(column.values))[0]
        parted = keys.assign(part=part).drop_duplicates(["site", "day", "part"])
        if len(parted) < (1 - _FEW) * len(keys):
            continue
        possible = len(keys.drop_duplicates(["site", "day"])) * column.values.nunique()
        if not is_of_clock(column) or len(parted) > _DENSE * possible:
            return name
    return None


def _numbers_parts(name: str) -> bool:
    """True if a numeric column may distinguish parts, such as hours or products."""
    says_part = any(column_names.says(name, role) for role in ("part", "calendar", "snapshot"))
    return (says_part or column_names.is_id(name)) and column_names.rank(name, "demand") >= column_names.INEXACT


def _version_question(column: Column) -> Question | None:
    """Question for the version of a fact that counts, if a column numbers versions."""
    if not column_names.says(column.name, "snapshot"):
        return None
    choices = tuple(Choice(f"{column.name}={value}", "rows of this version") for value in column.distinct[::-1][:5])
    return Question("where", f"rows of a site and day differ in '{column.name}': which version counts?", choices)


def _total_question(column: Column) -> Question | None:
    """Question whether rows of a part named like a total count in addition to the others."""
    total_values = [value for value in column.distinct if column_names.is_word(value, "total")]
    if not total_values or len(column.distinct) < 3:
        return None
    choices = (
        Choice(f"{column.name}!={','.join(total_values)}", "only the parts"),
        Choice(f"{column.name}={total_values[0]}", "only the total"),
        Choice(f"{column.name}={','.join(column.distinct[:20])}", "all rows, summed"),
    )
    return Question(
        "where", f"'{total_values[0]}' of '{column.name}' looks like a total by its name: which rows count?", choices
    )
