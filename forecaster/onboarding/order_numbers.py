"""Which column numbers the orders of a file with a row an order, so that exports that overlap count each once."""

from __future__ import annotations

import pandas as pd

from forecaster.demand import parsing
from forecaster.onboarding import column_names, columns
from forecaster.onboarding.columns import Column
from forecaster.onboarding.layout import Readings
from forecaster.onboarding.tables import FileTable

_SOME_ROWS = 50  # tell whether each has a number of its own


def of(table: FileTable, readings: Readings) -> str | None:
    """A column that numbers orders by its name and whose values each stand once, but in rows that are the same in full;
    None where there is none. An order with several lines has none, since its number stands in each of them."""
    if readings.layout != "long" or readings.aggregate == "none":
        return None
    used = {readings.depot_column, readings.date_column, readings.demand_column}
    rows = table.frame.drop_duplicates()
    by_name = columns.of(table)
    candidates = [name for name in by_name if name not in used and column_names.is_order_number(name)]
    likely = [name for name in candidates if _is_one_a_row(Column(name, rows[name]))]
    return min(likely, key=lambda name: not column_names.is_id(name), default=None)


def _is_one_a_row(column: Column) -> bool:
    """Has each row one of its own, as text or a whole number?"""
    words = parsing.words(column.values)
    if len(words) < _SOME_ROWS or words.isna().any() or (words == "").any() or not words.is_unique:
        return False
    return column.dates is None and not pd.api.types.is_float_dtype(column.values)
