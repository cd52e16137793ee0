"""What is out of the usual on special days, by windows of which it is known."""

from __future__ import annotations

import numpy as np

from forecaster.model.network.features import LOOKBACK
from tests.model.network.test_features import BACK, features_of, window


def test_what_the_last_week_missed_is_told_without_what_a_holiday_did_again() -> None:
    demand = np.full((2, LOOKBACK), 9.0)
    demand[:, -3] = demand[1, -3 - 365] = 4.0  # near a holiday, of which the second depot knows from last year
    demand[:, -2] = 19.0
    calendar = np.zeros((2, LOOKBACK + 7, 6), np.float32)
    calendar[:, [-10, -10 - 365], BACK] = 365
    missed = np.asarray(features_of(window(demand, calendar=calendar)).missed)[:, 0]
    np.testing.assert_allclose(missed, [2 * np.log(2) / 7, np.log(2) / 7], rtol=0.03)
