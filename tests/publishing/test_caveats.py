"""Notes on depots that are counted twice."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from forecaster.core.panel import Panel
from forecaster.publishing import caveats
from tests.panels import bare

COUNTS = np.random.default_rng(7).integers(20, 90, size=(3, 60)).astype(np.float32)


def panel_of(demand: np.ndarray, *names: str) -> Panel:
    return replace(bare(demand), depot_ids=names)


def test_depot_that_is_the_sum_of_others_is_reported_to_readers() -> None:
    panel = panel_of(np.vstack([COUNTS, COUNTS.sum(axis=0)]), "P1", "P2", "P3", "All sites")
    assert caveats.totals_among_depots(panel) == [
        "Depot All sites is the sum of other depots, so totals of all depots count its orders more than once."
    ]


def test_depots_that_are_not_sums_are_not_reported() -> None:
    assert caveats.totals_among_depots(panel_of(COUNTS, "P1", "P2", "P3")) == []
