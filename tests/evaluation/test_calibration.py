"""Calibrated quantiles have nominal coverage as far as the days can be trusted, and stay in order."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Fold
from forecaster.evaluation import calibration
from forecaster.evaluation.metrics import measure
from tests.panels import LEVELS, NAN, fold, scale

DAYS = 100


def on_days(quantiles: Any, actual: Any, *, levels: tuple[float, ...] = LEVELS) -> list[Fold]:
    """Distribute the rows over a hundred days, each a fold of one day."""
    return [
        fold(quantiles[day::DAYS], actual[day::DAYS], levels=levels, cutoff=date(2026, 1, 1) + timedelta(days=day))
        for day in range(DAYS)
    ]


def folds_of(width: float, count: int = 4000, seed: int = 0, common: float = 0.0) -> list[Fold]:
    """Actuals log-normal about 100 with σ 0.3, a share of which is common to all depots of a day;
    the band has `width` times the true distances."""
    random = np.random.default_rng(seed)
    of_depot_day, days = random.normal(size=count), random.normal(size=DAYS)
    noise = np.sqrt(1 - common) * of_depot_day + np.sqrt(common) * days[np.arange(count) % DAYS]
    reach = 1.2816 * 0.3 * width * np.array([-1, 0, 1])
    actual = np.expm1(np.log(101) + 0.3 * noise)[:, None]
    return on_days(np.tile(np.expm1(np.log(101) + reach), (count, 1, 1)), actual)


def applied(folds: list[Fold], factors: Floats) -> list[Fold]:
    """Apply the factors as the network does."""
    calibrated = []
    for raw in folds:
        levels = raw.forecast.levels
        log = np.log1p(raw.forecast.quantiles)
        middle = log[..., levels.index(0.5), None]
        calibrated.append(fold(np.expm1(middle + (log - middle) * factors), raw.actuals, levels=levels))
    return calibrated


def covered(folds: list[Fold]) -> float:
    return measure(folds, scale(np.ones(4000)))["coverage"]


def test_a_harder_week_ahead_gets_its_own_ranges() -> None:
    """Fourteen days ahead with one width for all; the second week has twice the errors."""
    random, count = np.random.default_rng(0), 40
    spread = 0.15 * np.repeat([1.0, 2.0], 7)
    band = np.expm1(np.log(101) + 1.2816 * 0.15 * np.array([-1, 0, 1]))
    folds = [
        fold(
            np.tile(band, (count, 14, 1)),
            np.expm1(np.log(101) + spread * random.normal(size=(count, 14))),
            cutoff=date(2026, 1, 1) + timedelta(days=day),
        )
        for day in range(DAYS)
    ]
    near, far = np.split(calibration.factors(folds)[:, 0], 2)
    np.testing.assert_allclose(near, 1, rtol=0.1)
    np.testing.assert_allclose(far, 2, rtol=0.1)


@pytest.mark.parametrize("width", [0.4, 0.7, 1.0])
def test_a_narrow_band_is_widened_to_cover_four_fifths(width: float) -> None:
    factors = calibration.factors(folds_of(width))
    np.testing.assert_allclose(factors, [[1 / width, 1, 1 / width]], rtol=0.07)
    assert factors.dtype == np.float32
    held_out = folds_of(width, seed=1)
    assert covered(applied(held_out, factors)) == pytest.approx(0.8, abs=0.025)
    if width != 1:
        assert abs(covered(held_out) - 0.8) > 0.1


def test_a_calm_month_does_not_make_a_calm_year() -> None:
    """A band that is too wide narrows with the number of days that have shown it, and at once if it
    covers more than nine of ten."""
    wide = folds_of(1.35)
    assert covered(wide) == pytest.approx(0.915, abs=0.01)
    month, all_days = (covered(applied(wide, calibration.factors(wide[:days]))) for days in (28, DAYS))
    assert 0.85 < all_days < month - 0.01 < 0.895
    assert covered(applied(folds_of(2.5), calibration.factors(folds_of(2.5)[:28]))) == pytest.approx(0.9, abs=0.02)


def test_recent_days_have_the_largest_weight() -> None:
    """Ten calm weeks, and four in which all errors are doubled."""
    folds = folds_of(1.0)
    middle = np.log(101)
    for place in range(DAYS - 28, DAYS):
        twice = np.expm1(middle + 2 * (np.log1p(folds[place].actuals) - middle)).astype(np.float32)
        folds[place] = Fold(folds[place].forecast, twice)
    assert calibration.factors(folds)[0, 2] > 1.5


def test_both_ends_get_the_same_factor_even_on_one_sided_days() -> None:
    """Actuals uniform between 1 below and 2.25 above the median in logs; the band reaches 1 down
    and 2 up."""
    actual = np.random.default_rng(0).permutation(np.expm1(10 + np.linspace(-2, 4.5, 4000)))[:, None]
    factors = calibration.factors(on_days(np.tile(np.expm1(np.array([9.0, 10.0, 12.0])), (4000, 1, 1)), actual))
    assert factors[0, 0] == factors[0, 2]
    # Four fifths of max(up / 2, down / 1) are below 0.8 · 6.5 / 3.
    np.testing.assert_allclose(factors, [[0.8 * 6.5 / 3, 1, 0.8 * 6.5 / 3]], rtol=0.04)


def test_levels_without_a_mirror_have_their_own_factor() -> None:
    random = np.random.default_rng(0)
    actual = np.expm1(5 + 0.3 * random.normal(size=(4000, 1)))
    levels = (0.1, 0.5, 0.8, 0.9)  # standard normal quantiles -1.28, 0, 0.84, 1.28
    quantiles = np.tile(np.expm1(5 + 0.15 * np.array([-1.2816, 0, 0.8416, 1.2816])), (4000, 1, 1))
    np.testing.assert_allclose(
        calibration.factors(on_days(quantiles, actual, levels=levels)), [[2, 1, 2, 2]], rtol=0.07
    )


def test_errors_common_to_all_depots_are_trusted_less(monkeypatch: pytest.MonkeyPatch) -> None:
    alone, together = (calibration.factors(folds_of(0.7, common=share)) for share in (0.0, 0.9))
    assert 1 < together[0, 2] < alone[0, 2]

    def spread_of_factors() -> float:
        """Spread of the factors of a correct band: days with common errors say little about later
        days."""
        factors = [calibration.factors(folds_of(1.0, seed=seed, common=0.95))[0, 2] for seed in range(12)]
        return float(np.std(factors))

    shrunk_spread = spread_of_factors()
    monkeypatch.setattr(calibration, "OFF", 1e6)  # every share is fully trusted
    assert shrunk_spread < 0.95 * spread_of_factors()


def test_the_standard_error_over_days_by_hand() -> None:
    """Two days of two depots; one day lies inside and one outside: a half, with a standard error of
    a half."""
    day = np.array(["2026-01-01", "2026-01-01", "2026-01-02", "2026-01-02"], "datetime64[D]")
    inside = np.array([True, True, False, False])
    even = np.ones(4)
    assert calibration._share_and_error(inside, day, even) == (0.5, pytest.approx(0.5))
    assert calibration._share_and_error(inside, day[[0, 2, 0, 2]], even) == (0.5, 0)  # each day has the same share
    assert calibration._share_and_error(inside[:2], day[:2], even[:2]) == (1, 1)  # one day has no information
    share, _ = calibration._share_and_error(inside, day, np.array([1.0, 1.0, 3.0, 3.0]))
    assert share == 0.25


def test_a_miscalibrated_step_of_the_horizon_has_its_own_factor() -> None:
    random = np.random.default_rng(0)
    noise = 0.3 * random.normal(size=(4000, 2)) * np.array([1.0, 2.0])
    reach = 1.2816 * 0.3 * np.array([-1, 0, 1])
    folds = on_days(np.tile(np.expm1(5 + reach), (4000, 2, 1)), np.expm1(5 + noise))
    np.testing.assert_allclose(calibration.factors(folds)[:, 2], [1, 2], rtol=0.12)


def test_too_few_days_change_nothing() -> None:
    np.testing.assert_array_equal(calibration.factors(folds_of(0.4, count=49)), [[1, 1, 1]])
    assert calibration.factors(folds_of(0.4, count=100))[0, 2] > 1.5
    mostly_unknown = [
        Fold(fold.forecast, np.where(place < 51, NAN, fold.actuals))
        for place, fold in enumerate(folds_of(0.4, count=100))
    ]
    np.testing.assert_array_equal(calibration.factors(mostly_unknown), [[1, 1, 1]])


def test_closed_days_without_a_band_do_not_count() -> None:
    """Quantiles that are all zero have no distance to scale."""
    nothing = fold(np.zeros((100, 1, 3)), np.zeros((100, 1)))
    np.testing.assert_array_equal(calibration.factors([nothing]), [[1, 1, 1]])
    factors = calibration.factors([nothing, *folds_of(0.4)])
    np.testing.assert_array_equal(factors[:, [0, 2]], calibration.factors(folds_of(0.4))[:, [0, 2]])


def test_exact_forecasts_have_the_narrowest_ranges() -> None:
    """Counts that never change: every actual equals its median, and no distance is too small."""
    band = np.tile(np.array([60.0, 100.0, 160.0], np.float32), (4000, 1, 1))
    factors = calibration.factors(on_days(band, np.full((4000, 1), 100.0, np.float32)))
    np.testing.assert_allclose(factors[0], [calibration.NARROWEST, 1, calibration.NARROWEST], rtol=1e-6)


def test_factors_stay_within_bounds() -> None:
    np.testing.assert_array_equal(calibration.factors(folds_of(0.05)), [[5, 1, 5]])
    np.testing.assert_array_equal(calibration.factors(folds_of(30.0)), np.float32([[0.3, 1, 0.3]]))


def test_calibrated_levels_never_cross() -> None:
    """The inner levels are far too narrow and the outer ones far too wide; the outer ones must stay
    outside."""
    levels = (0.1, 0.4, 0.5, 0.6, 0.9)
    random = np.random.default_rng(2)
    actual = np.expm1(5 + 0.3 * random.normal(size=(500, 1)))
    for inner, outer in ((0.01, 0.9), (0.3, 0.31), (0.2, 0.2)):
        quantiles = np.tile(np.expm1(5 + np.array([-outer, -inner, 0, inner, outer])), (500, 1, 1))
        folds = on_days(quantiles, actual, levels=levels)
        factors = calibration.factors(folds)
        assert all(
            (np.diff(calibrated.forecast.quantiles, axis=-1) >= 0).all() for calibrated in applied(folds, factors)
        )
        assert factors[0, levels.index(0.5)] == 1


def test_every_day_of_the_horizon_has_a_factor_for_each_level() -> None:
    quantiles = np.tile(np.float32([8, 12, 14]), (4, 7, 1))
    assert calibration.factors([fold(quantiles, np.full((4, 7), 11))]).shape == (7, len(LEVELS))
