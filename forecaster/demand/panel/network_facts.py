"""Global statistics of a network: facts about all depots that the panel of some depots needs to be
a part of the whole panel.

Each fact is combined from groups of depots: earliest and latest days, and sums of counts, which do
not depend on the grouping.
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
"""Country and subdivision, "" if unknown."""


@dataclass(frozen=True)
class NetworkFacts:
    """Facts about all depots of a network, as far as known yet."""

    # first day that is not over for at least half of them, as a number since 1970
    half_over: int
    has_depot_table: bool
    first_day: int | None = None  # the history's ends, as numbers since 1970
    last_day: int | None = None
    # by city, (2, history): numbers of settled depots and of closed ones
    habits: Mapping[str, Counts] = field(default_factory=dict)
    has_feed: Bools | None = None  # (history,) days on which most open depots were counted
    pairs: Pairs | None = None  # of all homes, in order
    peers: cold_start.Peers | None = None  # for the cold start of young depots


def summed(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Sums by name, over all names that occur."""
    sums: dict[str, Any] = {}
    for part in parts:
        for name, counts in part.items():
            sums[name] = sums[name] + counts if name in sums else counts
    return sums
