"""A trained candidate as a function from a panel to a forecast, whatever process it is called in."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property

from forecaster.core.forecast import Candidate, Forecast
from forecaster.core.panel import Panel

Predict = Callable[[Panel], Forecast]


class CandidateModel:
    """In JAX in the process that trained it; in NumPy in every other, which says the same but for rounding.

    A process that was forked has JAX's locks but not its threads: a call would wait for them for ever. One that was
    spawned would import JAX and compile for seconds. In a copy that was pickled, `trained_here` is not set.
    """

    def __init__(self, candidate: Candidate, *, trained_here: bool = False) -> None:
        self._candidate = candidate
        self._process = os.getpid() if trained_here else None

    def __call__(self, panel: Panel) -> Forecast:
        return self._in_jax(panel) if os.getpid() == self._process else self._in_numpy(panel)

    @cached_property
    def _in_jax(self) -> Predict:
        from forecaster.model.export import to_onnx

        predict: Predict = to_onnx.forecaster(self._candidate)
        return predict

    @cached_property
    def _in_numpy(self) -> Predict:
        from forecaster.model.export import to_onnx
        from forecaster.serving import bundle as bundles
        from forecaster.serving.numpy_model import ReferenceModel

        about = to_onnx.about(self._candidate)
        quantiles = ReferenceModel(bundles.npz(to_onnx.weights(self._candidate)), about)

        def predict(panel: Panel) -> Forecast:
            levels, is_open = self._candidate.levels, panel.open[:, panel.history :]
            predicted = panel.widen_by_doubt(quantiles(panel.window(about["lookback"])), levels)
            return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, levels, predicted, is_open)

        return predict
