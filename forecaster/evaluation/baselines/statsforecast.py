"""Local statistical models, one series at a time: AutoETS, Theta and MSTL.

Form and parameters are chosen once, on the last year before the panel's cutoff; at a later cutoff
they are kept, and the smoothing (with MSTL also the decomposition) runs again over the new days.
Source: statsforecast.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any

import numpy as np

from forecaster.core.arrays import Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines.naive import SEASON, complete
from forecaster.evaluation.baselines.optional import import_optional, quietly

HISTORY = 56 * SEASON  # days on which a model is chosen
ENOUGH = 4 * SEASON  # known counts; a depot with fewer gets the seasonal naive


def auto_ets(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """Exponential smoothing, its form by AICc; at a later cutoff form and parameters are kept."""
    models = import_optional("statsforecast.models", "auto_ets")
    return _fit(lambda: models.AutoETS(season_length=SEASON), panel, levels)


def theta(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """The standard Theta method; at a later cutoff its parameters are kept."""
    models = import_optional("statsforecast.models", "theta")
    return _fit(lambda: models.Theta(season_length=SEASON), panel, levels)


def mstl(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """STL by week, its trend by exponential smoothing; at a later cutoff the form of the latter is
    kept."""
    models = import_optional("statsforecast.models", "mstl")
    return _fit(lambda: models.MSTL(season_length=[SEASON]), panel, levels)


def _fit(make: Callable[[], Any], panel: Panel, levels: tuple[float, ...]) -> Predictor:
    start = max(panel.history - HISTORY, 0)
    counts = np.where(panel.open[:, : panel.history], panel.demand, np.nan)[:, start:]
    series = fill_gaps(counts)
    usable = (np.isfinite(counts).sum(axis=1) >= ENOUGH) & ~panel.cold
    fitted = [_fit_series(make(), y) if able else None for y, able in zip(series, usable, strict=True)]
    return _Classical(tuple(fitted), panel.days[start].astype(object), levels)


def _fit_series(model: Any, y: Doubles) -> Any | None:
    """Return the fitted model; None if the method fails for the series."""
    try:
        with quietly():  # it warns of a division if all counts are zero
            return model.fit(y)
    except Exception:  # statsforecast raises plain Exceptions
        return None


@dataclass(frozen=True)
class _Classical:
    """A fitted model per depot, None if there is none, and the first day of the fitted series."""

    models: tuple[Any, ...]
    first: date
    levels: tuple[float, ...]

    def __call__(self, panel: Panel) -> Forecast:
        start = int((np.datetime64(self.first, "D") - panel.days[0]).astype(int))
        series = fill_gaps(np.where(panel.open[:, : panel.history], panel.demand, np.nan)[:, start:])
        quantiles = np.full((len(series), panel.horizon, len(self.levels)), np.nan)
        for row, (model, y) in enumerate(zip(self.models, series, strict=True)):
            if model is not None:
                quantiles[row] = self._ahead(model, y, panel.horizon)
        return complete(panel, self.levels, quantiles)

    def _ahead(self, model: Any, y: Doubles, horizon: int) -> Doubles:
        """Quantiles (horizon, levels) from the method's own intervals; NaN if it fails."""
        widths = sorted({_width(level) for level in self.levels} - {0})
        try:
            with quietly():
                intervals = model.forward(y, horizon, level=widths)
        except Exception:
            return np.full((horizon, len(self.levels)), np.nan)
        sides = [
            ("mean" if level == 0.5 else f"{'lo' if level < 0.5 else 'hi'}-{_width(level)}") for level in self.levels
        ]
        return np.column_stack([intervals[side] for side in sides])


def _width(level: float) -> int:
    """Width in percent of the interval that the quantile level bounds."""
    return round(100 * abs(1 - 2 * level))


def fill_gaps(counts: Floats) -> Doubles:
    """Impute gaps: with the same weekday of the week before, else of the week after, else by linear
    interpolation between neighbors. (depots, days), NaN only for a depot without counts."""
    depots, days = counts.shape
    weeks = -(-days // SEASON)
    padded = np.full((depots, weeks * SEASON), np.nan)
    padded[:, :days] = counts
    by_week = padded.reshape(depots, weeks, SEASON)
    filled = _forward_fill(_forward_fill(by_week)[:, ::-1])[:, ::-1].reshape(depots, -1)[:, :days].copy()
    for row in np.flatnonzero(np.isnan(filled).any(axis=1) & np.isfinite(filled).any(axis=1)):
        gap = np.isnan(filled[row])
        filled[row, gap] = np.interp(np.flatnonzero(gap), np.flatnonzero(~gap), filled[row, ~gap])
    return filled


def _forward_fill(values: Doubles) -> Doubles:
    """Forward fill: each NaN takes the last value before it along the second axis."""
    place = np.where(np.isfinite(values), np.arange(values.shape[1])[None, :, None], 0)
    filled: Doubles = np.take_along_axis(values, np.maximum.accumulate(place, axis=1), axis=1)
    return filled
