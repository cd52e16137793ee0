"""Which column numbers the orders of a file with a row an order, so that exports that overlap count each once."""

from __future__ import annotations

import numpy as np
import pandas as pd

from forecaster.demand import parsing
from forecaster.onboarding import column_names, columns
from forecaster.onboarding.columns import Column
from forecaster.onboarding.layout import Readings
from forecaster.onboarding.tables import FileTable

_SOME_ROWS = 50  # tell whether each has a number of its own
_ROW_NUMBERS = ("index", "row", "rows", "zeile", "unnamed_0", "")


def of(table: FileTable, readings: Readings) -> str | None:
    """A column whose values each stand once, but in rows that are the same in full; None where there is none.

    The numbers of the file's own rows are none: the next export begins again.
    """
    if readings.layout != "long" or readings.aggregate == "none":
        return None
    used = {readings.depot_column, readings.date_column, readings.demand_column}
    rows = table.frame.drop_duplicates()
    named = [name for name in rows if name not in used and column_names.normalized(name) not in _ROW_NUMBERS]
    by_name = columns.of(table)
    candidates = [name for name in named if name in by_name and _numbers_orders(Column(name, rows[name]))]
    return min(candidates, key=lambda name: not column_names.is_id(name), default=None)


def _numbers_orders(column: Column) -> bool:
    """Has each row one of its own, which neither measures anything nor counts the rows from 0 or 1 on?"""
    words = parsing.words(column.values)
    if len(words) < _SOME_ROWS or words.isna().any() or (words == "").any() or not words.is_unique:
        return False
    if column.dates is not None or pd.api.types.is_float_dtype(column.values):
        return False
    if not column.are_numbers:
        return True
    numbers = np.asarray(pd.to_numeric(words, errors="coerce"), float)
    begins = np.isfinite(numbers).all() and numbers[0] <= 1 and (np.diff(numbers) == 1).all()
    return bool(np.isfinite(numbers).all() and not begins)
