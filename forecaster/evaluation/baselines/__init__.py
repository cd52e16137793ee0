"""Baseline models by name: each is fitted once and then forecasts at any later cutoff."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from forecaster.config.model import BASELINES
from forecaster.core.language.sentences import of_error
from forecaster.core.panel import Panel
from forecaster.errors import MissingExtra
from forecaster.evaluation.backtest import Predictor
from forecaster.evaluation.baselines.optional import import_optional

NAMES = tuple(BASELINES)


def fit(name: str, panel: Panel, levels: tuple[float, ...]) -> Predictor:
    """Fit a baseline to the panel; it forecasts the panel's depots at the panel's cutoff or a later
    one.

    Its forecasts are never NaN: a depot that it cannot forecast gets the seasonal naive, a closed
    day zero. Raises ValueError for an unknown name, MissingExtra if its package is not installed.
    """
    if name not in BASELINES:
        raise ValueError(f"unknown baseline {name!r}; wanted one of {', '.join(NAMES)}")
    make: Callable[[Panel, tuple[float, ...]], Predictor]
    make = getattr(import_module(f"{__name__}.{BASELINES[name].module}"), name)
    return make(panel, levels)


def fit_or_message(name: str, panel: Panel, levels: tuple[float, ...]) -> Predictor | str:
    """Call `fit` for a fan; return a sentence if the package that the baseline needs is not
    installed."""
    try:
        return fit(name, panel, levels)
    except MissingExtra as error:
        return of_error(error)


def ready(name: str) -> None:
    """Check that the package of a baseline is installed. Raises MissingExtra."""
    if (package := BASELINES[name].package) is not None:
        import_optional(package, name)
