"""The model that what-if questions are put to: a verified bundle, and its raw inputs as they were
saved or would be."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Floats, Ints
from forecaster.core.panel import Panel
from forecaster.core.state_paths import StatePaths
from forecaster.errors import BundleError
from forecaster.planning.scenario import CLOSED, OPEN, Supposition

if TYPE_CHECKING:
    from forecaster.serving.bundle import Bundle

Places = NDArray[np.intp]
CHUNK = 512  # depots whose raw inputs are made at once


class QuantileModel(Protocol):
    """A model that can be asked: a `Predictor`, or what stands before one."""

    @property
    def bundle(self) -> Bundle: ...

    def quantiles(self, window: Mapping[str, Floats | Ints], depot_ids: Sequence[str], cutoff: date) -> Floats:
        """Quantiles (depots, horizon, levels) from raw inputs as `Panel.window` gives them."""


def in_chunks(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    """So many at a time, which bounds the memory of their inputs."""
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]


def ready(state: Path, bundle: str) -> QuantileModel | BundleError:
    """A bundle that can be asked, which is verified first, or why it cannot."""
    # With onnxruntime, which a page that nobody asks can do without.
    from forecaster.serving import bundle as bundles
    from forecaster.serving.predict import Predictor

    try:
        # of one depot
        return Predictor(bundles.load(StatePaths(state).bundle(bundle), state), threads=1)
    except BundleError as error:
        return error


def supposed_window(
    supposed: Supposition | None, predictor: QuantileModel, panel: Panel, places: Places, steps: Places | None
) -> dict[str, Floats | Ints]:
    """The model's raw input of some depots, as it is or would be."""
    lookback = predictor.bundle.lookback
    window = panel.window(lookback, places)
    if supposed is None or steps is None:
        return window
    opened, names, ahead = supposed.kind == OPEN, panel.encoding.covariates, lookback + steps
    if supposed.kind in (CLOSED, OPEN):
        window["open"][:, ahead] = float(opened)
    changed = "open" if supposed.kind in (CLOSED, OPEN) else supposed.kind
    if changed in names:
        value = float(opened) if supposed.kind in (CLOSED, OPEN) else supposed.value
        window["covariates"][:, ahead, names.index(changed)] = value
    return window
