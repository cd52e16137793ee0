"""Translation to the caller's terms: arguments as plain Python values, and errors that name
arguments and frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from forecaster.core.language.near_words import did_you_mean, nearest_word
from forecaster.core.panel import Panel
from forecaster.errors import ForecasterError, SpecError

ARGUMENTS: Mapping[str, str] = {
    "": "options: ",
    "calendar.country": "country",
    "calendar.known_future": "known_future",
    "calendar.subdivision": "subdivision",
    "model.quantiles": "quantiles",
    "training.preset": "preset",
    "training.seed": "seed",
}
"""Key of a pipeline file → the argument of `Forecaster` that sets it; other keys come from
`options`."""

OF_BACKTEST: Mapping[str, str] = {"backtest.baselines": "baselines", "backtest.days": "windows * horizon"}
"""Same for `Forecaster.backtest`."""

FRAMES: Mapping[str, str] = {
    "demand/df.parquet": "df",
    "demand/future.parquet": "future",
    "events.parquet": "events",
    "static.parquet": "static",
}
"""File of a `PipelineFolder` → the frame from which it was written."""

_NAMED = 5  # depots named in an error


@contextmanager
def in_caller_terms(folder: Path, names: Mapping[str, str] = FRAMES, *, place: str = "") -> Iterator[None]:
    """Rewrite errors so that they name no file of the work folder `folder`: frames replace its
    files, `place` replaces the folder. The same error is raised again, without its cause if that
    names the folder."""
    try:
        yield
    except ForecasterError as error:
        error.args = tuple(_in_caller_terms(str(part), folder, names, place) for part in error.args)
        if str(folder) in f"{error.__cause__}{error.__context__}":
            error.__cause__, error.__suppress_context__ = None, True
        raise


def _in_caller_terms(text: str, folder: Path, names: Mapping[str, str], place: str) -> str:
    for name, frame in names.items():
        text = text.replace(f"{folder}/{name}", frame)
    return text.replace(str(folder), place) if place else text.replace(f"{folder}/", "")


def as_python(value: Any) -> Any:
    """Copy mappings, sequences and NumPy values to dicts, lists and plain Python numbers; other
    values are returned unchanged."""
    if hasattr(value, "tolist"):  # NumPy's arrays and numbers, an Index of pandas
        return value.tolist()
    if isinstance(value, Mapping):
        return {as_python(name): as_python(content) for name, content in value.items()}
    return [as_python(content) for content in value] if isinstance(value, list | tuple) else value


def whole_number(argument: str, value: Any, *, least: int) -> int:
    """Integer argument. Raises SpecError if it is not an integer, or below the minimum."""
    if not isinstance(value, Integral) or int(value) < least:
        raise SpecError(f"{argument}: found {value!r}, wanted a whole number of {least} or more")
    return int(value)


def day_of(day: Any) -> np.datetime64:
    """Day given by the caller; for an instant, its own date. Raises SpecError for other values."""
    try:
        return np.datetime64(day.date() if isinstance(day, datetime) else day, "D")
    except (TypeError, ValueError) as error:
        raise SpecError(f"day: found {day!r}, wanted a date such as 2024-03-05") from error


def row_of(panel: Panel, depot: str) -> int:
    """Row of a depot. Raises SpecError for a depot without a forecast, suggesting the likely one."""
    if depot in panel.depot_ids:
        return panel.depot_ids.index(depot)
    some = ", ".join(panel.depot_ids[:_NAMED]) + (" …" if len(panel.depot_ids) > _NAMED else "")
    hint = did_you_mean(nearest_word(depot, panel.depot_ids))
    raise SpecError(f"depot: found {depot!r}, wanted one of {some}{hint}")
