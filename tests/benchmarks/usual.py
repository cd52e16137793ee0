"""LightGBM as a data scientist would first have it: mlforecast, with the lags and means of its guide for daily data.

mlforecast wants a pandas below 3, so it is in no extra. Without its own dependencies it runs with ours:

    uv pip install --no-deps --target FOLDER mlforecast==1.1.0
    rm -r FOLDER/tests  # it brings tests of its own, which would stand before ours
    PYTHONPATH=FOLDER python -m tests.benchmarks.accuracy --models mlforecast

It stands beside the LightGBM of `forecaster.evaluation.baselines`, which knows more of a day and is the harder rival.
"""

from __future__ import annotations

import copy
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from forecaster.errors import MissingExtra
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines.classical import filled
from forecaster.evaluation.baselines.naive import completed
from forecaster.evaluation.baselines.optional import needed, quietly
from forecaster.values import Doubles, Forecast, Panel

LAGS = (1, 2, 3, 4, 5, 6, 7, 14, 21, 28, 364)
PARAMETERS = {
    "objective": "l1",
    "n_estimators": 500,
    "learning_rate": 0.05,
    "num_leaves": 63,
    "colsample_bytree": 0.8,
    "n_jobs": 1,
    "random_state": 0,
    "verbosity": -1,
}
MOST = 800_000  # rows to learn from: of more depots the last days alone


def mlforecast(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """A model for each step ahead of the log counts, scaled by depot; all levels are the point forecast.

    Raises MissingExtra where mlforecast is not installed.
    """
    if find_spec("mlforecast") is None:
        raise MissingExtra(f"no package mlforecast; the head of {__file__} says how to install it")
    library, transforms = needed("mlforecast", "mlforecast"), needed("mlforecast.target_transforms", "mlforecast")
    lags, gbm = needed("mlforecast.lag_transforms", "mlforecast"), needed("lightgbm", "mlforecast")
    model = library.MLForecast(
        models={"point": gbm.LGBMRegressor(**PARAMETERS)},
        freq="D",
        lags=list(LAGS),
        lag_transforms={
            1: [lags.RollingMean(7), lags.RollingMean(28), lags.RollingStd(28), lags.ExpandingMean()],
            7: [lags.SeasonalRollingMean(7, 4)],
        },
        target_transforms=[transforms.LocalStandardScaler()],
    )
    rows = _rows(panel, range(max(0, panel.history - MOST // len(panel.depot_ids)), panel.history))
    with quietly():  # it warns of lags that lie before the first day
        model.fit(
            rows,
            static_features=[name for name in rows if name.startswith("static_")],
            max_horizon=panel.horizon,
            dropna=False,
            weight_col="weight",
        )
    until = panel.history

    def predict(at: Panel) -> Forecast:
        now = copy.deepcopy(model)
        if at.history > until:
            since = _rows(at, range(until, at.history)).drop(columns="weight")
            now.update(since[since["unique_id"].isin(now.ts.uids)])  # it takes no depot that opened since
        ahead = _known_ahead(at, range(at.history, at.history + at.horizon), now.ts.uids)
        with quietly():
            said = now.predict(at.horizon, X_df=ahead)
        point = np.full((len(at.depot_ids), at.horizon), np.nan)
        point[np.asarray(now.ts.uids, int)] = np.expm1(said["point"].to_numpy().reshape(-1, at.horizon))
        return completed(at, levels, np.repeat(point[:, :, None], len(levels), axis=2))

    return predict


def _rows(panel: Panel, days: range) -> pd.DataFrame:
    """A row for each of the days and depots from its first known count on; a gap is filled, and weighs nothing."""
    known = np.where(panel.open[:, : panel.history], panel.demand, np.nan)
    series: Doubles = np.log1p(filled(known))
    isknown = np.isfinite(known)
    begun = np.where(isknown.any(axis=1), isknown.argmax(axis=1), panel.history)
    frame = _known_ahead(panel, days, np.arange(len(panel.depot_ids)))
    frame["y"] = series[:, days.start : days.stop].reshape(-1)
    frame["weight"] = isknown[:, days.start : days.stop].reshape(-1).astype(float)
    frame = frame.assign(**_statics(panel, len(days)))
    return frame[(np.asarray(days)[None] >= begun[:, None]).reshape(-1)].reset_index(drop=True)


def _known_ahead(panel: Panel, days: range, depots: Any) -> pd.DataFrame:
    """What is known of the days before they come: their dates, holidays, covariates, and who is open."""
    rows, span = np.asarray(depots, int), slice(days.start, days.stop)
    dates = panel.days[span]
    month = dates.astype("datetime64[M]")
    by_day = {
        "weekday": (dates.astype(np.int64) + 3) % 7,
        "month": month.astype(np.int64) % 12,
        "day": (dates - month.astype(dates.dtype)).astype(np.int64),
        "day_of_year": (dates - dates.astype("datetime64[Y]").astype(dates.dtype)).astype(np.int64),
    }
    columns: dict[str, Any] = {
        "unique_id": np.repeat(rows, len(dates)),
        "ds": np.tile(dates.astype("datetime64[ns]"), len(rows)),
        **{name: np.tile(values, len(rows)) for name, values in by_day.items()},
        "open": panel.open[rows, span].reshape(-1).astype(float),
    }
    for place, name in enumerate(panel.calendar_names):
        if "holiday" in name:
            columns[name] = panel.calendar[panel.calendar_group[rows], span, place].reshape(-1)
    for place in range(len(panel.encoding.covariates)):
        columns[f"covariate_{place}"] = panel.covariates[rows, span, place].reshape(-1)
    return pd.DataFrame(columns)


def _statics(panel: Panel, days: int) -> dict[str, Any]:
    return {f"static_{place}": np.repeat(panel.statics[:, place], days) for place in range(len(panel.encoding.statics))}
