"""Row hashes of order lines, which distinguish the rows of one depot and day, in eight bytes each.

`CONTENT` hashes the date as written, with its time of day, and the count; `ORDER` the value of
`demand.columns.order_id`, or NO_ORDER if the row has none.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.demand.parsing import words
from forecaster.demand.readings import CONTENT, ORDER

NO_ORDER = 0
_ODD = np.uint64(0x9E3779B97F4A7C15)  # spreads one hash before another is added
Column = Any  # a pandas Series


def row_keys(block: pd.DataFrame, counts: Column, spec: Spec) -> dict[str, NDArray[np.int64]]:
    """Hash columns of a source's rows, by name; none if each row is a depot-day."""
    if spec.demand.aggregate == "none":
        return {}
    columns = spec.demand.columns
    keys = {CONTENT: (_hashes(block[columns.day]) * _ODD + _hashes(counts.astype("float64"))).view(np.int64)}
    if columns.order_id:
        orders = words(block[columns.order_id])
        has_order = (orders.notna() & (orders != "")).to_numpy(bool)
        keys[ORDER] = np.where(has_order, _hashes(orders).view(np.int64), NO_ORDER)
    return keys


def _hashes(column: Column) -> NDArray[np.uint64]:
    return np.asarray(pd.util.hash_pandas_object(column, index=False), np.uint64)
