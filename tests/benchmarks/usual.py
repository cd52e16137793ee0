"""LightGBM as a data scientist would first use it: mlforecast, with the lags and means of its guide
for daily data.

mlforecast needs pandas below 3, so it is in no extra. Without its own dependencies it runs with
ours:

    uv pip install --no-deps --target FOLDER mlforecast==1.1.0
    rm -r FOLDER/tests  # its own tests, which would shadow ours
    PYTHONPATH=FOLDER python -m tests.benchmarks.accuracy --models mlforecast

Compare the LightGBM of `forecaster.evaluation.baselines`, which knows more of a day and is the
stronger rival.
"""

from __future__ import annotations

import copy
from importlib.util import find_spec

import numpy as np

from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines.naive import complete
from forecaster.evaluation.baselines.optional import import_optional, quietly
from tests.benchmarks import frames

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
MAX_ROWS = 800_000  # rows to train on; with more depots, only the last days


def mlforecast(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """Fit one model per step ahead on the log counts, scaled by depot; all levels are the point
    forecast.

    Raises MissingExtra if mlforecast is not installed.
    """
    if find_spec("mlforecast") is None:
        raise MissingExtra(f"no package mlforecast; the docstring of {__file__} describes its installation")
    library, transforms = (
        import_optional("mlforecast", "mlforecast"),
        import_optional("mlforecast.target_transforms", "mlforecast"),
    )
    lags, gbm = import_optional("mlforecast.lag_transforms", "mlforecast"), import_optional("lightgbm", "mlforecast")
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
    rows = frames.rows(panel, range(max(0, panel.history - MAX_ROWS // len(panel.depot_ids)), panel.history))
    with quietly():  # it warns of lags before the first day
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
            since = frames.rows(at, range(until, at.history)).drop(columns="weight")
            now.update(since[since["unique_id"].isin(now.ts.uids)])  # it accepts no depot opened since
        ahead = frames.known_ahead(at, range(at.history, at.history + at.horizon), now.ts.uids)
        with quietly():
            predicted = now.predict(at.horizon, X_df=ahead)
        point = np.full((len(at.depot_ids), at.horizon), np.nan)
        point[np.asarray(now.ts.uids, int)] = np.expm1(predicted["point"].to_numpy().reshape(-1, at.horizon))
        return complete(at, levels, np.repeat(point[:, :, None], len(levels), axis=2))

    return predict
