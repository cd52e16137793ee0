"""Input validation before inference: check a graph's inputs against its bundle's manifest.

A runtime silently reads a code of -1 as the last row of a table and returns NaN for a NaN
covariate. All arrays are therefore checked before it runs, and the first error is reported with its
depot and day.
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
    """Inputs of a bundle's graph, as declared in its manifest."""

    lookback: int
    horizon: int
    covariates: tuple[str, ...]
    calendar: tuple[str, ...]
    statics: tuple[tuple[str, int], ...]  # attribute, and its largest code

    @classmethod
    def of(cls, bundle: Bundle) -> InputSpec:
        """Read the inputs from a bundle's manifest. Raises BundleError if it cannot be understood."""
        encoding, manifest = bundle.encoding, bundle.manifest
        labels = tuple((name, len(values)) for name, values in encoding.statics.items())
        try:
            return cls(bundle.lookback, manifest["horizon"], encoding.covariates, tuple(manifest["calendar"]), labels)
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(f"bundle {bundle.name}: the manifest does not declare its inputs: {error}") from error

    def shapes(self, depots: int) -> dict[str, tuple[int, ...]]:
        """Return the shape of each input array for a number of depots."""
        days = self.lookback + self.horizon
        return {
            "demand": (depots, self.lookback),
            "open": (depots, days),
            "covariates": (depots, days, len(self.covariates)),
            "calendar": (depots, days, len(self.calendar)),
            "statics": (depots, len(self.statics)),
        }


@dataclass(frozen=True)
class _Places:
    """Names of the arrays' rows and days in messages: depots and dates if known, else numbers."""

    depot_ids: Sequence[str] | None
    cutoff: date | None
    first: date | None  # day of the first column

    def row(self, number: int) -> str:
        return f"row {number}" if self.depot_ids is None else f"depot {self.depot_ids[number]!r}"

    def day(self, column: int) -> str:
        return f"day {column}, counted from 0" if self.first is None else str(self.first + timedelta(days=column))


def check(inputs: Mapping[str, NDArray[Any]], spec: InputSpec, depot_ids: Sequence[str], cutoff: date) -> None:
    """Check the inputs. Raises InputError for the first array that is missing, has another shape or
    type, or contains an invalid value.

    `inputs` are those of `Panel.window`: only demand may be NaN.
    """
    first = cutoff - timedelta(days=spec.lookback - 1)
    _check(inputs, spec, len(depot_ids), _Places(depot_ids, cutoff, first))


def check_rows(inputs: Mapping[str, NDArray[Any]], spec: InputSpec, rows: int) -> None:
    """Check rows without depots and dates; messages count both instead. Raises InputError."""
    _check(inputs, spec, rows, _Places(None, None, None))


def _check(inputs: Mapping[str, NDArray[Any]], spec: InputSpec, rows: int, places: _Places) -> None:
    _check_shapes(inputs, spec, rows, places.first)
    _check_values(inputs, spec, places)
    _check_codes(inputs["statics"], spec, places)


def _check_shapes(inputs: Mapping[str, NDArray[Any]], spec: InputSpec, depots: int, first: date | None) -> None:
    for name, shape in spec.shapes(depots).items():
        if name not in inputs:
            raise InputError(f"input '{name}' is missing; wanted {name} {shape}")
        array, kind = inputs[name], np.dtype(np.int32 if name == "statics" else np.float32)
        if array.dtype != kind:
            raise InputError(f"input '{name}' has the type {array.dtype}, wanted {kind}")
        if array.shape != shape:
            lacking = "" if first is None else _first_missing_day(name, array, spec, first)
            raise InputError(f"input '{name}' has the shape {array.shape}, wanted {shape}{lacking}")


def _check_values(inputs: Mapping[str, NDArray[Any]], spec: InputSpec, places: _Places) -> None:
    def on(name: str, place: NDArray[np.intp]) -> str:
        return f"input '{name}' of {places.row(int(place[0]))} on {places.day(int(place[1]))}"

    demand = inputs["demand"]
    if (odd := np.isinf(demand) | (demand < 0)).any():
        place = np.argwhere(odd)[0]
        raise InputError(
            f"{on('demand', place)} is {demand[tuple(place)]}, wanted a count, or NaN where it is not known"
        )
    if (odd := (inputs["open"] != 0) & (inputs["open"] != 1)).any():
        place = np.argwhere(odd)[0]
        raise InputError(f"{on('open', place)} is {inputs['open'][tuple(place)]}, wanted 0 or 1")
    for name, features in (("covariates", spec.covariates), ("calendar", spec.calendar)):
        if not np.isfinite(inputs[name]).all():
            place = np.argwhere(~np.isfinite(inputs[name]))[0]
            raise InputError(
                f"{on(name, place)}: '{features[place[2]]}' is {inputs[name][tuple(place)]}, wanted a number"
            )


def _check_codes(statics: NDArray[Any], spec: InputSpec, places: _Places) -> None:
    """Check codes: a runtime would read another row of the embedding table for a code out of range."""
    for column, (name, most) in enumerate(spec.statics):
        codes = statics[:, column]
        if ((codes < 0) | (codes > most)).any():
            row = int(np.argmax((codes < 0) | (codes > most)))
            when = "" if places.cutoff is None else f", for {places.cutoff}"
            raise InputError(
                f"input 'statics' of {places.row(row)}{when}: '{name}' has the code {codes[row]}, "
                f"wanted 0 (not seen in training) to {most}"
            )


def _first_missing_day(name: str, array: NDArray[Any], spec: InputSpec, first: date) -> str:
    """Return the end of a message with the first day that a too short array lacks."""
    days = spec.lookback + (0 if name == "demand" else spec.horizon)
    if name == "statics" or array.ndim < 2 or not 0 < array.shape[1] < days:
        return ""
    return f": it ends before {first + timedelta(days=array.shape[1])}, which has to be known"
