"""Let a model's intervals follow its own errors: at each cutoff they are calibrated on all that it said before.

What a model said since it was trained is all held out, and the newest of it tells most of the weeks to come (adaptive
conformal inference, Gibbs & Candès 2021, arXiv:2106.00170, in a growing window instead of steps). The medians stay.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Fold, Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation import calibration
from forecaster.evaluation.backtest import Predictor


class Rolling:
    """A predictor that is asked for one cutoff after the other."""

    def __init__(self, predict: Predictor, said: Iterable[Forecast] = ()) -> None:
        """`said` is what `predict` said of days that it was not trained on, before the first cutoff."""
        self._predict = predict
        self._said = {forecast.cutoff: forecast for forecast in said}

    def __call__(self, panel: Panel) -> Forecast:
        now = self._said[panel.cutoff] = self._predict(panel)
        return calibration.stretched(now, self.factors(panel))

    def factors(self, panel: Panel) -> Floats:
        """The factors (horizon, levels) of `calibrate.factors`, of what was said before the panel's cutoff and has come
        as far as the panel knows; a single one where nothing was."""
        before = [forecast for cutoff, forecast in sorted(self._said.items()) if cutoff < panel.cutoff]
        if not before:
            return np.ones((1, 1), np.float32)
        return calibration.factors([Fold(forecast, _came(panel, forecast)) for forecast in before])


def _came(panel: Panel, forecast: Forecast) -> Floats:
    """NaN for days that were closed, and for those that the panel does not know yet."""
    was_open = panel.at(forecast.cutoff).open[:, -panel.horizon :]
    found: Floats = np.where(was_open, panel.actuals(forecast.cutoff), np.nan).astype(np.float32)
    return found
