"""Forecast with a bundle on a CPU: onnxruntime and NumPy, nothing that trains."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime

from forecaster.errors import BundleError
from forecaster.serving.bundle import Bundle
from forecaster.values import Encoding, Floats, Forecast, Panel

CHUNK = 4096  # depots a call, which bounds memory


class Predictor:
    """A bundle that is ready to forecast; call it with a panel."""

    def __init__(self, bundle: Bundle) -> None:
        """Raises BundleError when onnxruntime refuses the model."""
        self.bundle = bundle
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        try:
            self._session = onnxruntime.InferenceSession(bundle.model, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises a class of its own for every fault
            raise BundleError(f"bundle {bundle.digest[:16]}: onnxruntime refuses the model: {error}") from error
        self._inputs = {node.name for node in self._session.get_inputs()}

    def __call__(self, panel: Panel) -> Forecast:
        """Quantiles of demand for every depot of the panel on the days after its cutoff.

        Raises BundleError when the panel was not built for this bundle, or when a quantile is not a number.
        """
        manifest = self.bundle.manifest
        wanted = (*_meaning(self.bundle.encoding), tuple(manifest["calendar"]), manifest["horizon"])
        found = (*_meaning(panel.encoding), panel.calendar_names, panel.horizon)
        if found != wanted:
            raise BundleError(f"bundle {self.bundle.digest[:16]} wants {wanted}, the panel has {found}")
        try:
            quantiles = quantiles_of(self._session, panel, self.bundle.lookback, self._inputs)
        except Exception as error:  # as above
            raise BundleError(f"bundle {self.bundle.digest[:16]}: onnxruntime cannot run the model: {error}") from error
        if not np.isfinite(quantiles).all():
            depot = panel.depot_ids[int(np.argwhere(~np.isfinite(quantiles))[0][0])]
            raise BundleError(f"bundle {self.bundle.digest[:16]}: the forecast of depot {depot!r} is not a number")
        open_ = panel.open[:, panel.history :]
        return Forecast(panel.depot_ids, panel.cutoff, panel.target_dates, self.bundle.levels, quantiles, open_)


def _meaning(encoding: Encoding) -> tuple[Any, ...]:
    """What the columns of a panel mean, in their order, which an encoding's own equality leaves out."""
    return encoding.covariates, tuple(encoding.statics.items())


def quantiles_of(session: onnxruntime.InferenceSession, panel: Panel, lookback: int, inputs: set[str]) -> Floats:
    """Run the graph over all depots; an input that the graph does not use (a pipeline without statics) is left away."""
    parts = []
    for start in range(0, len(panel.depot_ids), CHUNK):
        window = panel.window(lookback, slice(start, start + CHUNK))
        parts.append(session.run(None, {name: x for name, x in window.items() if name in inputs})[0])
    # Rounding may cross neighbours in the last bit, and calibration those that lie close together.
    quantiles: Floats = np.maximum.accumulate(np.concatenate(parts), axis=-1).astype(np.float32)
    return quantiles
