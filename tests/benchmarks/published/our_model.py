"""Our model on a published task: trained once before the first cutoff, or before each, and used at
every cutoff.

A panel contains only what was known at its cutoff. It is built by the code of the nightly run,
never cut from a panel of a later day. If series end on different days, a window has several
cutoffs, and each series is forecast at its own. For training, each series is known up to its own
first cutoff. Intervals are calibrated as in a backtest: on held-out days before the cutoff of the
training, and then on the windows that have passed.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Days, Doubles, Floats
from forecaster.core.forecast import Forecast
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Encoding, Panel
from forecaster.demand.panel import build as panels
from forecaster.evaluation import calibration
from forecaster.evaluation.rolling_calibration import RollingCalibration
from forecaster.model.network.features import LOOKBACK
from forecaster.training import fit_candidate
from tests.benchmarks.published.tasks import PublishedTask
from tests.benchmarks.published.windows import LEVELS, SeriesTable, Window
from tests.benchmarks.report import FOLDER

NO_EVENTS = ("date", "kind", "name", "depot_id", "city", "subdivision", "country")
MORNING = timedelta(hours=6)
BATCH = 64  # series per forecast if only some of them are forecast
STATE = FOLDER / "published"  # compiled programs, which the variants and seeds of a task share


@dataclass(frozen=True)
class Setting:
    """Variant of our model for a task, which identifies a result."""

    task: str
    holidays: bool
    preset: str
    seed: int
    retrain: bool


@dataclass(frozen=True)
class TaskForecasts:
    """Quantiles of every window, and the seconds of training and inference."""

    quantiles: tuple[Doubles, ...]  # (series of the window, horizon, levels) per window
    training_seconds: float  # including the first calibration and its panels
    inference_seconds: float  # including panels


class PanelBuilder:
    """Panels of a task's series as of any cutoff, with all series in their own order."""

    def __init__(self, task: PublishedTask, frame: pd.DataFrame, table: SeriesTable, spec: Spec) -> None:
        self._spec, self._table, self._zone = spec, table, ZoneInfo(task.timezone)
        self._frame, self._day = frame, frame["date"].to_numpy("datetime64[D]")
        self._row = np.searchsorted(np.asarray(table.ids), frame["depot_id"].to_numpy(str))
        self._ahead = task.is_open is not None or bool(task.known_future)
        self._depots = _depots(task, frame)

    def panel(self, cutoffs: Days, encoding: Encoding | None = None) -> Panel:
        """Return the panel at the latest of the series' cutoffs, (series,); each series is known up
        to its own."""
        latest: date = cutoffs.max().astype(object)
        is_past = self._day <= cutoffs[self._row]
        in_reach = ~is_past & (self._day <= np.datetime64(latest) + self._spec.horizon) & self._ahead
        demand = self._frame["demand"].to_numpy(np.float32, na_value=np.nan)
        rows = self._frame.assign(demand=np.where(is_past, demand, np.nan).astype(np.float32))
        rows = rows[(is_past & np.isfinite(demand)) | in_reach]
        as_of = datetime.combine(latest + timedelta(days=1), datetime.min.time(), self._zone) + MORNING
        events = pd.DataFrame({name: pd.Series(dtype="object") for name in NO_EVENTS})
        knowledge = Knowledge(as_of.astimezone(UTC), rows, self._depots, events, {}, cutoff=latest)
        return panels.build(knowledge, self._spec, encoding).among(self._table.ids)


def spec_of(task: PublishedTask, setting: Setting, state: Path) -> Spec:
    """Return the pipeline of a task, as a pipeline file would declare it."""
    source = {"kind": "parquet", "path": str(task.file)}
    opened = {} if task.is_open is None else {"open": task.is_open}
    ahead = {"known_future": list(task.known_future)}
    return Spec.model_validate(
        {
            "name": task.name.lower(),
            "timezone": task.timezone,
            "horizon": task.horizon,
            # A requested series is in business, however long it had no counts.
            "demand": {
                "source": source,
                "columns": opened,
                "recorded": "next_day",
                "rules": {"closed_after_days": 10_000},
            },
            **({"depots": {"source": source, "static": list(task.static)}} if task.static else {}),
            "calendar": {**ahead, "country": task.country} if setting.holidays else {**ahead, "holidays": False},
            "model": {"quantiles": LEVELS},
            "training": {"preset": setting.preset, "seed": setting.seed},
            "state": str(state),
        }
    )


def forecast_windows(
    task: PublishedTask, frame: pd.DataFrame, table: SeriesTable, windows: Sequence[Window], setting: Setting
) -> TaskForecasts:
    """Forecast every window, oldest first, with a model trained before the first of them, or before
    each.

    An interrupted training resumes from its checkpoint; its reported seconds are then too few.
    """
    quantiles, training, inference = [], 0.0, 0.0
    spec, checkpoints = spec_of(task, setting, STATE), checkpoint_folder(setting)
    builder = PanelBuilder(task, frame, table, spec)
    model: FittedModel | None = None
    for number, window in enumerate(windows):
        begun = time.perf_counter()
        if model is None or setting.retrain:
            model = FittedModel.trained(builder.panel(window.cutoffs), spec, checkpoints / str(number))
        trained = time.perf_counter()
        quantiles.append(_window_quantiles(model, builder, window, len(table.ids)))
        training += trained - begun
        inference += time.perf_counter() - trained
    shutil.rmtree(checkpoints, ignore_errors=True)
    return TaskForecasts(tuple(quantiles), training, inference)


def checkpoint_folder(setting: Setting) -> Path:
    """Return the folder of a setting's checkpoints, which are kept until all its windows are
    forecast."""
    return STATE / "checkpoints" / "-".join(str(value) for value in asdict(setting).values())


@dataclass(frozen=True)
class FittedModel:
    """A trained model that forecasts successive cutoffs."""

    quantiles: Callable[[Mapping[str, Any]], Floats]  # takes the arrays of `Panel.window`
    levels: tuple[float, ...]
    rolling: RollingCalibration
    encoding: Encoding

    @classmethod
    def trained(cls, before: Panel, spec: Spec, checkpoints: Path) -> FittedModel:
        """Train and calibrate on a panel; all its days may be used."""
        from forecaster.model.export import to_onnx

        candidate = fit_candidate.train_and_calibrate(before, spec, cutoff=before.cutoff, checkpoints=checkpoints)
        rolling = fit_candidate.rolling_forecaster(candidate, before, spec, cutoff=before.cutoff)
        return cls(to_onnx.on_arrays(candidate), candidate.levels, rolling, before.encoding)

    def forecast(self, panel: Panel) -> Forecast:
        """Return the forecast of all series, and calibrate later intervals on it."""
        return self.rolling(panel)

    def forecast_few(self, panel: Panel, rows: NDArray[np.intp]) -> Forecast:
        """Return the forecast of a few series, without an effect on later intervals.

        Series are forecast in whole batches, so that one program serves any number of them.
        """
        batch = np.resize(rows, -(-len(rows) // BATCH) * BATCH)
        wider = panel.widen_by_doubt(self.quantiles(panel.window(LOOKBACK, batch)), self.levels, batch)[: len(rows)]
        ids, open_ = tuple(panel.depot_ids[row] for row in rows), panel.open[rows, panel.history :]
        forecast = Forecast(ids, panel.cutoff, panel.target_dates, self.levels, wider, open_)
        return calibration.stretched(forecast, self.rolling.factors(panel))


def _window_quantiles(model: FittedModel, builder: PanelBuilder, window: Window, series: int) -> Doubles:
    """Return the quantiles of a window, (series of the window, horizon, levels), each series at its
    own cutoff."""
    rows, cutoffs = np.flatnonzero(window.rows), window.cutoffs[window.rows]
    days, counts = np.unique(cutoffs, return_counts=True)
    quantiles = np.full((len(rows), window.actual.shape[1], len(LEVELS)), np.nan)
    for day in days:
        panel = builder.panel(np.full(series, day), model.encoding)
        here = cutoffs == day
        if day == days[counts.argmax()]:
            quantiles[here] = model.forecast(panel).quantiles[rows[here]]
        else:
            quantiles[here] = model.forecast_few(panel, rows[here]).quantiles
    return quantiles


def _depots(task: PublishedTask, frame: pd.DataFrame) -> pd.DataFrame:
    rows = frame[["depot_id", *task.static]].drop_duplicates("depot_id", ignore_index=True)
    return rows.assign(opened=pd.NaT, closed=pd.NaT)
