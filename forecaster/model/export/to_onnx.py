"""ONNX export of a candidate: the content of a bundle as a graph, NumPy weights, and their
description in the manifest."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from forecaster.core.arrays import Floats
from forecaster.core.forecast import Candidate, Forecast
from forecaster.core.panel import Panel
from forecaster.model.export import onnx_weights
from forecaster.model.network.day_sums import WEEKS, YEAR
from forecaster.model.network.decoder_inputs import SEASON_WEEKS
from forecaster.model.network.encoder_decoder import (
    FARTHEST_ASKED,
    FARTHEST_DOWN,
    FARTHEST_UP,
    FOLLOWS,
    SHORTEST,
    Architecture,
    forward,
)
from forecaster.model.network.features import HOLIDAYS, LOOKBACK, Window
from forecaster.model.network.further_inputs import DAYS_SURPRISED, ENOUGH, LAGS, MEANS, MORE_WEEKS, NEAR
from forecaster.model.network.level_moves import (
    LEAST_DAYS,
    LEAST_DISTANCE,
    LEAST_USUAL,
    MOST_MOVED,
    ONE_SIDED,
    UNUSUAL,
)
from forecaster.model.network.series import LEVEL
from forecaster.model.network.special_days import ALIKE, DOUBT, MOST_SPECIAL, MOVED, SURE, SWING
from forecaster.model.network.support import ENOUGH_DAYS, MOST_UNSEEN, TIMES_MOST
from forecaster.model.network.trees import RAMP

OPSET = 21
INPUTS = Window._fields
OUTPUT = "quantiles"


def architecture(candidate: Candidate) -> Architecture:
    sizes = dict(candidate.architecture)
    return Architecture(**{**sizes, "levels": tuple(sizes["levels"]), "labels": tuple(sizes["labels"])})


_compiled = jax.jit(forward, static_argnames="shape")  # one program for all candidates of a shape


def forecaster(candidate: Candidate) -> Any:
    """Return the candidate as a function from a panel to a forecast, in JAX."""
    quantiles, levels = on_arrays(candidate), architecture(candidate).levels

    def predict(panel: Panel) -> Forecast:
        open_ = panel.open[:, panel.history :]
        predicted = panel.widen_by_doubt(quantiles(panel.window(LOOKBACK)), levels)
        return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, levels, predicted, open_)

    return predict


def on_arrays(candidate: Candidate) -> Callable[[Mapping[str, Any]], Floats]:
    """Return the candidate as a compiled function from the arrays of `Panel.window` to quantiles."""
    shape = architecture(candidate)
    parameters = jax.tree.map(jnp.asarray, dict(candidate.parameters))
    return lambda arrays: np.asarray(_compiled(parameters, window(arrays), shape=shape))


def window(arrays: Mapping[str, Any]) -> Window:
    return Window(**{name: jnp.asarray(arrays[name]) for name in INPUTS})


def to_graph(candidate: Candidate) -> bytes:
    """Export the whole forward pass as one ONNX file; its inputs are those of `Panel.window`, with
    depots as a dynamic axis.

    Raises ExportError if the exporter, onnxruntime or the ONNX checker fails.
    """
    return onnx_weights.fill(to_template(candidate), weights(candidate))


def to_template(candidate: Candidate) -> bytes:
    """Return the graph of all candidates with the sizes of this one, without weights.

    Raises ExportError if the exporter fails.
    """
    # imports for seconds; not needed if the template of a model exists
    from forecaster.model.export import exporter

    return exporter.template(dict(candidate.parameters), architecture(candidate), opset=OPSET, output=OUTPUT)


def weights(candidate: Candidate) -> dict[str, Floats]:
    """Return the parameters as flat NumPy arrays, named by path: members.cells.0.dense_h.kernel."""
    return {name: np.asarray(leaf) for name, leaf in onnx_weights.named(candidate.parameters).items()}


def about(candidate: Candidate) -> dict[str, Any]:
    """Return the description of the model for a manifest: sizes, order of inputs, units, and a
    summary of its training."""
    summary = {key: value for key, value in candidate.summary.items() if key not in VARYING}
    return {
        "architecture": dict(candidate.architecture),
        "calendar": list(candidate.calendar_names),
        "encoding": candidate.encoding.to_json(),
        "features": {**FEATURES, **(OF_TREES if "trees" in candidate.parameters else {})},
        "horizon": candidate.horizon,
        "inputs": list(INPUTS),
        "levels": list(candidate.levels),
        "lookback": LOOKBACK,
        "opset": OPSET,
        "output": OUTPUT,
        "training": summary,
        "units": {"demand": "orders a local calendar day", "quantiles": "orders a local calendar day"},
    }


# Constants that a forward pass outside of this package needs in addition to the parameters.
FEATURES = {
    "level": LEVEL,
    "weeks": WEEKS,
    "season_weeks": SEASON_WEEKS,
    "year": YEAR,
    "holidays": HOLIDAYS,
    "sure": SURE,
    "moved": MOVED,
    "swing": SWING,
    "most_special": MOST_SPECIAL,
    "alike": ALIKE,
    "doubt": DOUBT,
    "farthest_down": FARTHEST_DOWN,
    "farthest_up": FARTHEST_UP,
    "follows": FOLLOWS,
    "farthest_asked": FARTHEST_ASKED,
    "shortest": SHORTEST,
    "times_most": TIMES_MOST,
    "enough_days": ENOUGH_DAYS,
    "most_unseen": MOST_UNSEEN,
    "most_moved": MOST_MOVED,
    "unusual": list(UNUSUAL),
    "one_sided": list(ONE_SIDED),
    "least_distance": LEAST_DISTANCE,
    "least_usual": LEAST_USUAL,
    "least_days": LEAST_DAYS,
}

OF_TREES = {
    "more_weeks": MORE_WEEKS,
    "means": list(MEANS),
    "days_surprised": DAYS_SURPRISED,
    "near": list(NEAR),
    "lags": LAGS,
    "enough": ENOUGH,
    "ramp": RAMP,
}

# Values that differ between two trainings with the same model: they belong to the run, not to the
# bundle.
VARYING = {
    "seconds",
    "first_epoch_seconds",
    "steps_seconds",
    "trees_seconds",
    "measured",
    "compile_seconds",
    "compile_hits",
    "compile_misses",
    "depot_days_a_second",
}
