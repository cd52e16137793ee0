"""Global statistics of a network: what a panel of some depots has to know of all, to be a part of
everybody's panel.

Each fact is put together of what groups of depots say for themselves: earliest and latest days, and
sums of counts, which are the same in whatever groups they are taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools
from forecaster.core.imputation import cold_start

Counts = NDArray[np.int64]
Pairs = tuple[tuple[str, str], ...]
"""Country and subdivision, "" where not known."""


@dataclass(frozen=True)
class NetworkFacts:
    """Of all depots of a network, as far as they are known yet."""

    # the first day that is not over for half of them at least, as a number since 1970
    half_over: int
    has_depot_table: bool
    first_day: int | None = None  # the history's ends, as numbers since 1970
    last_day: int | None = None
    # by city, (2, history): settled depots; closed ones
    habits: Mapping[str, Counts] = field(default_factory=dict)
    has_feed: Bools | None = None  # (history,) days of which most open depots were counted
    pairs: Pairs | None = None  # of all homes, in order
    peers: cold_start.Peers | None = None  # that young depots go by


def summed(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums by name, of whatever names there are."""
    sums: dict[str, Any] = {}
    for part in parts:
        for name, counts in part.items():
            sums[name] = sums[name] + counts if name in sums else counts
    return sums
