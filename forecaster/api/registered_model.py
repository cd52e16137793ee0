"""MLflow Python function of a bundle: from a long data frame to quantiles, using only ONNX.

A registered model carries this module and all modules of this package that it imports
(`forecaster.registry.carried_code`), so that `mlflow.pyfunc.load_model("models:/NAME@champion")`
and `mlflow models serve` need neither this package nor a table of holidays. They call
`_load_pyfunc` by its name: nothing is pickled, and nothing here imports MLflow.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from forecaster.api.frames import OURS, TIMESTAMP, FrameKind, forecast_columns
from forecaster.config import Spec
from forecaster.core.knowledge import Knowledge
from forecaster.demand.panel import build
from forecaster.demand.panel.event_scope import ADDRESS
from forecaster.demand.panel.known_future import covariates
from forecaster.errors import BundleError, NoUsableData, SpecError
from forecaster.publishing import caveats
from forecaster.registry.run_record import BUNDLE
from forecaster.serving import bundle as bundles
from forecaster.serving.fallback import naive_where
from forecaster.serving.predict import Predictor
from forecaster.training.recording.model_folder import BUSINESS, EVENTS, PIPELINE, STATIC


class RegisteredModel:
    """Bundle with the data needed to build its inputs from a frame."""

    def __init__(self, predictor: Predictor, spec: Spec, static: pd.DataFrame, events: pd.DataFrame) -> None:
        """Keep the parts; `spec` is the pipeline file without its sources."""
        self._predictor, self._spec, self._static, self._events = predictor, spec, static, events

    def predict(self, df: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Forecast each depot for the days after the cutoff of the frame, as a pandas frame.

        `df` has one row per depot and day: depot_id, date, demand, and the covariates of the
        readings; for the days ahead, rows with covariates and an empty demand. Columns of the
        result: depot_id, date, forecast (the median), q0.1 …, mean. A depot that the model was not
        trained on gets the seasonal naive forecast. MLflow's `params` are ignored.

        Raises SpecError for a frame that lacks a column or a covariate ahead, or has an invalid
        row; NoUsableData if no demand is known.
        """
        columns = [name for name in self._spec.calendar.known_future if name in df.columns]
        demand = _readings(df, columns)
        bundle = self._predictor.bundle
        static = self._static.set_index("depot_id").reindex(demand["depot_id"].unique()).reset_index()
        limit = self._spec.demand.rules.max_demand
        is_refused = demand["demand"] > (np.inf if limit is None else limit)
        knowledge = Knowledge(
            datetime.now(UTC),
            demand[~is_refused],
            static,
            self._events,
            {},
            demand.loc[is_refused, ["depot_id", "date"]],
        )
        panel = build.build(knowledge, self._spec, bundle.encoding, carried=bundle.manifest.get("calendars"))
        covariates.refuse_unknown_days(knowledge, panel, columns)
        new = caveats.newcomers(panel, bundle.manifest["depots"], panel.encoding.statics)
        forecast = naive_where(self._predictor(panel), panel, new.rows)
        kind = FrameKind(None, OURS, pa.string(), TIMESTAMP)
        return pa.table(forecast_columns(forecast, kind)).to_pandas()


def _readings(df: Any, known_future: Sequence[str]) -> pd.DataFrame:
    """Rows of a frame as readings. Raises SpecError for an invalid row, NoUsableData if there is no
    row."""
    if missing := [name for name in OURS if name not in df.columns]:
        raise SpecError(f"df: found the columns {', '.join(map(str, df.columns))}; wanted {', '.join(missing)} too")
    if not len(df):
        raise NoUsableData("df: found no row, wanted one for each depot and day")
    df = df.reset_index(drop=True)
    ids = df["depot_id"].astype("str").str.strip()
    dates = pd.to_datetime(df["date"], errors="coerce")
    dates = (dates.dt.tz_localize(None) if dates.dt.tz is not None else dates).dt.normalize().astype("datetime64[s]")
    demand = pd.to_numeric(df["demand"], errors="coerce").astype("float64")
    _refuse(df, "depot_id", df["depot_id"].isna() | (ids == ""), "a depot's id")
    _refuse(df, "date", dates.isna(), "a day, as 2026-03-01")
    wrong = (demand.isna() & df["demand"].notna()) | (demand < 0) | np.isinf(demand)
    _refuse(df, "demand", wrong, "a count of 0 or more, or nothing if it is not known")
    readings = pd.DataFrame({"depot_id": ids, "date": dates, "demand": demand})
    _refuse(df, "date", readings.duplicated(["depot_id", "date"]), "one row for each depot and day")
    return readings.assign(**{name: _covariate(df[name]) for name in known_future})


def _refuse(df: Any, column: str, wrong: Any, expected: str) -> None:
    if (rows := np.flatnonzero(wrong)).size:
        row = int(rows[0])
        depot, value = df["depot_id"].iloc[row], df[column].iloc[row]
        raise SpecError(f"df: row {row}, depot {depot!r}: found {column} {value!r}; wanted {expected}")


def _covariate(values: Any) -> Any:
    """Values as numbers, or as words if some are not numeric."""
    numbers = pd.to_numeric(values, errors="coerce")
    return numbers.astype("float64") if (numbers.notna() == values.notna()).all() else values.astype("str")


def _load_pyfunc(path: str) -> RegisteredModel:
    """Load the model of an MLflow folder: the bundle is trusted if it is signed with a key of
    FORECASTER_TRUSTED_KEYS, or else with one of the folder's own. Raises BundleError if it is
    damaged or not signed this way."""
    folder = Path(path)
    names = sorted(place.name for place in (folder / BUNDLE).glob("*"))
    if len(names) != 1:
        raise BundleError(f"{folder / BUNDLE}: found {', '.join(names) or 'nothing'}, wanted one bundle")
    predictor = Predictor(bundles.load(folder / BUNDLE / names[0], folder))
    content = json.loads((folder / PIPELINE).read_text("utf-8"))
    static = _table(folder / STATIC, ["depot_id", *BUSINESS])
    events = _table(folder / EVENTS, ["date", "kind", "name", *ADDRESS])
    content["demand"] |= {"source": {"kind": "parquet", "path": "."}, "recorded": "next_day"}
    if (folder / STATIC).exists():
        attributes = [name for name in static if name not in ("depot_id", *BUSINESS)]
        content["depots"] = {"source": {"kind": "parquet", "path": STATIC}, "static": attributes}
    if (folder / EVENTS).exists():
        content["calendar"]["events"] = {"source": {"kind": "parquet", "path": EVENTS}}
    return RegisteredModel(predictor, Spec.model_validate(content), static, events)


def _table(file: Path, columns: Sequence[str]) -> pd.DataFrame:
    """Table with at least these columns; without rows if the file is missing."""
    if not file.exists():
        return pd.DataFrame(columns=list(columns), dtype="object")
    table = pd.read_parquet(file)
    return table.reindex(columns=list(dict.fromkeys([*table.columns, *columns])))
