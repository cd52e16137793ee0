"""Trained candidate as a function from a panel to a forecast, in any process."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from forecaster.core.forecast import Candidate, Forecast
from forecaster.core.panel import Panel

if TYPE_CHECKING:
    from forecaster.publishing.caveats import Newcomers
    from forecaster.serving.predict import Predictor

Predict = Callable[[Panel], Forecast]


class Reference(NamedTuple):
    """Parameters of a model, an .npz file, and the description in its manifest."""

    weights: bytes
    about: Mapping[str, Any]


class CandidateModel:
    """Runs in JAX in the process that trained it, and in NumPy in every other, with the same
    results except for rounding.

    A forked process has JAX's locks but not its threads: a call would wait for them forever. A
    spawned one would have to import JAX and compile for seconds; so would this process for a number
    of depots other than `compiled_for` in training. In a pickled copy that is not set.
    """

    def __init__(self, candidate: Candidate, *, compiled_for: int | None = None) -> None:
        self._candidate, self._compiled_for = candidate, compiled_for
        self._process = os.getpid() if compiled_for is not None else None

    def __call__(self, panel: Panel) -> Forecast:
        is_compiled = os.getpid() == self._process and len(panel.depot_ids) == self._compiled_for
        return self._in_jax(panel) if is_compiled else self._in_numpy(panel)

    @cached_property
    def _in_jax(self) -> Predict:
        from forecaster.model.export import to_onnx

        predict: Predict = to_onnx.forecaster(self._candidate)
        return predict

    @cached_property
    def reference(self) -> Reference:
        """Arguments of `ReferenceModel`."""
        from forecaster.model.export import to_onnx
        from forecaster.serving import bundle as bundles

        return Reference(bundles.npz(to_onnx.weights(self._candidate)), to_onnx.about(self._candidate))

    @cached_property
    def _in_numpy(self) -> Predict:
        from forecaster.serving.numpy_model import ReferenceModel

        about, quantiles = self.reference.about, ReferenceModel(*self.reference)

        def predict(panel: Panel) -> Forecast:
            levels, is_open = self._candidate.levels, panel.open[:, panel.history :]
            predicted = panel.widen_by_doubt(quantiles(panel.window(about["lookback"])), levels)
            return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, levels, predicted, is_open)

        return predict


def of_bundle(bundle: Path, state: Path) -> Predictor:
    """Bundle that is ready to forecast. Raises BundleError for a damaged or untrusted one."""
    from forecaster.serving import bundle as bundles
    from forecaster.serving.predict import Predictor

    return Predictor(bundles.load(bundle, state))


def reference(model: Predict) -> Reference:
    """Parameters and description of either kind of model, for the NumPy model."""
    from forecaster.serving.predict import Predictor

    if isinstance(model, Predictor):
        return Reference(model.bundle.weights, model.bundle.manifest)
    assert isinstance(model, CandidateModel), type(model)
    return model.reference


def newcomers(panel: Panel, trained_on: Panel) -> Newcomers:
    """Depots of a panel that a model was not trained on."""
    from forecaster.publishing import caveats

    return caveats.newcomers(panel, trained_on.depot_ids, panel.encoding.statics)


def published(model: Predict, trained_on: Panel) -> Predict:
    """Model that forecasts as published: depots without a forecast of their own get the seasonal
    naive one."""
    from forecaster.serving.fallback import naive_where

    return lambda panel: naive_where(model(panel), panel, newcomers(panel, trained_on).rows)
