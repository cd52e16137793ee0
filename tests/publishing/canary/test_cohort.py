"""Depots that see a canary: chosen deterministically, from all cities and sizes, and never all."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecaster.core.panel import Panel
from forecaster.publishing.canary.cohort import cohort
from tests import panels


def fleet(depots: int) -> Panel:
    panel = panels.panel(depots)
    cities = tuple("Ulm" if row < depots // 2 else "Bonn" for row in range(depots))
    return replace(panel, attributes={**panel.attributes, "city": cities}, open=np.ones_like(panel.open))


def test_cohort_is_deterministic_and_differs_between_bundles() -> None:
    panel = fleet(40)
    assert cohort(panel, "b1", 0.1) == cohort(panel, "b1", 0.1)
    assert len({cohort(panel, f"b{number}", 0.1) for number in range(8)}) > 1


@pytest.mark.parametrize("digest", ["b1", "b2", "b3"])
def test_cohort_covers_each_city_and_both_sizes(digest: str) -> None:
    panel = fleet(40)
    chosen = cohort(panel, digest, 0.1)
    rows = [row for row, depot in enumerate(panel.depot_ids) if depot in chosen]
    assert len(rows) == 4
    assert sum(row < 20 for row in rows) == 2
    sizes = np.nansum(panel.demand[:, -28:], axis=1)
    for city in (range(20), range(20, 40)):
        middle = np.median(sizes[list(city)])
        assert sorted(sizes[row] > middle for row in rows if row in city) == [False, True]


@pytest.mark.parametrize(("depots", "share", "seen"), [(1, 0.1, 0), (2, 0.5, 1), (3, 0.01, 1), (6, 0.5, 3)])
def test_cohort_has_at_least_one_depot_and_never_all(depots: int, share: float, seen: int) -> None:
    assert len(cohort(fleet(depots), "b1", share)) == seen


def test_permanently_closed_depots_are_excluded() -> None:
    panel = fleet(4)
    open_ = panel.open.copy()
    open_[:3] = False
    open_[0] = True
    assert cohort(replace(panel, open=open_), "b1", 0.5) <= {panel.depot_ids[0], panel.depot_ids[3]}
