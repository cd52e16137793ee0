"""Deviations from the usual on special days, in windows that contain them."""

from __future__ import annotations

import numpy as np

from forecaster.model.network.features import LOOKBACK
from forecaster.model.network.special_days import ALIKE, DOUBT
from tests.model.network.test_features import BACK, OFF, features_of, window


def test_errors_of_the_last_week_exclude_repeated_effects_of_a_holiday() -> None:
    demand = np.full((2, LOOKBACK), 9.0)
    demand[:, -3] = demand[1, -3 - 365] = 4.0  # near a holiday; the second depot knows it from last year
    demand[:, -2] = 19.0
    calendar = np.zeros((2, LOOKBACK + 7, 6), np.float32)
    calendar[:, [-10, -10 - 365], BACK] = 365
    missed = np.asarray(features_of(window(demand, calendar=calendar)).missed)[:, 0]
    np.testing.assert_allclose(missed, [2 * np.log(2) / 7, np.log(2) / 7], rtol=0.03)


def test_a_counterpart_without_a_usual_before_it_is_ignored() -> None:
    """A station that was shut every other week a year ago, with a few counts on each such day:
    compared with the mean of both, an ordinary day looked special, and this year's day would be
    forecast at eight times the usual."""
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


def rhythm() -> np.ndarray:
    """Return more than a year of 9 orders a day and 4 on every seventh, the weekday of the first
    day ahead."""
    demand = np.full((1, LOOKBACK), 9.0)
    demand[0, LOOKBACK % 7 :: 7] = 4.0
    return demand


def far(quiet: float, expected: float, allowed: float = 0.02) -> None:
    """Compare within the usual deviation, which is excluded from special effects."""
    assert abs(quiet - expected) < allowed, (quiet, expected)


def test_part_of_the_weekday_difference_of_two_days_off_disappears() -> None:
    demand, calendar = rhythm(), np.zeros((1, LOOKBACK + 7, 6), np.float32)
    day, back = LOOKBACK + 1, 365  # ahead a weekday of 9, a year ago the quiet one, which was as quiet as usual
    assert demand[0, day - back] == 4.0
    calendar[0, day, BACK] = back
    calm = features_of(window(demand, calendar=calendar)).anchor[0, 0]
    far(float(calm[1]), np.log(10))
    calendar[0, [day, day - back], OFF] = 1
    anchor = features_of(window(demand, calendar=calendar)).anchor[0, 0]
    far(float(anchor[1]), (1 - ALIKE) * np.log(10) + ALIKE * np.log(5))
    np.testing.assert_array_equal(np.delete(anchor, 1), np.delete(calm, 1))


def test_a_day_off_without_a_day_off_as_counterpart_is_like_the_years_days_off() -> None:
    demand, calendar = rhythm(), np.zeros((1, LOOKBACK + 7, 6), np.float32)
    off, day = LOOKBACK - np.array([300, 202, 97]), LOOKBACK + 2
    assert (demand[0, off] == 9.0).all()
    demand[0, off], calendar[0, off, OFF] = 4.0, 1  # as low as the quiet weekday
    calendar[0, [LOOKBACK, day], OFF] = 1  # ahead on the quiet day and on another
    plain, missed = features_of(window(rhythm())).anchor[0, 0], np.log(10) - np.log(5)
    for back in (0, 365):  # there is none, or it was an ordinary day
        calendar[0, day, BACK] = back
        difference = features_of(window(demand, calendar=calendar)).anchor[0, 0] - plain
        far(float(difference[2]), -3 / (3 + DOUBT) * missed, 0.05)
        far(float(difference[0]), 0.0, 0.05)  # it is as quiet as a day off
        np.testing.assert_allclose(np.delete(difference, [0, 2]), 0.0, atol=0.05)
    calendar[0, off, OFF] = 0
    difference = features_of(window(demand, calendar=calendar)).anchor[0, 0] - plain
    np.testing.assert_allclose(difference, 0.0, atol=0.05)  # nothing is known of days off


def on_a_day_whose_counterpart_was_off(count: float) -> float:
    """Return the difference of the anchor from that of a day without a counterpart, if the
    counterpart had `count` orders."""
    demand, calendar = rhythm(), np.zeros((1, LOOKBACK + 7, 6), np.float32)
    off, day, back = LOOKBACK - np.array([300, 202, 97]), LOOKBACK + 2, 365
    demand[0, off], calendar[0, off, OFF] = 4.0, 1
    plain = features_of(window(demand)).anchor[0, 0, 2]
    calendar[0, day, BACK], calendar[0, day - back, OFF] = back, 1
    demand[0, day - back] = count
    return float(features_of(window(demand, calendar=calendar)).anchor[0, 0, 2] - plain)


OF_THE_DAY_OFF = np.log(5) - np.log(10)
NOT_OF_DAYS_OFF = 1 - 4 / (4 + DOUBT)  # because four of them are known, including the counterpart


def test_the_day_off_effect_of_only_the_counterpart_is_removed() -> None:
    far(on_a_day_whose_counterpart_was_off(4.0), OF_THE_DAY_OFF * NOT_OF_DAYS_OFF, 0.05)


def test_a_counterpart_quieter_than_other_days_off_counts_as_special_in_part() -> None:
    assert -np.log(10) < on_a_day_whose_counterpart_was_off(0.0) < OF_THE_DAY_OFF * NOT_OF_DAYS_OFF - 0.1


def test_a_busy_counterpart_predicts_a_busy_day_even_if_it_was_a_day_off() -> None:
    far(on_a_day_whose_counterpart_was_off(19.0), np.log(2), 0.1)
