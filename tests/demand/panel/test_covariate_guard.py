"""Forecasts far outside a depot's counts are held back if covariates cause them, and only then."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.demand.panel.known_future.covariate_guard import without_odd_covariates
from tests import panels


def sales_by_temperature(panel: Panel) -> Forecast:
    """Model that adds 2 % per degree."""
    level = panel.demand.mean(axis=1)[:, None, None] * np.ones((1, panel.horizon, 3))
    quantiles = level * np.exp(0.02 * panel.covariates[:, panel.history :, :1]) * [0.9, 1.0, 1.1]
    open_ = panel.open[:, panel.history :]
    return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, panels.LEVELS, quantiles, open_)


def with_temperature(degrees: float) -> Panel:
    """Three depots at 10 degrees; one differs on the second day ahead."""
    panel = panels.panel(covariates=("temp",))
    covariates = np.full_like(panel.covariates, 10)
    covariates[1, panel.history + 1] = degrees
    return replace(panel, covariates=covariates)


@pytest.mark.parametrize("degrees", [130.0, -130.0])
def test_extreme_forecast_caused_by_covariates_uses_the_usual_values_instead(degrees: float) -> None:
    panel, usual = with_temperature(degrees), with_temperature(10)
    predicted, used, notes = without_odd_covariates(sales_by_temperature(panel), panel, sales_by_temperature)
    np.testing.assert_array_equal(predicted.quantiles, sales_by_temperature(usual).quantiles)
    np.testing.assert_array_equal(used.covariates, usual.covariates)
    (note,) = notes
    assert "D1:" in note[0]
    assert "'temp'" in note[0]
    assert "calendar.known_future" in note[0]


def test_forecast_within_the_range_of_counts_is_unchanged_to_the_bit() -> None:
    panel = with_temperature(40)
    said = sales_by_temperature(panel)
    predicted, used, notes = without_odd_covariates(said, panel, sales_by_temperature)
    assert predicted is said
    assert used is panel
    assert not notes


def test_extreme_forecast_not_caused_by_covariates_is_unchanged() -> None:
    panel = with_temperature(40)

    def high(panel: Panel) -> Forecast:
        said = sales_by_temperature(panel)
        return replace(said, quantiles=said.quantiles * 30)

    predicted, used, notes = without_odd_covariates(high(panel), panel, high)
    np.testing.assert_array_equal(predicted.quantiles, high(panel).quantiles)
    assert used is panel
    assert not notes
