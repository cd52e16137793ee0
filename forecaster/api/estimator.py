"""Forecaster: three lines from a data frame to calibrated forecasts and rosters, with the code of
the nightly run."""

from __future__ import annotations

import inspect
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from forecaster.api import saved_folder
from forecaster.api.backtest_result import BacktestResult
from forecaster.api.caller_terms import ARGUMENTS, OF_BACKTEST, as_python, day_of, in_caller_terms, whole_number
from forecaster.api.candidate_model import CandidateModel, Predict, newcomers, of_bundle, published, reference
from forecaster.api.fitting import FittedModel, fit
from forecaster.api.frames import FrameKind, forecast_columns
from forecaster.api.other_panels import FittedOn, other_panel
from forecaster.api.pipeline_folder import (
    PipelineFolder,
    WorkFolder,
    frames_to_learn_from,
    logger,
    merged,
)
from forecaster.api.rosters import roster_columns, staffing_of
from forecaster.core.forecast import Forecast
from forecaster.core.language.near_words import did_you_mean, nearest_word
from forecaster.core.panel import Panel
from forecaster.core.terminal import count
from forecaster.demand.panel.known_future.covariates import refuse_unknown_days
from forecaster.errors import NoUsableData, SpecError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class Forecaster:
    """Probabilistic forecasts of daily counts of many depots at once, and rosters from them.

    A global GRU (`forecaster.model`) over all depots, trained by this process; it follows scikit-learn's conventions
    for estimators: arguments are kept as they are given and checked by `fit`.

    Parameters
    ----------
    horizon: days ahead.
    country, subdivision: ISO 3166 codes, whose public holidays are known; a frame `static` may have them by depot.
    preset: `quick` for a look, `nightly`, or `best`, which takes several times as long.
    quantiles: levels in rising order, 0.1, 0.5 and 0.9 among them.
    known_future: columns of the frame, or kinds of events, that are known of the days ahead.
    timezone: whose local days are counted.
    seed: what randomness starts from: the same seed and frame give the same model on one machine.
    progress: whether a bar is shown while it trains.
    options: anything else that a pipeline file may say, as in {"training": {"members": 3}}; see docs/pipeline-file.md.
    """

    def __init__(
        self,
        *,
        horizon: int = 7,
        country: str | None = None,
        subdivision: str | None = None,
        preset: str = "nightly",
        quantiles: Sequence[float] = LEVELS,
        known_future: Sequence[str] = (),
        timezone: str = "UTC",
        seed: int = 0,
        progress: bool = True,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.horizon = horizon
        self.country = country
        self.subdivision = subdivision
        self.preset = preset
        self.quantiles = quantiles
        self.known_future = known_future
        self.timezone = timezone
        self.seed = seed
        self.progress = progress
        self.options = options

    # ------------------------------------------------------------------------------------------- fit and predict

    def fit(self, df: Any, *, static: Any = None, events: Any = None) -> Self:
        """Train, backtest and calibrate on a long frame with one row per depot and day.

        `df` has the columns depot_id, date and demand (or unique_id, ds and y), those of
        `known_future`, and optionally `open`, which is 0 on closed days, and `capped`, which is 1
        if demand was higher than the count; an empty demand is unknown, 0 means no demand. `static`
        has one row per depot: depot_id and attributes such as city and country. `events` has date,
        kind and name, and optionally until, depot_id, city, subdivision, country; the kind
        `closure` closes.

        Raises SpecError for wrong arguments and columns, NoUsableData if there is too little to
        learn from, TrainingError if training fails. Faults of single rows are logged and kept in
        `findings`.
        """
        frames = frames_to_learn_from(df, static, events, self.known_future)
        work, logged = WorkFolder(), set[str]()
        content, parameters = self.pipeline_content(), as_python(self.get_params())
        with in_caller_terms(work.path):
            folder = PipelineFolder.create(work.path, content, frames)
            fitted = fit(folder, progress=self.progress, logged=logged)
        self._logged = logged  # so that `predict` reports each finding once
        self._content, self._parameters = content, parameters  # `set_params` then only affects the next `fit`
        self._work, self._folder, self._frames, self._kind = work, folder, frames, frames.kind
        self._fitted: FittedModel | None = fitted
        self._bundle: Path | None = None
        self._knowledge, self._panel = fitted.knowledge, fitted.panel
        self._model: Predict = CandidateModel(fitted.candidate, compiled_for=len(fitted.panel.depot_ids))
        return self

    def predict(self, history: Any = None, *, future: Any = None) -> Any:
        """Forecast each depot for the `horizon` days after the cutoff, as a frame like the given
        one.

        Columns: depot_id, date, forecast (the median) and q0.1 … q0.9; under Nixtla's names
        unique_id, ds, Forecaster, Forecaster-lo-80, Forecaster-hi-80 and Forecaster-q-0.1 …. Counts
        are per day, 0 on closed days. `future` has the columns of `known_future` for each depot and
        day ahead; `history` replaces the readings of `fit`, and may have newer days and other
        depots; depots missing from it are not forecast.

        Raises SpecError if `future` lacks required values, NoUsableData if no demand is known.
        """
        forecast, _, kind = self._forecast(history, future)
        return kind.frame(forecast_columns(forecast, kind))

    def roster(self, history: Any = None, *, future: Any = None, **staffing: Any) -> Any:
        """Plan the cheapest crews for the days ahead: one row per depot and day, with `drivers`
        (whole persons), `chance_short` (a share: that the day needs more) and `expected_cost` (of
        missing and idle drivers, in the unit of cost_short).

        The crew is the newsvendor's: the quantile at cost_short / (cost_short + cost_idle) of the
        drivers that the orders need (Arrow, Harris and Marschak, Optimal Inventory Policy,
        Econometrica 19, 1951).

        `staffing` holds the keys of that section of a pipeline file: at least orders_per_driver,
        cost_short and cost_idle, also crew, vans and shifts. Raises SpecError for invalid ones.
        """
        from forecaster.staffing.rosters import cheapest, vans_of

        declared = staffing_of(staffing)
        forecast, panel, kind = self._forecast(history, future)
        roster = cheapest(forecast, declared, vans_of(panel, declared))
        return kind.frame(roster_columns(roster, forecast, kind))

    def backtest(
        self,
        windows: int = 4,
        *,
        baselines: Sequence[str] = ("seasonal_naive",),
        df: Any = None,
        static: Any = None,
        events: Any = None,
    ) -> BacktestResult:
        """Forecast past days and compare with the actuals: the last `windows` horizons, each from
        the day before.

        The model is trained as of the first cutoff, without any later data; baselines
        (seasonal_naive, seasonal_window_average, auto_ets, theta, mstl, prophet, lightgbm) forecast
        the same days. By default the frames are those of `fit`; the fitted model stays unchanged.
        Raises NoUsableData if the history is too short, MissingExtra for a baseline that is not
        installed.
        """
        if df is None:
            self._check_fitted()
        frames = self._frames if df is None else frames_to_learn_from(df, static, events, self.known_future)
        content = merged(self.pipeline_content(), _backtest_section(windows, self.horizon, baselines))
        with tempfile.TemporaryDirectory(prefix="forecaster-") as work, in_caller_terms(Path(work)):
            folder = PipelineFolder.create(Path(work), content, frames, {**ARGUMENTS, **OF_BACKTEST})
            fitted = fit(folder, progress=self.progress, logged=self._logged if df is None else None)
        return BacktestResult(fitted.scores, frames.kind)

    # ------------------------------------------------------------------------------------------- looks

    @property
    def findings(self) -> Any:
        """Findings of the checks of the frame, as a frame: rule, severity, count (of rows),
        message. Raises NoUsableData if nothing is fitted, and for a loaded forecaster, which only
        has the model."""
        fitted = self._needs_fit("findings")
        types = {"rule": pa.string(), "severity": pa.string(), "count": pa.int64(), "message": pa.string()}
        columns = {name: pa.array([getattr(f, name) for f in fitted.findings], kind) for name, kind in types.items()}
        return self._kind.frame(columns)

    @property
    def scores(self) -> BacktestResult:
        """Scores of the model and of the simplest baselines on the last days, which the model did
        not learn from. Raises NoUsableData as `findings` does."""
        return BacktestResult(self._needs_fit("scores").scores, self._kind)

    def why(self, depot: Any, day: str | date, *, of: str = "forecast", future: Any = None) -> Any:
        """Parts of a forecast in orders, as a frame, which add up to it, or, with `of="band"`, to
        the width of its 80 % band (q0.9 − q0.1).

        For a forecast: the mean of the last four open days of that weekday, the model's level and
        season, each known-future covariate, and holidays. For a band: the depot's own scatter (the
        width that the mean of four same weekdays would have needed on its days of the last year),
        the network's view of it for a first day ahead, the days ahead, a surprising last week,
        calibration on held-out days, the bound by the largest known count, and the uncertainty of a
        young depot. Each part is the difference that it makes when added to those before it (a
        sequential swap). Raises SpecError for a depot or day without forecast.
        """
        from forecaster.api.explanation import band_parts, parts

        if of not in ("forecast", "band"):
            raise SpecError(f"of: found {of!r}, wanted 'forecast' or 'band'")
        self._check_fitted()
        panel, _ = self._panel_of(None, future)
        predict, place = published(self._model, self._panel), (panel, str(depot), day_of(day))
        rows = parts(predict, *place) if of == "forecast" else band_parts(predict, reference(self._model), *place)
        return self._kind.frame({"part": [name for name, _ in rows], "orders": [orders for _, orders in rows]})

    def plot(self, depot: Any, *, days: int = 56, future: Any = None) -> Figure:
        """Plot the last `days` days of a depot and the forecast with its 80 % band, as a figure of
        matplotlib.

        Raises SpecError for a depot without forecast, MissingExtra without matplotlib.
        """
        from forecaster.api.figures import depot_figure

        forecast, panel, _ = self._forecast(None, future)
        return depot_figure(forecast, panel, str(depot), days)

    # ------------------------------------------------------------------------------------------- save and load

    def save(self, path: str | Path) -> Path:
        """Write the fitted model into a new folder: a signed bundle, the frames, and a pipeline
        file, for `Forecaster.load` and `forecaster run`. ONNX and NumPy must agree with JAX before
        anything is written.

        Raises ExportError if they do not, SpecError if the folder exists and is not empty.
        """
        self._check_fitted()
        return saved_folder.write(Path(path), self._folder, self._exported(), self._parameters, self._kind)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a saved forecaster, which forecasts without JAX.

        Its bundle is trusted if it is signed with a key of FORECASTER_TRUSTED_KEYS, or else with
        one of the folder's own. Raises BundleError for a damaged or untrusted bundle, SpecError for
        a folder that holds none.
        """
        from forecaster.demand.panel.build import build

        saved = saved_folder.read(Path(path))
        loaded = cls(**saved.parameters)
        loaded._content, loaded._parameters = loaded.pipeline_content(), as_python(loaded.get_params())
        work, loaded._logged = WorkFolder(), set()
        shutil.copytree(path, work.path, dirs_exist_ok=True)
        with in_caller_terms(work.path, place=str(path)):
            folder = PipelineFolder.open(work.path)
            loaded._bundle = folder.spec.paths.bundle(saved.bundle)
            predictor = of_bundle(loaded._bundle, folder.spec.paths.folder)
            knowledge, _ = folder.knowledge(loaded._logged)
        loaded._work, loaded._folder, loaded._kind, loaded._fitted = work, folder, saved.kind, None
        loaded._frames = saved_folder.frames(folder.folder, saved.kind)
        loaded._knowledge = knowledge
        loaded._panel = build(knowledge, folder.spec, predictor.bundle.encoding)
        loaded._model = predictor
        return loaded

    # ------------------------------------------------------------------------------------------- scikit-learn

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Arguments of the constructor, by name."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def set_params(self, **params: Any) -> Self:
        """Change arguments for the next `fit`. Raises SpecError for an unknown one."""
        for name, value in params.items():
            if name not in self.get_params():
                hint = did_you_mean(nearest_word(name, self.get_params()))
                raise SpecError(f"found '{name}', wanted one of {', '.join(self.get_params())}{hint}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        values = {name: _repeatable(value) for name, value in self.get_params().items()}
        pairs = [f"{name}={value!r}" for name, value in values.items() if value != defaults[name].default]
        arguments = f"Forecaster({', '.join(pairs)})"
        if not hasattr(self, "_panel"):
            return f"{arguments}, not fitted"
        panel = self._panel
        days = f"{count(panel.history, 'day')} up to {panel.cutoff}"
        return f"{arguments}, fitted on {count(len(panel.depot_ids), 'depot')}, {days}"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_panel")

    def __getstate__(self) -> dict[str, Any]:
        """State for another process: the fitted model, and the files that `save` would write."""
        state = dict(vars(self))
        if hasattr(self, "_panel"):
            del state["_work"], state["_folder"], state["_model"]
            state["_files"] = saved_folder.contents(self._folder, self._bundle)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.pop("_files", None)
        vars(self).update(state)
        if files is None:
            return
        self._work = WorkFolder()
        saved_folder.write_contents(self._work.path, files)
        self._folder = PipelineFolder.open(self._work.path)
        paths = self._folder.spec.paths
        self._bundle = paths.bundle(self._bundle.name) if self._bundle else None
        if self._fitted is None:
            self._model = of_bundle(self._bundle or Path(), paths.folder)
        else:
            self._model = CandidateModel(self._fitted.candidate)

    # ------------------------------------------------------------------------------------------- inside

    def pipeline_content(self) -> dict[str, Any]:
        """Content of a pipeline file for these arguments, without its sources."""
        calendar = {
            "country": self.country,
            "subdivision": self.subdivision,
            "known_future": as_python(self.known_future),
        }
        content: dict[str, Any] = {
            "name": "forecaster",
            "timezone": self.timezone,
            "horizon": self.horizon,
            "calendar": {name: value for name, value in calendar.items() if value},
            "model": {"quantiles": as_python(self.quantiles)},
            "training": {"preset": self.preset, "seed": self.seed},
            "state": "state",
        }
        options = {} if self.options is None else self.options
        if not isinstance(options, Mapping):
            raise SpecError(f"options: found {options!r}, wanted a mapping, as in {{'training': {{'members': 3}}}}")
        result: dict[str, Any] = as_python(merged(content, options))
        return result

    def _check_fitted(self) -> None:
        if not hasattr(self, "_panel"):
            raise NoUsableData("this forecaster is not fitted: call fit(df) first")

    def _needs_fit(self, member: str) -> FittedModel:
        self._check_fitted()
        if self._fitted is None:
            raise NoUsableData(f"{member}: this forecaster was loaded, so it has only the model: call fit(df) first")
        return self._fitted

    def _forecast(self, history: Any, future: Any) -> tuple[Forecast, Panel, FrameKind]:
        """Forecast, the panel that it continues, and the kind of its frame."""
        from forecaster.serving.fallback import naive_where

        self._check_fitted()
        panel, kind = self._panel_of(history, future)
        new = newcomers(panel, self._panel)
        for note in new.notes():
            logger.warning(note.text)
        return naive_where(self._model(panel), panel, new.rows), panel, kind

    def _panel_of(self, history: Any, future: Any) -> tuple[Panel, FrameKind]:
        """Panel to forecast from, in the model's own encoding, and the kind of its frame; built
        from `history` or `future` if they are given."""
        if history is None and future is None:
            refuse_unknown_days(self._knowledge, self._panel, self._frames.covariates)
            return self._panel, self._kind
        fitted = FittedOn(self._content, self._frames, self._panel.encoding, self._logged)
        panel, frames = other_panel(fitted, history=history, future=future)
        return panel, frames.kind

    def _exported(self) -> Path:
        """Folder of the signed bundle, created on first use."""
        from forecaster.training.export import to_bundle

        if self._bundle is None:
            fitted = self._needs_fit("save")
            with in_caller_terms(self._folder.folder):
                exported = to_bundle(fitted.candidate, fitted.panel, fitted.scores, fitted.knowledge, self._folder.spec)
            self._bundle = exported.folder
        return self._bundle


def _repeatable(value: Any) -> Any:
    """Argument as shown by `repr`: a list or array becomes a tuple, so that a loaded forecaster,
    whose arguments were JSON, shows the same."""
    value = as_python(value)
    return tuple(value) if isinstance(value, list) else value


def _backtest_section(windows: int, horizon: int, baselines: Sequence[str]) -> dict[str, Any]:
    if isinstance(baselines, str):
        raise SpecError(f"baselines: found the text {baselines!r}, wanted a list of names: [{baselines!r}]")
    windows, every = whole_number("windows", windows, least=1), whole_number("horizon", horizon, least=1)
    return {"backtest": {"days": windows * every, "every": every, "baselines": list(baselines)}}
