"""Adaptive conformal calibration: at each cutoff a model's intervals are calibrated on all that it forecast before.

What a model forecast since it was trained is all held out, and the newest of it tells most of the weeks to come (after
adaptive conformal inference, Gibbs & Candès 2021, arXiv:2106.00170, in a growing window instead of steps). The medians
stay, unless their bias is to be removed as well.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date

import numpy as np

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation import calibration
from forecaster.evaluation.backtest import Predictor


class RollingCalibration:
    """A calibrated predictor that is asked for one cutoff after the other."""

    def __init__(
        self,
        predict: Predictor,
        earlier: Iterable[Forecast] = (),
        *,
        trained_until: date | None = None,
        removes_bias: bool = False,
    ) -> None:
        """`earlier` is what `predict` forecast before the first cutoff; of these days count those after
        `trained_until`, by default all."""
        self._predict, self._trained_until, self._removes_bias = predict, trained_until, removes_bias
        self._forecasts = {forecast.cutoff: forecast for forecast in earlier}

    def __call__(self, panel: Panel) -> Forecast:
        now = self._forecasts[panel.cutoff] = self._predict(panel)
        return calibration.stretched(calibration.shifted(now, self.offsets(panel)), self.factors(panel))

    def without_bias(self) -> RollingCalibration:
        """Return this predictor with the bias of what it forecast before removed at each cutoff; it predicts nothing
        anew."""
        forecasts = dict(self._forecasts)
        predict = lambda panel: forecasts[panel.cutoff]  # noqa: E731
        return RollingCalibration(predict, forecasts.values(), trained_until=self._trained_until, removes_bias=True)

    def offsets(self, panel: Panel) -> Doubles:
        """Return the offsets (horizon,) of `calibration.offsets` by what is known of earlier forecasts, 0 where bias is
        not removed."""
        before = self._before(panel) if self._removes_bias else []
        return calibration.offsets(before) if before else np.zeros(panel.horizon)

    def factors(self, panel: Panel) -> Floats:
        """The factors (horizon, levels) of `calibration.factors`, of what was forecast before the panel's cutoff and
        has come as far as the panel knows; a single one where nothing was."""
        before, offsets = self._before(panel), self.offsets(panel)
        if not before:
            return np.ones((1, 1), np.float32)
        return calibration.factors([Fold(calibration.shifted(fold.forecast, offsets), fold.actuals) for fold in before])

    def _before(self, panel: Panel) -> list[Fold]:
        forecasts = [forecast for cutoff, forecast in sorted(self._forecasts.items()) if cutoff < panel.cutoff]
        return [Fold(forecast, self._actuals(panel, forecast)) for forecast in forecasts]

    def _actuals(self, panel: Panel, forecast: Forecast) -> Floats:
        return _actuals(panel, forecast, self._trained_until or forecast.cutoff)


def _actuals(panel: Panel, forecast: Forecast, after: date) -> Floats:
    """Actuals (depots, horizon) of a forecast's days after a day; NaN where closed, and where the panel does not know
    them yet."""
    was_open = panel.at(forecast.cutoff).open[:, -panel.horizon :]
    was_open = was_open & (np.asarray(forecast.target_dates, "datetime64[D]") > np.datetime64(after))
    actuals: Floats = np.where(was_open, panel.actuals(forecast.cutoff), np.nan).astype(np.float32)
    return actuals
