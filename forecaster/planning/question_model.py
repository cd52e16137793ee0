"""Model that answers what-if questions: a verified bundle, and its raw inputs as saved or as
supposed."""

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
CHUNK = 512  # depots whose raw inputs are computed at once


class QuantileModel(Protocol):
    """A model that answers questions: a `Predictor`, or a proxy of one."""

    @property
    def bundle(self) -> Bundle: ...

    def quantiles(self, window: Mapping[str, Floats | Ints], depot_ids: Sequence[str], cutoff: date) -> Floats:
        """Quantiles (depots, horizon, levels) from raw inputs as `Panel.window` gives them."""


def in_chunks(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    """Split rows into chunks, which bounds the memory of their inputs."""
    for start in range(0, len(rows), CHUNK):
        yield rows[start : start + CHUNK]


def ready(state: Path, bundle: str) -> QuantileModel | BundleError:
    """Load and verify a bundle for questions; return the error if it is unusable."""
    # Imports onnxruntime, which a page without questions does not need.
    from forecaster.serving import bundle as bundles
    from forecaster.serving.predict import Predictor

    try:
        # each run covers one depot
        return Predictor(bundles.load(StatePaths(state).bundle(bundle), state), threads=1)
    except BundleError as error:
        return error


def supposed_window(
    supposed: Supposition | None, predictor: QuantileModel, panel: Panel, places: Places, steps: Places | None
) -> dict[str, Floats | Ints]:
    """Raw model input of some depots, unchanged or as supposed."""
    lookback = predictor.bundle.lookback
    window = panel.window(lookback, places)
    if supposed is None or steps is None:
        return window
    opened, names, columns = supposed.kind == OPEN, panel.encoding.covariates, lookback + steps
    if supposed.kind in (CLOSED, OPEN):
        window["open"][:, columns] = float(opened)
    changed = "open" if supposed.kind in (CLOSED, OPEN) else supposed.kind
    if changed in names:
        value = float(opened) if supposed.kind in (CLOSED, OPEN) else supposed.value
        window["covariates"][:, columns, names.index(changed)] = value
    return window
