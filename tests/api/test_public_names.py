"""Public names: stable, sorted, and imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

import forecaster

NAMES = [
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


def test_public_names_are_complete_and_documented() -> None:
    assert forecaster.__all__ == NAMES == sorted(NAMES)
    assert set(NAMES) <= set(dir(forecaster))
    for name in NAMES:
        assert getattr(forecaster, name).__doc__


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Forecastre'"):
        forecaster.Forecastre  # noqa: B018


def test_import_loads_no_heavy_modules() -> None:
    listing = "import sys, forecaster; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    modules = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True).stdout.split()
    assert {"jax", "pandas", "narwhals", "numpy", "mlflow"} & set(modules) == set()
    assert "forecaster" in modules
