"""The bound of a depot's quantiles, calculated by hand."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from forecaster.model.network import support
from forecaster.model.network.features import Window
from tests.panels import NAN

DAYS, HORIZON = 40, 9


def counts_at_most(demand: NDArray[np.float32], covariate: NDArray[np.float32] | None = None) -> NDArray[np.float64]:
    """Return the largest counts (depots, horizon) of the quantiles, for depots that are always
    open."""
    depots = len(demand)
    covariates = np.zeros((depots, DAYS + HORIZON, 0 if covariate is None else 1), np.float32)
    if covariate is not None:
        covariates[..., 0] = covariate
    blank = np.zeros((depots, DAYS + HORIZON, 1), np.float32), np.zeros((depots, 0), np.int32)
    window = Window(demand, np.ones((depots, DAYS + HORIZON), np.float32), covariates, *blank)  # type: ignore[arg-type]
    return np.expm1(np.asarray(support.bound(window, HORIZON), float))


def test_it_is_twice_the_maximum_of_known_days_plus_one_for_each_further_week() -> None:
    demand = np.tile(np.float32([[0], [9]]), (1, DAYS))
    demand[1, [3, 4]] = 99, NAN
    reach = counts_at_most(demand)
    np.testing.assert_allclose(reach[:, 0], [2 * 1 - 1, 2 * 100 - 1], rtol=1e-4)
    np.testing.assert_allclose(reach[:, 7:], [[3 - 1] * 2, [3 * 100 - 1] * 2], rtol=1e-4)


def test_less_than_four_known_weeks_set_no_bound() -> None:
    demand = np.full((2, DAYS), 9, np.float32)
    demand[0, :-28] = demand[1, :-27] = NAN
    reach = counts_at_most(demand)
    np.testing.assert_allclose(reach[0, 0], 19, rtol=1e-4)
    assert (reach[1] > 1e8).all()


def test_an_event_new_to_a_depot_may_exceed_the_bound() -> None:
    demand, event = np.full((3, DAYS), 9, np.float32), np.zeros((3, DAYS + HORIZON), np.float32)
    event[:2, DAYS + 1] = 1
    event[1, [5, 6]] = 1  # this one had it, on two days
    demand[1, 5] = NAN
    event[2, :DAYS] = 1  # and this one was never without it
    reach = counts_at_most(demand, event)
    beyond = 20 * np.exp(support.MOST_UNSEEN) - 1
    np.testing.assert_allclose(reach[0, :3], [19, beyond, 19], rtol=1e-4)
    np.testing.assert_allclose(reach[1, :3], [19, 19, 19], rtol=1e-4)
    np.testing.assert_allclose(reach[2, :3], [beyond] * 3, rtol=1e-4)
