"""Right inputs or no forecast: hold what a graph is to read against what its bundle wants.

A runtime takes a code of -1 for the last row of a table and answers a covariate of NaN with NaN, without a word. So all
arrays are looked at before it runs, and the first thing that is wrong is told with its depot and day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.errors import BundleError, InputError
from forecaster.serving.bundle import Bundle


@dataclass(frozen=True)
class InputSpec:
    """The inputs of a bundle's graph, in the words of its manifest."""

    lookback: int
    horizon: int
    covariates: tuple[str, ...]
    calendar: tuple[str, ...]
    statics: tuple[tuple[str, int], ...]  # attribute, and the largest code it has

    @classmethod
    def of(cls, bundle: Bundle) -> InputSpec:
        """Raises BundleError when the manifest cannot be understood."""
        encoding, manifest = bundle.encoding, bundle.manifest
        labels = tuple((name, len(words)) for name, words in encoding.statics.items())
        try:
            return cls(bundle.lookback, manifest["horizon"], encoding.covariates, tuple(manifest["calendar"]), labels)
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"bundle {bundle.name}: the manifest does not say its inputs: {error}") from error

    def shapes(self, depots: int) -> dict[str, tuple[int, ...]]:
        days = self.lookback + self.horizon
        return {
            "demand": (depots, self.lookback),
            "open": (depots, days),
            "covariates": (depots, days, len(self.covariates)),
            "calendar": (depots, days, len(self.calendar)),
            "statics": (depots, len(self.statics)),
        }


def check(inputs: Mapping[str, NDArray[Any]], wanted: InputSpec, depot_ids: Sequence[str], cutoff: date) -> None:
    """Raises InputError for the first array that is missing, of another shape or kind, or holds what cannot be.

    `inputs` are those of `Panel.window`: demand may be NaN, and everything else is known.
    """
    first = cutoff - timedelta(days=wanted.lookback - 1)

    def on(name: str, place: NDArray[np.intp]) -> str:
        day = first + timedelta(days=int(place[1]))
        return f"input '{name}' of depot {depot_ids[int(place[0])]!r} on {day}"

    for name, shape in wanted.shapes(len(depot_ids)).items():
        if name not in inputs:
            raise InputError(f"input '{name}' is missing; wanted {name} {shape}")
        found, kind = inputs[name], np.dtype(np.int32 if name == "statics" else np.float32)
        if found.dtype != kind:
            raise InputError(f"input '{name}' has the type {found.dtype}, wanted {kind}")
        if found.shape != shape:
            lacking = _first_missing_day(name, found, wanted, first)
            raise InputError(f"input '{name}' has the shape {found.shape}, wanted {shape}{lacking}")
    demand = inputs["demand"]
    if (odd := np.isinf(demand) | (demand < 0)).any():
        place = np.argwhere(odd)[0]
        raise InputError(
            f"{on('demand', place)} is {demand[tuple(place)]}, wanted a count, or NaN where it is not known"
        )
    if (odd := (inputs["open"] != 0) & (inputs["open"] != 1)).any():
        place = np.argwhere(odd)[0]
        raise InputError(f"{on('open', place)} is {inputs['open'][tuple(place)]}, wanted 0 or 1")
    for name, features in (("covariates", wanted.covariates), ("calendar", wanted.calendar)):
        if not np.isfinite(inputs[name]).all():
            place = np.argwhere(~np.isfinite(inputs[name]))[0]
            raise InputError(
                f"{on(name, place)}: '{features[place[2]]}' is {inputs[name][tuple(place)]}, wanted a number"
            )
    for column, (name, most) in enumerate(wanted.statics):
        codes = inputs["statics"][:, column]
        if ((codes < 0) | (codes > most)).any():
            row = int(np.argmax((codes < 0) | (codes > most)))
            raise InputError(
                f"input 'statics' of depot {depot_ids[row]!r}, for {cutoff}: '{name}' has the code {codes[row]}, "
                f"wanted 0 (not seen in training) to {most}"
            )


def _first_missing_day(name: str, found: NDArray[Any], wanted: InputSpec, first: date) -> str:
    """Which day is the first that an array of too few days does not have."""
    days = wanted.lookback + (0 if name == "demand" else wanted.horizon)
    if name == "statics" or found.ndim < 2 or not 0 < found.shape[1] < days:
        return ""
    return f": it ends before {first + timedelta(days=found.shape[1])}, which has to be known"
