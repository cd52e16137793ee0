"""Prophet, one model per depot: trend, week and year, with holidays and other values known ahead as
regressors.

Its forecast is a function of the day alone. To use new history like the other models, it is fitted
again at each later cutoff, starting from its previous parameters. Source: Taylor & Letham 2018.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines.features import is_holiday_feature
from forecaster.evaluation.baselines.naive import complete
from forecaster.evaluation.baselines.optional import import_optional, quietly

HISTORY = 4 * 365 + 1  # days
ENOUGH = 28  # known counts; a depot with fewer gets the seasonal naive
SAMPLES = 400


def prophet(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """Prophet's defaults on the raw counts; values below zero are zero."""
    with _quietly():
        make = import_optional("prophet", "prophet").Prophet
        models = [_fit(make, data, None) for data in _series(panel)]
    return _Additive(make, tuple(models), levels)


@dataclass(frozen=True)
class _Additive:
    """First fit of each depot, the starting point of later fits; None if there is none."""

    make: Any
    models: tuple[Any, ...]
    levels: tuple[float, ...]

    def __call__(self, panel: Panel) -> Forecast:
        quantiles = np.full((len(self.models), panel.horizon, len(self.levels)), np.nan)
        with _quietly():
            for row, (first, data) in enumerate(zip(self.models, _series(panel), strict=True)):
                model = first and _fit(self.make, data, first)
                if model:
                    quantiles[row] = _ahead(model, data.tail(panel.horizon), self.levels)
        return complete(panel, self.levels, quantiles)


def _series(panel: Panel) -> Iterator[pd.DataFrame]:
    """Yield each depot's days: ds, y (NaN = unknown, closed or ahead), and a column for each
    regressor."""
    start = max(panel.history - HISTORY, 0)
    counts = np.full(panel.open.shape, np.nan)
    counts[:, : panel.history] = np.where(panel.open[:, : panel.history], panel.demand, np.nan)
    places = [place for place, name in enumerate(panel.calendar_names) if is_holiday_feature(name)]
    for row, group in enumerate(panel.calendar_group):
        regressors = np.column_stack([panel.calendar[group][:, places], panel.covariates[row]])[start:]
        data = pd.DataFrame(regressors.astype(float)).add_prefix("regressor ")
        yield data.assign(ds=panel.days[start:].astype("datetime64[s]"), y=counts[row, start:])


def _fit(make: Any, data: pd.DataFrame, first: Any) -> Any | None:
    """Fit the known days, with the regressors of the first fit; the first fit uses those that
    varied."""
    past = data.dropna()
    if len(past) < ENOUGH:
        return None
    model = make(uncertainty_samples=SAMPLES)
    varied = (name for name in data.columns.drop(["ds", "y"]) if past[name].std() > 0)
    for name in first.extra_regressors if first else varied:
        model.add_regressor(name)
    try:
        return model.fit(past, seed=0, **({"init": _start(first)} if first else {}))
    except RuntimeError:  # Stan failed
        return first


def _start(model: Any) -> dict[str, Any]:
    """Return the parameters of a fitted model as initial values for Stan."""
    single = {name: float(model.params[name][0][0]) for name in ("k", "m", "sigma_obs")}
    return single | {name: model.params[name][0] for name in ("delta", "beta")}


def _ahead(model: Any, days: pd.DataFrame, levels: tuple[float, ...]) -> Doubles:
    """Quantiles (horizon, levels) of Prophet's own samples, about its point forecast."""
    days = days.drop(columns="y")
    np.random.seed(0)  # Prophet draws from the global generator
    samples = model.predictive_samples(days)["yhat"]
    point = model.predict(days, vectorized=True)["yhat"].to_numpy()
    quantiles: Doubles = (np.quantile(samples, levels, axis=1) - np.median(samples, axis=1) + point).T
    return quantiles


@contextmanager
def _quietly() -> Iterator[None]:
    """Suppress its output, and restore the global random numbers."""
    with quietly():
        state = np.random.get_state()
        try:
            yield
        finally:
            np.random.set_state(state)
