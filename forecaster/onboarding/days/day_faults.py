"""Reason why no column of a file holds days: the likeliest column, its first value, and its
problem."""

from __future__ import annotations

from typing import Any

import pandas as pd

from forecaster.demand import sources
from forecaster.demand.validation import notation_hints
from forecaster.onboarding import column_names, notation
from forecaster.onboarding.days import day_counts
from forecaster.onboarding.tables import FileTable

_WHOLE = "write all dates as in 2024-03-05"


def hint(table: FileTable) -> str:
    """End of a sentence that reports missing days; empty if no column is similar."""
    if numbered := sources.numbered_days(table.columns):
        return numbered
    names = pd.Series([*table.columns], dtype="str")
    if 2 * names.map(_is_unread).sum() > len(names):
        name = names[names.map(_is_unread)].iloc[0]
        return f"; columns such as '{name}' may be days: {notation_hints.unread_days(pd.Series([name], dtype='str'))}"
    texts = {name: notation.distinct(table.frame[name]) for name in table.frame}
    texts = {name: values for name, values in texts.items() if len(values)}
    wrong = {name: fault for name, values in texts.items() if (fault := _reason(values))}
    near = column_names.best([*wrong], "date") or [*wrong] or column_names.best([*texts], "date")
    if not near:
        return ""
    reason = f": {wrong[near[0]]}" if near[0] in wrong else ""
    first = _first(table, near[0], texts[near[0]])
    return f"; column '{near[0]}' may be the date column, with values such as {first}{reason}"


def _is_unread(name: str) -> bool:
    return bool(notation_hints.unread_days(pd.Series([name], dtype="str")))


def _reason(values: Any) -> str:
    """Problem with days; empty if the values are no days."""
    if parts := notation.two_forms(values):
        first, second = (f"'{part.iloc[0]}' ({len(part) / len(values):.0%})" for part in parts)
        return f"they have two formats, {first} and {second}, so a program may have swapped day and month: {_WHOLE}"
    if len(buddhist := notation.of_buddhist_era(values)):
        return f"'{buddhist.iloc[0]}' looks like a date of the Buddhist calendar, whose years are 543 ahead: {_WHOLE}"
    if era := notation_hints.other_era(values):
        return f"wanted {era}"
    if form := day_counts.form_of(values):
        return f"they look like dates stored as numbers ('{form}'): convert them to dates"
    return "" if _are_decimals(values) else notation_hints.unread_days(values)


def _are_decimals(values: Any) -> bool:
    """True for decimals such as 10.52, whose parts cannot be a day or a month."""
    parts = values.str.extract(r"^([0-9]+)[.,]([0-9]+)$").astype("float64")
    return bool((parts > 31).any(axis=None))


def _first(table: FileTable, name: str, values: Any) -> str:
    """First value of a column and its line, which a Parquet file does not have."""
    header = [cell.strip() for cell in table.cells.rows[table.header_row - 1]]
    place = header.index(name)
    rows = table.cells.rows[table.header_row :]
    for line, row in enumerate(rows, start=table.header_row + 1):
        if place < len(row) and row[place]:
            return f"'{row[place]}' in line {line}"
    return f"'{values.iloc[0]}'"
