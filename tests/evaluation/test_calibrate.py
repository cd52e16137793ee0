"""Calibrated quantiles hold what they promise, and stay in order."""

from __future__ import annotations

import numpy as np
import pytest

from forecaster.evaluation import calibrate
from forecaster.evaluation.metrics import measure
from forecaster.values import Floats, Fold
from tests.panels import LEVELS, NAN, fold, scale


def folds_of(width: float, count: int = 4000, seed: int = 0) -> list[Fold]:
    """Actuals log-normal about 100 with σ 0.3; a band that claims `width` times the true distances."""
    random = np.random.default_rng(seed)
    actual = np.expm1(np.log(101) + 0.3 * random.normal(size=(count, 1)))
    reach = 1.2816 * 0.3 * width * np.array([-1, 0, 1])
    return [fold(np.tile(np.expm1(np.log(101) + reach), (count, 1, 1)), actual)]


def applied(folds: list[Fold], factors: Floats) -> list[Fold]:
    """What the network does with the factors."""
    log = np.log1p(folds[0].forecast.quantiles)
    middle = log[..., folds[0].forecast.levels.index(0.5), None]
    said = np.expm1(middle + (log - middle) * factors)
    return [fold(said, folds[0].actuals, levels=folds[0].forecast.levels)]


@pytest.mark.parametrize("width", [0.4, 1.0, 2.5])
def test_a_band_too_narrow_or_too_wide_comes_to_cover_four_fifths(width: float) -> None:
    before = measure(folds_of(width), scale(np.ones(4000)))["coverage"]
    factors = calibrate.factors(folds_of(width))
    np.testing.assert_allclose(factors, [1 / width, 1, 1 / width], rtol=0.05)
    assert factors.dtype == np.float32
    held_out = folds_of(width, seed=1)
    after = measure(applied(held_out, factors), scale(np.ones(4000)))["coverage"]
    assert after == pytest.approx(0.8, abs=0.02)
    if width != 1:
        assert abs(before - 0.8) > 0.1


def test_each_side_has_its_own_factor_by_hand() -> None:
    """Actuals evenly between 1 below and 2.25 above the median in logs; the levels lie 1 below and 1 above it."""
    actual = np.expm1(10 + np.linspace(-1, 2.25, 101))
    said = np.tile(np.expm1(np.array([9.0, 10.0, 11.0])), (101, 1, 1))
    found = calibrate.factors([fold(said, actual[:, None])])
    # Nine tenths lie above −1 + 0.325 and nine tenths below 2.25 − 0.325.
    np.testing.assert_allclose(found, [0.675, 1, 1.925], rtol=1e-4)


def test_too_few_days_leave_everything_alone() -> None:
    np.testing.assert_array_equal(calibrate.factors(folds_of(0.4, count=49)), [1, 1, 1])
    assert calibrate.factors(folds_of(0.4, count=50))[2] > 1.5
    mostly_unknown = folds_of(0.4, count=100)[0]
    unknown = np.where(np.arange(100)[:, None] < 51, NAN, mostly_unknown.actuals)
    np.testing.assert_array_equal(calibrate.factors([Fold(mostly_unknown.forecast, unknown)]), [1, 1, 1])


def test_closed_days_with_no_band_do_not_count() -> None:
    """Quantiles that are all zero have no distance to scale."""
    nothing = fold(np.zeros((100, 1, 3)), np.zeros((100, 1)))
    np.testing.assert_array_equal(calibrate.factors([nothing]), [1, 1, 1])
    both = calibrate.factors([nothing, *folds_of(0.4)])
    np.testing.assert_array_equal(both[[0, 2]], calibrate.factors(folds_of(0.4))[[0, 2]])


def test_factors_stay_within_bounds() -> None:
    np.testing.assert_array_equal(calibrate.factors(folds_of(0.05)), [5, 1, 5])
    np.testing.assert_array_equal(calibrate.factors(folds_of(30.0)), np.float32([0.3, 1, 0.3]))


def test_calibrated_levels_never_cross() -> None:
    """The inner levels are far too narrow and the outer ones far too wide; the outer follow the inner."""
    levels = (0.1, 0.4, 0.5, 0.6, 0.9)
    random = np.random.default_rng(2)
    actual = np.expm1(5 + 0.3 * random.normal(size=(500, 1)))
    for inner, outer in ((0.01, 0.9), (0.3, 0.31), (0.2, 0.2)):
        said = np.tile(np.expm1(5 + np.array([-outer, -inner, 0, inner, outer])), (500, 1, 1))
        folds = [fold(said, actual, levels=levels)]
        factors = calibrate.factors(folds)
        assert (np.diff(applied(folds, factors)[0].forecast.quantiles, axis=-1) >= 0).all()
        assert factors[levels.index(0.5)] == 1


def test_the_levels_of_the_pipeline_are_kept() -> None:
    assert calibrate.factors(folds_of(1.0)).shape == (len(LEVELS),)
