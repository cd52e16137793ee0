"""Shares of unknown and closed days, and covariates, compared with their own past."""

from __future__ import annotations

import numpy as np

from forecaster.evaluation import input_drift
from forecaster.evaluation.input_drift import share

DAYS = input_drift.YEAR + input_drift.WINDOW


def test_more_unknown_days_than_in_any_four_weeks_of_the_year_are_reported() -> None:
    unknown = np.random.default_rng(0).random((50, DAYS)) < 0.02
    everything = np.ones_like(unknown)
    assert share(unknown, everything).direction == 0
    unknown[:8, -28:] = True
    now = share(unknown, everything)
    assert now.direction == 1
    assert round(now.now, 1) == 0.2
    assert round(now.usual, 2) == 0.02


def test_regular_closed_days_are_not_drift_and_less_than_a_year_is_not_judged() -> None:
    closed = np.tile(np.arange(DAYS) % 7 == 6, (5, 1))
    assert share(closed, np.ones_like(closed)).direction == 0
    short = share(np.ones((5, 60), bool), np.ones((5, 60), bool))
    assert short.direction == 0
    assert np.isnan(short.usual)
    assert np.isnan(share(np.zeros((0, DAYS), bool), np.zeros((0, DAYS), bool)).now)


def test_a_depot_is_not_in_business_before_its_first_count_nor_after_its_last_open_day() -> None:
    known = np.array([[False, False, True, False, True, False, False]])
    open_ = np.array([[False, True, True, True, True, True, False]])
    assert input_drift.in_business(open_, known).tolist() == [[False, False, True, True, True, True, False]]


def test_an_unusual_or_constant_covariate_is_reported_but_not_a_season() -> None:
    random = np.random.default_rng(1)
    day = np.arange(3 * 365)
    winter = 10 - 10 * np.cos(2 * np.pi * day / 365) + random.normal(size=len(day))
    left = winter.copy()
    left[-28:] += 60
    still = winter.copy()
    still[-28:] = 3.0
    never = np.zeros(len(day))
    means = np.stack([winter, left, still, never], axis=1)
    found = input_drift.covariate_drifts(means, ("winter", "left", "still", "never"))
    assert [(drift.name, drift.direction) for drift in found] == [("left", 1), ("still", 0)]
    assert input_drift.covariate_drifts(means[-100:], ("winter", "left", "still", "never")) == ()


def test_an_annual_holiday_is_not_drift_in_its_season() -> None:
    flag = np.zeros(3 * 365 + 20)
    for year in range(4):
        flag[year * 365 : year * 365 + 14] = 1
    assert input_drift.covariate_drifts(flag[:, None], ("holiday",)) == ()
