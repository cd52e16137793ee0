"""From one pipeline file to tonight's demand forecast and roster, for every depot.

In a notebook: `Forecaster(horizon=7, country="US").fit(df).predict()`. The names below are a promise, and are imported
when they are first used, so that `import forecaster` costs nothing.
"""

from __future__ import annotations

import importlib
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
"""Public name → the module that has it; their types stand in `__init__.pyi`, since an import here is one of all."""

__all__ = [  # what `_MODULES` names
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
