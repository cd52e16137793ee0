"""Run one library in its own process: import, first forecast, and forecasts of later windows of a
frame in a file.

    python library_rivals.py NAME FRAME FORECASTS

FRAME (Parquet) has the columns unique_id, ds, y and country; the last `WINDOWS` × `HORIZON` days
are held out. Each library is fitted once, before the first window, as in the first example of its
documentation, and forecasts each window from the days before it. Prophet, which keeps no state
between series and days, is fitted for each window. This runs in the library's environment, so it
imports nothing of this project except `forecaster` itself.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time
import warnings

import numpy as np
import pandas as pd

HORIZON, WINDOWS = 7, 4


def forecaster_quick(country):
    from forecaster import Forecaster

    model = Forecaster(horizon=HORIZON, country=country, preset=os.environ.get("PRESET", "quick"), progress=False)
    logging.getLogger("forecaster").setLevel(logging.ERROR)
    return model.fit, lambda past: model.predict(past).rename(columns={"Forecaster": "forecast"}), False


def neuralforecast_gru(country):
    from neuralforecast import NeuralForecast
    from neuralforecast.losses.pytorch import MQLoss
    from neuralforecast.models import GRU

    quiet = {
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "logger": False,
        "enable_checkpointing": False,
    }
    model = GRU(h=HORIZON, input_size=56, loss=MQLoss(level=[80]), scaler_type="robust", accelerator="cpu", **quiet)
    library = NeuralForecast(models=[model], freq="D")

    def predict(past):
        predicted = library.predict(df=past).rename(columns={"GRU-median": "forecast"})
        return predicted[["unique_id", "ds", "forecast"]]

    return library.fit, predict, True


def mlforecast_lightgbm(country):
    import lightgbm
    from mlforecast import MLForecast
    from mlforecast.target_transforms import Differences

    library = MLForecast(
        models={"forecast": lightgbm.LGBMRegressor(verbosity=-1, random_state=0)},
        freq="D",
        lags=[1, 7, 14, 21, 28],
        date_features=["dayofweek", "month"],
        target_transforms=[Differences([7])],
    )

    def predict(past):
        return library.predict(HORIZON, new_df=past)

    return lambda df: library.fit(df, static_features=[]), predict, True


def autogluon_fast(country):
    import tempfile

    from autogluon.timeseries import TimeSeriesDataFrame, TimeSeriesPredictor

    folder = tempfile.mkdtemp()
    library = TimeSeriesPredictor(
        prediction_length=HORIZON, freq="D", target="y", eval_metric="MASE", path=folder, verbosity=0
    )

    def rows(df):
        return TimeSeriesDataFrame.from_data_frame(df, id_column="unique_id", timestamp_column="ds")

    def predict(past):
        predicted = library.predict(rows(past)).reset_index()
        names = {"item_id": "unique_id", "timestamp": "ds", "0.5": "forecast"}
        return predicted.rename(columns=names)[["unique_id", "ds", "forecast"]]

    return lambda df: library.fit(rows(df), presets="fast_training", enable_ensemble=True), predict, True


def prophet(country):
    from prophet import Prophet

    logging.getLogger("cmdstanpy").setLevel(logging.ERROR)

    def predict(past):
        frames = []
        for name, series in past.groupby("unique_id"):
            model = Prophet()
            model.add_country_holidays(country_name=country)
            model.fit(series[["ds", "y"]])
            ahead = model.make_future_dataframe(HORIZON, include_history=False)
            predicted = model.predict(ahead)[["ds", "yhat"]].rename(columns={"yhat": "forecast"})
            frames.append(predicted.assign(unique_id=name))
        return pd.concat(frames)

    return lambda df: None, predict, True


LIBRARIES = {
    "forecaster": forecaster_quick,
    "neuralforecast": neuralforecast_gru,
    "autogluon": autogluon_fast,
    "mlforecast": mlforecast_lightgbm,
    "prophet": prophet,
}


def filled(df):
    """Fill missing days, which some libraries reject, from the same weekday before, else after."""
    by_weekday = df.groupby(["unique_id", df["ds"].dt.dayofweek])["y"]
    return df.assign(y=by_weekday.ffill().fillna(by_weekday.bfill()).fillna(0.0))


def main() -> int:
    warnings.simplefilter("ignore")
    name, source, target = sys.argv[1:4]
    whole = pd.read_parquet(source)
    country = str(whole.pop("country").iloc[0])
    first = whole["ds"].max() - pd.Timedelta(days=HORIZON * WINDOWS)
    past = whole[whole["ds"] <= first]
    started, processor = time.monotonic(), sum(os.times()[:4])  # including child processes
    fit, predict, wants_filled = LIBRARIES[name](country)
    prepared = filled if wants_filled else lambda df: df
    fit(prepared(past))
    frames = [predict(prepared(past)).assign(cutoff=first)]
    seconds, processor = time.monotonic() - started, sum(os.times()[:4]) - processor
    for window in range(1, WINDOWS):
        cutoff = first + pd.Timedelta(days=HORIZON * window)
        frames.append(predict(prepared(whole[whole["ds"] <= cutoff])).assign(cutoff=cutoff))
    forecasts = pd.concat(frames)[["unique_id", "ds", "cutoff", "forecast"]]
    forecasts["forecast"] = np.maximum(forecasts["forecast"].astype(float), 0)
    forecasts.to_parquet(target)
    print(json.dumps({"seconds": seconds, "processor": processor, "load": os.getloadavg()[0]}))
    return 0


if __name__ == "__main__":
    sys.path.pop(0)
    sys.exit(main())
