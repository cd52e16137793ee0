"""Inference with a bundle on a CPU: only onnxruntime and NumPy, no training code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import partial
from typing import Any

import numpy as np
import onnxruntime

from forecaster.core.arrays import Floats, Ints
from forecaster.core.forecast import Forecast
from forecaster.core.panel import Panel
from forecaster.core.parallel import available_cores
from forecaster.core.terminal import count
from forecaster.errors import BundleError, InputError
from forecaster.serving import input_checks
from forecaster.serving.bundle import Bundle
from forecaster.serving.input_checks import InputSpec

CHUNK = 4096  # depots per batch of windows; bounds memory
# maximum number of depots per run of the graph: intermediate results then stay in one core's cache
MAX_PIECE = 64
MIN_PIECE = 32  # depots; fewer are not worth a second thread


class Predictor:
    """A bundle that is ready to forecast; call it with a panel."""

    def __init__(self, bundle: Bundle, *, threads: int = 0) -> None:
        """Keep the bundle and open its graph.

        Up to `threads` pieces of a panel run in parallel; 0 means one per core. Raises BundleError
        if onnxruntime rejects the model.
        """
        self.bundle, self._threads = bundle, threads or available_cores()
        try:
            self._session = session(bundle.model)
        except Exception as error:  # onnxruntime has its own exception class for every fault
            raise BundleError(f"bundle {bundle.digest[:16]}: onnxruntime refuses the model: {error}") from error
        self.input_spec = InputSpec.of(bundle)

    def __call__(self, panel: Panel) -> Forecast:
        """Forecast quantiles of demand for every depot of the panel on the days after its cutoff.

        Raises BundleError if the panel was not built for this bundle or a quantile is not a number,
        and InputError if the panel has an invalid value.
        """
        if different := list(_differences(self.bundle, panel)):
            made_for = f"bundle {self.bundle.digest[:16]} was made for another pipeline file"
            raise BundleError(f"{made_for}: {'; '.join(different)}; the next night trains a model for this one")
        try:
            quantiles = self._quantiles(panel)
        except InputError as error:
            raise InputError(f"bundle {self.bundle.digest[:16]}: {error}") from error
        except Exception as error:  # as above
            raise BundleError(f"bundle {self.bundle.digest[:16]}: onnxruntime cannot run the model: {error}") from error
        if not np.isfinite(quantiles).all():
            depot = panel.depot_ids[int(np.argwhere(~np.isfinite(quantiles))[0][0])]
            raise BundleError(f"bundle {self.bundle.digest[:16]}: the forecast of depot {depot!r} is not a number")
        open_ = panel.open[:, panel.history :]
        return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, self.bundle.levels, quantiles, open_)

    def _quantiles(self, panel: Panel) -> Floats:
        parts = []
        for start in range(0, len(panel.depot_ids), CHUNK):
            rows = slice(start, start + CHUNK)
            predicted = self.quantiles(panel.window(self.bundle.lookback, rows), panel.depot_ids[rows], panel.cutoff)
            parts.append(panel.widen_by_doubt(predicted, self.bundle.levels, rows))
        return np.concatenate(parts)

    def quantiles(self, window: Mapping[str, Floats | Ints], depot_ids: Sequence[str], cutoff: date) -> Floats:
        """Return quantiles (depots, horizon, levels) from raw inputs of `Panel.window`. Raises
        InputError."""
        input_checks.check(window, self.input_spec, depot_ids, cutoff)
        return self.of_checked(window)

    def of_checked(self, window: Mapping[str, Any]) -> Floats:
        """Return quantiles from inputs that have been checked."""
        # Rounding may reverse neighbors in the last bit, and calibration may reverse close ones.
        quantiles: Floats = np.maximum.accumulate(self.run(window), axis=-1).astype(np.float32)
        return quantiles

    def run(self, window: Mapping[str, Any]) -> Floats:
        """Return the output of the graph for any number of depots."""
        depots = len(window["demand"])
        size = min(max(-(-depots // self._threads), MIN_PIECE), MAX_PIECE)
        if depots <= size:
            return run(self._session, window)
        pieces = [{name: x[at : at + size] for name, x in window.items()} for at in range(0, depots, size)]
        with ThreadPoolExecutor(self._threads) as pool:
            return np.concatenate(list(pool.map(partial(run, self._session), pieces)))


def _differences(bundle: Bundle, panel: Panel) -> Iterator[str]:
    """Yield the differences between a panel and the bundle: the horizon, and the meaning and order
    of the columns."""
    horizon = bundle.manifest["horizon"]
    if panel.horizon != horizon:
        yield f"it forecasts {count(horizon, 'day')}, the pipeline file wants {panel.horizon}"
    expected, actual = bundle.encoding, panel.encoding
    columns = {
        "known-future covariates": (expected.covariates, actual.covariates),
        "static columns": (tuple(expected.statics), tuple(actual.statics)),
        "features of the calendar": (tuple(bundle.manifest["calendar"]), tuple(panel.calendar_names)),
    }
    columns |= {
        f"words of '{name}'": (expected.statics[name], actual.statics.get(name, ())) for name in expected.statics
    }
    for name, (before, now) in columns.items():
        if tuple(before) != tuple(now):
            yield f"its {name} are {', '.join(before) or 'none'}, found {', '.join(now) or 'none'}"


def session(model: bytes) -> onnxruntime.InferenceSession:
    """Return a graph ready to run on a CPU, from memory; the caller has checked it
    (`onnx_checks.inspect`).

    A run takes one thread. With more, onnxruntime splits the recurrence into single depots, which
    takes twice the processor time; parallel runs have no such cost (`Predictor`).
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    # Older graphs contain unused constants; onnxruntime warns about each.
    options.log_severity_level = 3
    # The graph is already simplified (`model.export.constant_folding`); a further search takes
    # longer than it saves.
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def run(graph: onnxruntime.InferenceSession, arrays: Mapping[str, Any]) -> Floats:
    """Return the output of the graph; omit inputs that it does not use (a pipeline without
    statics)."""
    used = {node.name for node in graph.get_inputs()}
    quantiles: Floats = graph.run(None, {name: x for name, x in arrays.items() if name in used})[0]
    return quantiles
