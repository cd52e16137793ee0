"""Inputs of the network: windows calculated by hand, and nothing from after an origin."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.config import json_schema
from forecaster.demand.panel.calendar import LEAST_BACK, MOST_BACK, NAMES
from forecaster.model.network import features, special_days
from forecaster.model.network.day_sums import WEEKS
from forecaster.model.network.features import LOOKBACK, Features, Window
from forecaster.model.network.series import LEVEL
from forecaster.model.network.special_days import DOUBT
from tests import panels

OFF, BACK = -2, -1  # last calendar features: a day off, and the distance of the counterpart in days
CONSTANTS = {"mean": jnp.float32(3.0), "spread": jnp.float32(1.0), "calendar": jnp.ones(6), "yearly": jnp.float32(1)}


def window(demand: Any, **changes: Any) -> Window:
    """Return a window without covariates, with a calendar of six zeros; all days open."""
    counts = np.asarray(demand, np.float32)
    depots, ahead = len(counts), counts.shape[1] + 7
    arrays = {
        "demand": counts,
        "open": np.ones((depots, ahead), np.float32),
        "covariates": np.zeros((depots, ahead, 0), np.float32),
        "calendar": np.zeros((depots, ahead, 6), np.float32),
        "statics": np.zeros((depots, 0), np.int32),
    }
    return Window(**{name: changes.get(name, value) for name, value in arrays.items()})


@partial(jax.jit, static_argnames=("scan", "origins", "stride", "horizon", "trees"))
def _compiled(inputs: Window, constants: Any, **sizes: Any) -> Features:
    return features.make(inputs, constants, **sizes)


def features_of(
    inputs: Window,
    constants: Any = CONSTANTS,
    *,
    scan: int = 5,
    origins: int = 1,
    stride: int = 1,
    horizon: int = 7,
    trees: bool = False,
) -> Features:
    """Return features as NumPy arrays, computed for four depots, so that fewer programs are
    compiled."""
    depots = len(inputs.demand)

    def padded(array: Any) -> Any:
        return np.pad(np.asarray(array), [(0, 4 - depots)] + [(0, 0)] * (array.ndim - 1), mode="edge")

    sizes = {"scan": scan, "origins": origins, "stride": stride, "horizon": horizon, "trees": trees}
    of_four: Features = _compiled(jax.tree.map(padded, inputs), constants, **sizes)
    return jax.tree.map(lambda array: np.asarray(array)[:depots], of_four)


def of_panel(days: int = LOOKBACK, seed: int = 0, horizon: int = 7) -> Window:
    """Return a window of a panel with unknown and closed days."""
    random, arrays = np.random.default_rng(seed), panels.panel(3, days, horizon, seed=seed).window(days)
    demand = np.array(arrays["demand"])
    demand[random.random(demand.shape) < 0.2] = np.nan
    arrays["open"] = (random.random(arrays["open"].shape) < 0.9).astype(np.float32)
    return Window(**{**arrays, "demand": demand})


def changed(array: Any, *changes: tuple[Any, float]) -> Any:
    """Return a copy with other values in some places."""
    copy = np.array(array)
    for place, value in changes:
        copy[place] = value
    return copy


def test_the_anchor_is_the_mean_log_of_the_last_four_known_same_weekdays() -> None:
    demand = np.full((1, LOOKBACK), np.nan)
    for weeks, count in ((1, 9.0), (2, 4.0), (4, 1.0), (5, 99.0)):  # the third week is unknown, the fifth too old
        demand[0, LOOKBACK - 7 * weeks] = count  # the weekday of the first day ahead
    demand[0, -1] = 19.0  # the weekday of the seventh
    actual = features_of(window(demand))
    by_weekday = np.log([10.0, 5.0, 2.0]).mean()
    level = np.log([10.0, 5.0, 2.0, 20.0]).mean()  # all within the last 28 days
    np.testing.assert_allclose(actual.level, [[level]], rtol=1e-6)
    np.testing.assert_allclose(actual.anchor[0, 0], [by_weekday, *[level] * 5, np.log(20.0)], rtol=1e-6)
    lags = np.array([np.log(10.0) - level, np.log(5.0) - level, 0, np.log(2.0) - level, 1, 1, 0, 1])
    np.testing.assert_allclose(actual.decoder[0, 0, 0, : 2 * WEEKS], lags, rtol=1e-5)


def test_the_level_is_that_of_four_weeks_else_a_year_else_all_depots() -> None:
    demand = np.full((4, LOOKBACK), np.nan)
    demand[0, -LEVEL - 1 :] = [99.0, *[9.0] * LEVEL]
    demand[1, -200] = 19.0
    demand[3] = 9.0
    closed = np.ones((4, LOOKBACK + 7), np.float32)
    closed[3] = 0  # counts on a closed day are not demand
    level = features_of(window(demand, open=closed)).level[:, 0]
    np.testing.assert_allclose(level, [np.log(10), np.log(20), 3, 3], rtol=1e-6)


def test_the_encoder_reads_the_last_days_by_hand() -> None:
    demand = np.full((1, LOOKBACK), 9.0)
    demand[0, -1], demand[0, -2] = 19.0, np.nan
    last = features_of(window(demand)).encoder[0]
    assert last.shape == (5, features.encoder_width(0))
    level = (26 * np.log(10) + np.log(20)) / 27  # of 28 days one is unknown
    week = (5 * np.log(10) + np.log(20)) / 6
    year = (362 * np.log(10) + np.log(20)) / 363
    jump = np.log(20) - np.log(10)
    expected = [np.log(20) - level, 1, jump, week - level, 363 / 364 * (level - year), level - 3, 27 / 28]
    expected += [jump, jump / 6]  # against the anchor: that day, and its week's known days
    expected += [0, 1]  # the special effect a year ago, and the open flag
    np.testing.assert_allclose(last[-1, :11], expected, rtol=1e-4, atol=1e-6)
    assert last[-2, :3].tolist() == [0, 0, 0]  # unknown: no value, and a mask of 0


def test_without_yearly_features_the_previous_year_has_no_effect() -> None:
    inputs, off = of_panel(), jnp.asarray([1.0, 1.0, 0.0, 1.0, 1.0, 1.0])
    # Near a holiday, the usual depends on more days.
    inputs = inputs._replace(calendar=changed(inputs.calendar, ((..., BACK), 0.0)))
    doubted = {**CONSTANTS, "calendar": off, "yearly": jnp.float32(0)}
    early, late = np.s_[:, :48], np.s_[:, -7:, 2]
    another = inputs._replace(
        demand=changed(inputs.demand, (early, 7.0)), calendar=changed(inputs.calendar, (late, 9.0), (early, 9.0))
    )
    for before, after in zip(features_of(inputs, doubted), features_of(another, doubted), strict=True):
        np.testing.assert_array_equal(before, after)
    assert not np.array_equal(features_of(inputs).decoder, features_of(another).decoder)


def test_a_day_near_a_holiday_gets_the_deviation_of_its_counterpart() -> None:
    demand = np.full((1, LOOKBACK), 9.0)
    day, back = LOOKBACK + 2, 371  # the third day ahead, with a counterpart that is not a whole number of weeks back
    demand[0, day - back] = 4.0
    calendar = np.zeros((1, LOOKBACK + 7, 6), np.float32)
    plain = features_of(window(demand, calendar=calendar))
    calendar[0, day, BACK] = back
    informed = features_of(window(demand, calendar=calendar))
    differing = np.argwhere((informed.decoder != plain.decoder)[0, 0])
    assert sorted(step for step, _ in differing) == [1, 2, 3]  # the day before, that day, the day after
    missed = np.log(10) - np.log(5)
    # The usual of that year begins the day after it: the anchor misses four same weekdays by a
    # quarter each.
    usual = missed / 364
    surprises = [informed.decoder[0, 0, step, place] for step, place in differing]
    np.testing.assert_allclose(surprises, -(missed - usual), rtol=1e-4)
    np.testing.assert_allclose(informed.anchor - plain.anchor, [[[0, 0, -(missed - usual), 0, 0, 0, 0]]], atol=1e-6)
    doubted = {**CONSTANTS, "yearly": jnp.float32(0)}  # affects years, not holidays
    still = features_of(window(demand, calendar=calendar), doubted)
    np.testing.assert_array_equal(still.anchor, informed.anchor)


def test_a_reopening_near_a_holiday_is_not_expected_again() -> None:
    demand = np.full((1, LOOKBACK), 9.0)
    calendar = np.zeros((1, LOOKBACK + 7, 6), np.float32)
    calendar[0, LOOKBACK + 2, BACK] = 365
    plain = features_of(window(demand))
    demand[0, LOOKBACK - 391 : LOOKBACK - 363] = 0.0  # unchanged on the counterpart itself
    np.testing.assert_array_equal(features_of(window(demand, calendar=calendar)).anchor, plain.anchor)
    demand[0, LOOKBACK - 363 + 7] = 0.0  # one bad week afterwards does not mean that it stayed closed
    np.testing.assert_array_equal(features_of(window(demand, calendar=calendar)).anchor, plain.anchor)
    demand[0, LOOKBACK - 363 : LOOKBACK - 320] = 0.0
    demand[0, LOOKBACK - 363] = 9.0  # closed before and after: that day was special
    assert features_of(window(demand, calendar=calendar)).anchor[0, 0, 2] - plain.anchor[0, 0, 2] > 1


def test_a_day_near_a_holiday_affects_neither_anchor_nor_level() -> None:
    demand = np.full((1, LOOKBACK), 9.0)
    demand[0, [-14, -7]] = 1.0  # as Christmas and the first of January
    calendar = np.zeros((1, LOOKBACK + 7, 6), np.float32)
    plain = features_of(window(demand, calendar=calendar), scan=14)
    np.testing.assert_allclose(plain.anchor[0, 0, 0], np.log([10, 10, 2, 2]).mean(), rtol=1e-6)
    calendar[0, [-21, -14], BACK] = 365
    near_holiday = features_of(window(demand, calendar=calendar), scan=14)
    missed = np.log(10) - np.log(2)
    # Held to the usual: the first error, spread over about four hundred days of the window, and a
    # few quarters.
    assert 0 < (np.log(10) - np.asarray(near_holiday.anchor)).max() < missed / 100
    assert 0 < np.log(10) - near_holiday.level[0, 0] < missed / 100
    surprises = near_holiday.encoder[0, [0, 7], 7]
    # the second is not measured relative to a quarter of the first
    np.testing.assert_allclose(surprises, -missed, rtol=0.01)
    assert plain.encoder[0, 7, 7] > -0.8 * missed


def test_a_depot_whose_level_moved_near_a_holiday_is_not_held_to_the_old_level() -> None:
    demand = np.full((2, LOOKBACK), 9.0)
    demand[0, -12:] = 1.0  # from a holiday on, for good
    demand[1, [-12, -11, -10, -5, -4, -3]] = 1.0  # near two holidays, and as before between them
    calendar = np.zeros((2, LOOKBACK + 7, 6), np.float32)
    calendar[:, [*range(-19, -16), *range(-12, -9)], BACK] = 365  # twelve to ten days ago, and five to three days ago
    level = features_of(window(demand, calendar=calendar)).level[:, 0]
    low, high = np.log(2), np.log(10)
    # Three days of the first holiday are held; those of the second are known to be unrelated to a
    # holiday.
    np.testing.assert_allclose(level[0], (9 * low + 19 * high) / 28, rtol=0.01)
    np.testing.assert_allclose(level[1], high, rtol=0.01)


def test_a_day_not_near_a_holiday_is_never_held() -> None:
    demand = np.full((1, LOOKBACK), 900.0)
    demand[0, -14:-7] = 0.0  # a week of zeros, after which all is as before
    level = features_of(window(demand)).level[0, 0]
    np.testing.assert_allclose(level, 21 / 28 * np.log(901), rtol=1e-6)


def test_the_effect_of_a_depots_first_holidays_lasts_until_their_end() -> None:
    demand = np.full((2, LOOKBACK), np.nan)
    demand[0, -300:], demand[1] = 9.0, 9.0
    demand[:, -3:] = 4.0
    calendar = np.zeros((2, LOOKBACK + 7, 6), np.float32)
    calendar[:, -10:-4, BACK] = 365  # the last three days and the first three ahead
    near_holidays = features_of(window(demand, calendar=calendar))
    calendar[:, -10:-7, 1] = 1.0
    # Holidays themselves do not affect the days after them.
    silent = features_of(window(demand, calendar=calendar))
    goes_on = np.asarray(near_holidays.anchor - silent.anchor)[:, 0]
    missed = np.log(10) - np.log(5)
    np.testing.assert_allclose(goes_on[0, :3], -3 / (3 + DOUBT) * missed, rtol=1e-4)
    assert not goes_on[0, 3:].any()
    assert not goes_on[1].any()  # if nothing happened a year ago
    columns = np.flatnonzero(near_holidays.decoder[0, 0, 0] != silent.decoder[0, 0, 0])
    np.testing.assert_allclose(near_holidays.decoder[0, 0][:, columns], goes_on[0][:, None], atol=1e-6)


def test_with_few_days_known_a_day_near_a_holiday_counts_in_full() -> None:
    demand = np.full((1, LOOKBACK), np.nan)
    demand[0, -20:] = 9.0
    demand[0, -7] = 1.0
    calendar = np.zeros((1, LOOKBACK + 7, 6), np.float32)
    plain = features_of(window(demand, calendar=calendar))
    calendar[0, -14, BACK] = 365
    np.testing.assert_array_equal(features_of(window(demand, calendar=calendar)).anchor, plain.anchor)


def test_usual_deviations_of_a_counterpart_are_ignored() -> None:
    demand = np.full((1, LOOKBACK), 9.0)
    demand[0, ::2] = 11.0  # every second day, so that every week differs from the one before
    calendar = np.zeros((1, LOOKBACK + 7, 6), np.float32)
    plain = features_of(window(demand, calendar=calendar))
    calendar[0, LOOKBACK:, BACK] = 365
    np.testing.assert_array_equal(features_of(window(demand, calendar=calendar)).decoder, plain.decoder)


def test_the_decoder_reads_the_minimum_and_maximum_of_the_anchors_days() -> None:
    demand = np.full((1, LOOKBACK), np.nan)
    for weeks, count in ((1, 9.0), (2, 4.0), (4, 1.0)):
        demand[0, LOOKBACK - 7 * weeks] = count
    place = 2 * WEEKS + 1
    anchor = np.log([10.0, 5.0, 2.0]).mean()
    first = features_of(window(demand)).decoder[0, 0, 0]
    np.testing.assert_allclose(first[place : place + 2], [np.log(2) - anchor, np.log(10) - anchor], rtol=1e-5)
    assert not features_of(window(np.full((1, LOOKBACK), np.nan))).decoder[0, 0, :, place : place + 2].any()


def test_the_declared_widths_match_the_features() -> None:
    actual = features_of(of_panel(), scan=12, origins=3)
    assert actual.encoder.shape == (3, 12, features.encoder_width(1))
    assert actual.decoder.shape == (3, 3, 7, features.decoder_width(1, 6))


def test_the_known_future_of_a_day_reaches_that_day_and_its_neighbours() -> None:
    plain = of_panel()
    for ahead in range(7):
        day = LOOKBACK + ahead
        dark = plain._replace(covariates=np.zeros_like(plain.covariates))
        lit = dark._replace(covariates=changed(dark.covariates, (np.s_[:, day], 1.0)))
        differences = np.abs(features_of(lit).decoder - features_of(dark).decoder)[0, 0]
        expected = np.zeros((7, 3))
        for column, step in ((0, ahead + 1), (1, ahead), (2, ahead - 1)):  # the day after it, that day, the day before
            if 0 <= step < 7:
                expected[step, column] = 1
        np.testing.assert_array_equal(differences[:, -3:], expected)


def test_origins_with_a_stride_are_a_subset_of_all_origins() -> None:
    inputs = of_panel(LOOKBACK + 9)
    every, third = (features_of(inputs, scan=20, origins=n, stride=s, trees=True) for n, s in ((10, 1), (4, 3)))
    assert every.trees.shape[-1] == len(features.tree_inputs(("promo",), panels.CALENDAR, tuple(panels.STATICS)))
    np.testing.assert_array_equal(third.trees, every.trees[:, ::3])
    np.testing.assert_array_equal(third.decoder, every.decoder[:, ::3])
    np.testing.assert_array_equal(third.anchor, every.anchor[:, ::3])
    np.testing.assert_array_equal(third.level, every.level[:, ::3])


@pytest.mark.parametrize("horizon", [1, 7, 8, 14, 28, json_schema()["properties"]["horizon"]["maximum"]])
def test_later_demand_does_not_change_the_features_of_an_origin(horizon: int) -> None:
    """The leak detector: everything later than an origin is replaced with unknown or enormous
    values; nothing may change."""
    origins, inputs = 12, of_panel(LOOKBACK + 11, horizon=horizon)
    days = inputs.demand.shape[1]
    sizes = {"scan": 40, "origins": origins, "horizon": horizon, "trees": horizon <= 14}
    expected = features_of(inputs, **sizes)
    for back in (0, 3, 11):
        origin, place = days - 1 - back, origins - 1 - back
        for later in (np.nan, 0.0, 1e6):
            demand = changed(inputs.demand, (np.s_[:, origin + 1 :], later))
            actual = features_of(inputs._replace(demand=demand), **sizes)
            for name in ("anchor", "level", "decoder", *(("trees", "tree_trust") if horizon <= 14 else ())):
                at_origin, as_before = getattr(actual, name)[:, place], getattr(expected, name)[:, place]
                np.testing.assert_array_equal(at_origin, as_before, err_msg=name)
            np.testing.assert_array_equal(actual.encoder[:, : 40 - back], expected.encoder[:, : 40 - back])
            if back:
                assert not np.array_equal(actual.level[:, -1], expected.level[:, -1])


def test_a_day_of_the_second_week_is_compared_with_known_same_weekdays() -> None:
    demand = np.full((1, LOOKBACK), np.nan)
    for weeks, count in ((1, 9.0), (2, 4.0), (4, 1.0)):
        demand[0, LOOKBACK - 7 * weeks] = count
    shape = (1, LOOKBACK + 15)
    known_ahead = {"covariates": np.zeros((*shape, 0), np.float32), "calendar": np.zeros((*shape, 6), np.float32)}
    inputs = window(demand, open=np.ones(shape, np.float32), **known_ahead)
    actual = features_of(inputs, horizon=15)
    by_weekday = np.log([10.0, 5.0, 2.0]).mean()
    np.testing.assert_allclose(actual.anchor[0, 0, [0, 7, 14]], [by_weekday] * 3, rtol=1e-6)
    lags = actual.decoder[0, 0, :, : 2 * WEEKS]
    np.testing.assert_array_equal(lags[7], lags[0])
    np.testing.assert_array_equal(lags[14], lags[0])


def test_many_origins_in_one_window_match_one_window_per_origin() -> None:
    origins, inputs = 9, of_panel(LOOKBACK + 8)
    together = features_of(inputs, origins=origins, trees=True)
    for place in range(origins):
        cut = slice(place, place + LOOKBACK)
        ahead = slice(place, place + LOOKBACK + 7)
        alone = features_of(
            Window(
                inputs.demand[:, cut],
                inputs.open[:, ahead],
                inputs.covariates[:, ahead],
                inputs.calendar[:, ahead],
                inputs.statics,
            ),
            trees=True,
        )
        for name in ("anchor", "level", "decoder", "trees", "tree_trust"):
            actual, expected = getattr(together, name)[:, place], getattr(alone, name)[:, 0]
            np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4, err_msg=f"{name} of origin {place}")


def test_the_last_calendar_features_are_those_of_holidays_and_the_counterpart() -> None:
    is_holiday = [("holiday" in name or name == "day_off") for name in NAMES]
    assert is_holiday == [False] * (len(NAMES) - 1 - features.HOLIDAYS) + [True] * features.HOLIDAYS + [False]
    assert (NAMES[OFF], NAMES[BACK]) == ("day_off", "counterpart")
    assert (special_days.LEAST_BACK, special_days.MOST_BACK) == (LEAST_BACK, MOST_BACK)
    assert features.LOOKBACK >= MOST_BACK + 7 * WEEKS + special_days.SURE
