"""Capped days as declared in the pipeline file: by a flag, a time of selling out, or a capacity."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from forecaster.config import Spec
from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.core.imputation.censoring import CappedCounts
from forecaster.core.knowledge import Knowledge
from forecaster.demand.panel.capped.remainders import share_by_then
from forecaster.demand.panel.grid import Cells


def declares_limits(spec: Spec) -> bool:
    """True if the pipeline file declares days on which a count is a lower bound of demand."""
    return bool(spec.demand.columns.limits or spec.depot_capacity)


def capped_counts(
    counts: Floats, knowledge: Knowledge, at: Cells, attributes: Mapping[str, tuple[str, ...]], spec: Spec
) -> CappedCounts | None:
    """Counts (depots, days of the history) with the days on which they are lower bounds of demand;
    None if nothing is declared or no limit was reached.

    The known readings lie at the cells `at`; `attributes` are words per depot, "" if unknown.
    """
    if not declares_limits(spec):
        return None
    history, columns, demand = at.grid.history, spec.demand.columns, knowledge.demand

    def of(name: str | None) -> Floats:
        values = demand[name].to_numpy(np.float32, na_value=np.nan) if name in demand else np.float32(np.nan)
        return at.spread(np.broadcast_to(values, len(demand)), np.nan)[:, :history]

    sold_out_at = of(columns.sold_out_at)
    is_capped: Bools = (of(columns.capped) == 1) | np.isfinite(sold_out_at)
    is_capped |= counts >= of(columns.capacity)
    is_capped |= counts >= _capacities(attributes, spec, len(counts))[:, None]
    is_capped &= np.isfinite(counts)
    if not is_capped.any():
        return None
    if knowledge.half_hours is None:
        return CappedCounts(counts, is_capped)
    share = share_by_then(knowledge.half_hours, sold_out_at, at.grid, spec.demand.first_half_hour)
    return CappedCounts(counts, is_capped, (counts / share).astype(np.float32))


def _capacities(attributes: Mapping[str, tuple[str, ...]], spec: Spec, depots: int) -> Doubles:
    """Own capacity of the depots, (depots,); NaN without one."""
    texts = attributes.get(spec.depot_capacity or "", ("",) * depots)
    return np.array([float(word) if word else np.nan for word in texts])
