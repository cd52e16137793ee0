"""The torch GRU of neuralforecast, with what ours knows of the days ahead.

neuralforecast needs torch, ray and lightning, and is in no extra. It runs with our packages:

    uv pip install --target FOLDER torch==2.13.0
    uv pip install --no-deps --target FOLDER neuralforecast==3.3.0 pytorch-lightning lightning-utilities torchmetrics \
        coreforecast utilsforecast optuna ray tensorboardx colorlog tqdm safetensors msgpack
    PYTHONPATH=FOLDER python -m tests.benchmarks.accuracy --models neuralforecast

Next to other work, `OMP_NUM_THREADS=1` is many times faster: torch's threads busy-wait for each
other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd

from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines.naive import complete
from forecaster.evaluation.baselines.optional import import_optional, quietly
from tests.benchmarks import frames

INPUT_DAYS = 56  # days before a forecast that the model reads
HIDDEN = 64  # as wide as the recurrence in the speed benchmark; the library's default is 200
STEPS = 1000  # the library's default
EMBEDDED = {"weekday": 7, "month": 12}  # columns that are embedded instead of scaled, and their number of values
NOISY_LOGGERS = ("pytorch_lightning", "lightning_fabric")


def neuralforecast(panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """Fit quantiles of the log counts with two layers and the library's decoder, all depots in one
    model.

    Raises MissingExtra if neuralforecast is not installed.
    """
    if find_spec("neuralforecast") is None:
        raise MissingExtra(f"no package neuralforecast; the docstring of {__file__} describes its installation")
    with _quiet_loggers():
        library = import_optional("neuralforecast", "neuralforecast")
        models = import_optional("neuralforecast.models", "neuralforecast")
        losses = import_optional("neuralforecast.losses.pytorch", "neuralforecast")
        rows = frames.rows(panel, range(panel.history))
        static = {name: len(words) + 1 for name, words in _statics(panel).items()}
        futures = [name for name in rows if name not in {"unique_id", "ds", "y", "weight", *static}]
        model = library.NeuralForecast(
            models=[
                models.GRU(
                    h=panel.horizon,
                    input_size=INPUT_DAYS,
                    encoder_hidden_size=HIDDEN,
                    futr_exog_list=futures,
                    stat_exog_list=list(static) or None,
                    cat_exog_list=[*EMBEDDED, *static],
                    categorical_cardinalities={**EMBEDDED, **static},
                    loss=losses.MQLoss(quantiles=list(levels)),
                    max_steps=STEPS,
                    num_lr_decays=3,
                    start_padding_enabled=True,
                    random_seed=0,
                    alias="gru",
                    logger=False,
                    enable_progress_bar=False,
                    enable_model_summary=False,
                    enable_checkpointing=False,
                    accelerator="cpu",
                )
            ],
            freq="D",
            local_scaler_type="standard",
        )
        model.fit(_masked(rows, static), static_df=_static_rows(panel, rows))

    def predict(at: Panel) -> Forecast:
        with _quiet_loggers():
            since = frames.rows(at, range(max(0, at.history - 2 * INPUT_DAYS), at.history))
            ids = since["unique_id"].unique()
            ahead = frames.known_ahead(at, range(at.history, at.history + at.horizon), ids)
            predicted = model.predict(_masked(since, static), static_df=_static_rows(at, since), futr_df=ahead)
        log = predicted[[name for name in predicted if name.startswith("gru")]].to_numpy()
        quantiles = np.full((len(at.depot_ids), at.horizon, len(levels)), np.nan)
        quantiles[ids] = np.expm1(log.reshape(-1, at.horizon, len(levels)))
        return complete(at, levels, quantiles)

    return predict


def _masked(rows: pd.DataFrame, static: dict[str, int]) -> pd.DataFrame:
    """Return the rows in the library's format, in which filled days are masked from training."""
    return rows.drop(columns=list(static)).rename(columns={"weight": "available_mask"})


def _statics(panel: Panel) -> dict[str, Any]:
    names = frames.statics(panel, 1)
    return dict(zip(names, panel.encoding.statics.values(), strict=True))


def _static_rows(panel: Panel, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Return the static codes of the depots that have a row; None without static columns."""
    frame = pd.DataFrame({"unique_id": np.arange(len(panel.depot_ids)), **frames.statics(panel, 1)})
    static_rows = frame[frame["unique_id"].isin(rows["unique_id"])].reset_index(drop=True)
    return static_rows if len(static_rows.columns) > 1 else None


@contextmanager
def _quiet_loggers() -> Iterator[None]:
    """Silence the library's loggers."""
    for name in NOISY_LOGGERS:
        logging.getLogger(name).setLevel(logging.ERROR)
    with quietly():
        yield
