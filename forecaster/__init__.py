"""Demand forecasts and rosters for every depot, from one pipeline file.

In a notebook: `Forecaster(horizon=7, country="US").fit(df).predict()`. The names below are a stable
interface, and are imported on first use, so that `import forecaster` costs nothing.
"""

from __future__ import annotations

import importlib
import os
import sys
import warnings
from contextlib import suppress
from typing import Any

__version__ = "0.1.0"

_MODULES = {
    "BacktestResult": "forecaster.api.backtest_result",
    "BundleError": "forecaster.errors",
    "Forecaster": "forecaster.api.estimator",
    "ForecasterError": "forecaster.errors",
    "MissingExtra": "forecaster.errors",
    "NoUsableData": "forecaster.errors",
    "Pipeline": "forecaster.api.pipeline_frames",
    "SpecError": "forecaster.errors",
    "TrainingError": "forecaster.errors",
    "backtest": "forecaster.api.functions",
    "load": "forecaster.api.pipeline_frames",
    "roster": "forecaster.api.functions",
}
"""Public name → its module. Their types are in `__init__.pyi`, because an import here would import
all of them."""

__all__ = [  # the names of `_MODULES`
    "BacktestResult",
    "BundleError",
    "Forecaster",
    "ForecasterError",
    "MissingExtra",
    "NoUsableData",
    "Pipeline",
    "SpecError",
    "TrainingError",
    "backtest",
    "load",
    "roster",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'forecaster' has no attribute '{name}'")
    value = getattr(importlib.import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})


def _other_distributions() -> list[str]:
    """Return the paths on `sys.path` that belong to another module `forecaster`, or to the
    distribution with that name.

    It checks only file names, which takes a millisecond; reading the metadata of every distribution
    takes a second, and is left to `forecaster doctor`.
    """
    paths = []
    for folder in dict.fromkeys(map(os.path.realpath, sys.path)):
        with suppress(OSError):
            names = [name for name in os.listdir(folder) if name.startswith("forecaster-") and name.endswith("-info")]
            paths += [os.path.join(folder, name) for name in names]
            module = os.path.join(folder, "forecaster")
            is_copy = os.path.exists(os.path.join(module, "cli", "app.py"))
            paths += [] if is_copy or not os.path.exists(os.path.join(module, "__init__.py")) else [module]
    return paths


if _conflicts := _other_distributions():
    warnings.warn(
        f"another module `forecaster` is installed, of which files may replace ours: {', '.join(_conflicts)}; "
        "`forecaster doctor` names the distribution to uninstall",
        RuntimeWarning,
        stacklevel=2,
    )
