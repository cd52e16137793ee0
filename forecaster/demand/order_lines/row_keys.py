"""Row hashes of order lines: what tells two rows of one depot and day apart, in eight bytes each.

`CONTENT` is of the date as it is written, with its time of day, and of the count; `ORDER` of the
value of `demand.columns.order_id`, NO_ORDER where the row has none.
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
_ODD = np.uint64(0x9E3779B97F4A7C15)  # spreads one hash before another is put next to it
Column = Any  # a pandas Series


def row_keys(block: pd.DataFrame, counts: Column, spec: Spec) -> dict[str, NDArray[np.int64]]:
    """The columns of hashes of a source's rows by their names; none where each row is a depot's
    day."""
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
