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


def test_the_names_are_these_and_each_is_there() -> None:
    assert forecaster.__all__ == NAMES == sorted(NAMES)
    assert set(NAMES) <= set(dir(forecaster))
    for name in NAMES:
        assert getattr(forecaster, name).__doc__


def test_another_name_is_not_there() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Forecastre'"):
        forecaster.Forecastre  # noqa: B018


def test_the_import_alone_brings_nothing_heavy() -> None:
    listing = "import sys, forecaster; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    modules = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, check=True).stdout.split()
    assert {"jax", "pandas", "narwhals", "numpy", "mlflow"} & set(modules) == set()
    assert "forecaster" in modules
