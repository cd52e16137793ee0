"""Adaptive conformal calibration: at each cutoff a model's intervals are calibrated on all its
earlier forecasts.

All forecasts of a model since its training are held out, and the newest of them say most about the
weeks to come (after adaptive conformal inference, Gibbs & Candès 2021, arXiv:2106.00170, in a
growing window instead of steps). The medians are unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import numpy as np

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation import calibration
from forecaster.evaluation.backtest import Predictor


class RollingCalibration:
    """A calibrated predictor for successive cutoffs."""

    def __init__(
        self, predict: Predictor, earlier: Iterable[Forecast] = (), *, trained_until: date | None = None
    ) -> None:
        """Wrap `predict`. `earlier` are its forecasts before the first cutoff; of their days, those
        after `trained_until` count, by default all."""
        self._predict, self._trained_until = predict, trained_until
        self._forecasts = {forecast.cutoff: forecast for forecast in earlier}

    def __call__(self, panel: Panel) -> Forecast:
        now = self._forecasts[panel.cutoff] = self._predict(panel)
        return calibration.stretched(now, self.factors(panel))

    def factors(self, panel: Panel) -> Floats:
        """Return the factors (horizon, levels) of `calibration.factors`, from the forecasts before
        the panel's cutoff and the actuals that the panel knows; a single factor of 1 without such
        forecasts."""
        before = [forecast for cutoff, forecast in sorted(self._forecasts.items()) if cutoff < panel.cutoff]
        if not before:
            return np.ones((1, 1), np.float32)
        return calibration.factors([Fold(forecast, self._actuals(panel, forecast)) for forecast in before])

    def _actuals(self, panel: Panel, forecast: Forecast) -> Floats:
        return _actuals(panel, forecast, self._trained_until or forecast.cutoff)


def _actuals(panel: Panel, forecast: Forecast, after: date) -> Floats:
    """Actuals (depots, horizon) of a forecast's days after a given day; NaN if closed, or not known
    to the panel yet."""
    was_open = panel.at(forecast.cutoff).open[:, -panel.horizon :]
    was_open = was_open & (np.asarray(forecast.target_dates, "datetime64[D]") > np.datetime64(after))
    actuals: Floats = np.where(was_open, panel.actuals(forecast.cutoff), np.nan).astype(np.float32)
    return actuals
