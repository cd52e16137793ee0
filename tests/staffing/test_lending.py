"""Lending rule: no lender is shorter than a borrower would be without its last van."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.staffing import lending
from forecaster.staffing.lending import DepotVans


def depots(home: list[int], wanted: list[int], need: list[float]) -> DepotVans:
    return DepotVans(np.array(home, np.int32), np.array(wanted, np.int32), np.array(need))


def test_breaches_reports_a_lender_that_is_too_short() -> None:
    """The first owns 3, needs 3 and has 1, 0.33; the second owns 2, needs 5 and would have 0.6
    without its fourth."""
    day = depots([3, 2, 9], [3, 5, 9], [3, 5, 9])
    city = np.array([0, 0, 1], np.intp)
    assert lending.breaches(np.array([1, 4, 9], np.int32), day, city) == {0: (pytest.approx(1 / 3), 0.6)}
    assert lending.breaches(np.array([2, 3, 9], np.int32), day, city) == {}
    # a depot with all wanted vans may lend the rest
    assert lending.breaches(np.array([1, 4], np.int32), depots([3, 2], [1, 5], [3, 5]), city[:2]) == {}


def test_bounds_at_a_share_by_hand() -> None:
    """At a share of 0.5, the first, which owns 3 and needs 4, lends at most one and borrows while
    it has at most 2: from 2 to 3. The second owns nothing and needs 4: it borrows up to its third.
    The third owns 2 and wants 1, its maximum."""
    low, high = lending.bounds_by_share(depots([3, 0, 2], [4, 4, 1], [4, 4, 2]), (0.5, 0.5))
    assert (low.tolist(), high.tolist()) == ([[2, 0, 1]], [[3, 3, 1]])


def test_best_share_maximizes_the_remaining_claims() -> None:
    """Five vans, all at the first depot, and each claim of the second is worth more. It gets its
    third, since without it it has 2/4 and the first 2/4; the fourth would leave the first with 1/4."""
    day = depots([5, 0], [4, 4], [4, 4])
    depot, van = np.repeat([1, 0], 4), np.tile(np.arange(4, dtype=np.int32), 2)
    weights = np.repeat([2.0, 1.0], 4)[:, None]
    low, high = lending.best_bounds(day, 5, depot, van, weights)
    assert (low.tolist(), high.tolist()) == ([2, 0], [4, 3])
    assert lending.largest(np.array([[1.0, 5.0], [1.0, 6.0], [0.0, 9.0]])) == 1


def test_many_shares_are_sampled_evenly() -> None:
    day = depots([50] * 20, [100] * 20, list(np.linspace(80, 120, 20)))
    assert len(lending.bounds_by_share(day)[0]) == 256
    assert len(lending.bounds_by_share(day, tried=16)[0]) == 16
