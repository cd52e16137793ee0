"""MLflow's Python function of a bundle: a long data frame in, quantiles out, by ONNX alone.

`mlflow.pyfunc.load_model("models:/NAME@champion")` loads it, and `mlflow models serve` serves it; both call
`_load_pyfunc` by its name, so that nothing is pickled, and nothing here imports MLflow.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from forecaster.api.frames import forecast_columns
from forecaster.api.pipeline_folder import PipelineFolder, frames_of, refuse_unknown_days
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.errors import BundleError
from forecaster.registry.run_record import BUNDLE
from forecaster.serving.predict import Predictor
from forecaster.training.recording.model_folder import EVENTS, PIPELINE, STATIC


class RegisteredModel:
    """A bundle with what it takes to make its inputs of a frame."""

    def __init__(
        self, predictor: Predictor, content: Mapping[str, Any], static: pa.Table | None, events: pa.Table | None
    ) -> None:
        """`content` is what a pipeline file says but for its sources."""
        self._predictor, self._content, self._static, self._events = predictor, content, static, events

    def predict(self, df: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Forecasts of each depot for the days after the last one of the frame, as a frame like the one given.

        `df` has a row a depot and day: depot_id, date, demand, and the covariates that the readings bring, those also
        of the days ahead, with an empty demand. Columns of the answer: depot_id, date, forecast (the median), q0.1 …,
        mean. A depot that the model was not trained on gets the seasonal naive. MLflow's `params` change nothing.

        Raises SpecError for a frame that lacks a column or a covariate ahead, NoUsableData where nothing is known.
        """
        from forecaster.demand.panel.build import build
        from forecaster.publishing import caveats
        from forecaster.publishing.forecast import naive_for_strangers

        frames = frames_of(df, None, None, self._content["calendar"]["known_future"])
        static = _of(self._static, "depot_id", frames.readings.table["depot_id"])
        frames = replace(frames, static=static, events=self._events_of(static))
        bundle = self._predictor.bundle
        with tempfile.TemporaryDirectory(prefix="forecaster-") as work:
            folder = PipelineFolder.create(Path(work), self._content, frames)
            knowledge, _ = folder.knowledge()
            panel: Panel = build(knowledge, folder.spec, bundle.encoding)
        refuse_unknown_days(knowledge, panel, frames.covariates)
        new = caveats.newcomers(panel, bundle.manifest["depots"], panel.encoding.statics)
        forecast: Forecast = naive_for_strangers(self._predictor(panel), panel, new)
        return frames.kind.frame(forecast_columns(forecast, frames.kind))

    def _events_of(self, static: pa.Table | None) -> pa.Table | None:
        """The events that concern some of the depots."""
        events = self._events
        for name in ("depot_id", "city"):
            if events is not None and static is not None and {name} <= {*events.column_names} & {*static.column_names}:
                everyone = pa.array(["", None], static[name].type)
                events = _of(events, name, pa.chunked_array([*static[name].chunks, everyone]))
        return events


def _of(table: pa.Table | None, name: str, values: pa.ChunkedArray) -> pa.Table | None:
    """The rows of a table whose column has one of the values: depots that a frame leaves out are not forecast."""
    if table is None:
        return None
    return table.filter(pc.is_in(table[name], value_set=values.unique().cast(table[name].type)))


def _load_pyfunc(path: str) -> RegisteredModel:
    """The model of a folder of MLflow's: the bundle is believed where a key of FORECASTER_TRUSTED_KEYS, else one of the
    folder's own, has signed it. Raises BundleError where it is damaged, or not signed so."""
    from forecaster.serving import bundle as bundles

    folder = Path(path)
    names = sorted(place.name for place in (folder / BUNDLE).glob("*"))
    if len(names) != 1:
        raise BundleError(f"{folder / BUNDLE}: found {', '.join(names) or 'nothing'}, wanted one bundle")
    predictor = Predictor(bundles.load(folder / BUNDLE / names[0], folder))
    static, events = (pq.read_table(folder / name) if (folder / name).exists() else None for name in (STATIC, EVENTS))
    return RegisteredModel(predictor, json.loads((folder / PIPELINE).read_text("utf-8")), static, events)
