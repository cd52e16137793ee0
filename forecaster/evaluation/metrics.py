"""How far a forecast was from what came.

Every metric runs over the scored depot-days of some folds: those whose actual is known and whose depot was open.
Sources: Hyndman & Koehler 2006 (MAPE, MASE), Gneiting & Raftery 2007 (pinball), Amazon's and M5's WQL, utilsforecast
for names.
An empty set of days gives NaN, never a zero that looks perfect.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from forecaster.values import Doubles, Floats, Fold

SEASON = 7


def measure(folds: Sequence[Fold], scale: Doubles) -> dict[str, float]:
    """All metrics of one model over the folds.

    `scale` (depots,) is the in-sample seasonal-naive error of each depot (`seasonal_scale`), NaN where there is none.

    mape      mean of |forecast − actual| / actual over days with an actual above zero
    wape      sum of |forecast − actual| over sum of actuals
    mase      mean over depots of (mean absolute error / scale)
    bias      (sum of forecasts − sum of actuals) / sum of actuals: forecast minus actual, above zero = too much
    wql       2 · pinball loss, mean over levels, over sum of actuals
    coverage  share of actuals within the 80 % interval (levels 0.1 to 0.9), ends included
    width     mean width of that interval over mean actual
    days      number of depot-days scored
    """
    levels = np.asarray(folds[0].forecast.levels) if folds else np.asarray([0.1, 0.5, 0.9])
    middle, low, high = (int(np.flatnonzero(levels == level)[0]) for level in (0.5, 0.1, 0.9))
    none = np.empty((len(scale), 0, len(levels)))
    actual = np.concatenate([none[:, :, 0], *(fold.actuals for fold in folds)], axis=1)
    quantiles = np.concatenate([none, *(fold.forecast.quantiles for fold in folds)], axis=1)
    known = np.isfinite(actual)
    a, q = actual[known], quantiles[known]
    error = q[:, middle] - a
    total = a.sum()
    pinball = np.maximum(levels * (a[:, None] - q), (levels - 1) * (a[:, None] - q))
    per_depot = np.abs(np.where(known, quantiles[:, :, middle] - actual, 0.0)).sum(axis=1)
    days = known.sum(axis=1)
    scaled = np.divide(per_depot / np.maximum(days, 1), scale, where=scale > 0, out=np.full(len(days), np.nan))
    positive = a > 0
    return {
        "mape": _mean(np.abs(error[positive]) / a[positive]),
        "wape": _ratio(np.abs(error).sum(), total),
        "mase": _mean(scaled[(days > 0) & np.isfinite(scaled)]),
        "bias": _ratio(error.sum(), total),
        "wql": _ratio(2 * pinball.mean(axis=1).sum() if len(a) else np.nan, total),
        "coverage": _mean((q[:, low] <= a) & (a <= q[:, high])),
        "width": _ratio((q[:, high] - q[:, low]).sum(), total),
        "days": float(len(a)),
    }


def seasonal_scale(demand: Floats, usable: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Doubles:
    """Mean absolute lag-7 difference of each depot, (depots,); NaN for a depot without such pairs or with no change."""
    x = np.where(usable, demand, np.nan).astype(float)
    change = np.abs(x[:, SEASON:] - x[:, :-SEASON])
    count = np.isfinite(change).sum(axis=1)
    mean: Doubles = np.nansum(change, axis=1) / np.maximum(count, 1)
    return np.where((count > 0) & (mean > 0), mean, np.nan)


def _mean(x: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> float:
    return float(x.mean()) if x.size else float("nan")


def _ratio(above: float, below: float) -> float:
    return float(above / below) if below > 0 else float("nan")
