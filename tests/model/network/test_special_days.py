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


def test_a_counterpart_before_which_nothing_was_usual_says_nothing() -> None:
    """A station that was shut every other week a year ago, with a few counts on each such day: beside the mean of both
    an ordinary day looked special, and the same day of this year would be foretold at eight times the usual."""
    demand = np.full((2, LOOKBACK), 1999.0)
    counterpart, weekday = LOOKBACK + 2 - 364, (LOOKBACK + 2) % 7  # the same weekday a year back
    shut = np.arange(counterpart - 7 * 8, counterpart + 7 * 8, 7)
    demand[0, shut[shut != counterpart]] = 49.0
    demand[0, counterpart - 14] = 1999.0
    calendar = np.zeros((2, LOOKBACK + 7, 6), np.float32)
    calendar[:, LOOKBACK + 2, BACK] = 364
    anchor = np.asarray(features_of(window(demand, calendar=calendar)).anchor)[:, 0, 2]
    assert weekday == counterpart % 7
    np.testing.assert_allclose(anchor, np.log(2000), atol=0.02)
