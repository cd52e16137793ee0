"""Bring in a package that only a baseline needs, or say what installs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from forecaster.errors import MissingExtra


def needed(module: str, baseline: str) -> Any:
    """The module. Raises MissingExtra when it, or a package that it needs, is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the baseline {baseline} needs the package {error.name}, not installed here: "
            "pip install 'forecaster[baselines]'"
        ) from error
