"""Bring in a package that only a baseline needs, or say what installs it."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from forecaster.errors import MissingExtra

_GLOBAL = threading.RLock()  # what a process has once: filters of warnings, loggers, NumPy's own random numbers


def needed(module: str, baseline: str) -> Any:
    """The module. Raises MissingExtra when it, or a package that it needs, is not installed."""
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"the baseline {baseline} needs the package {error.name}, not installed here: "
            "pip install 'forecaster[baselines]'"
        ) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings. Threads take turns here, so that each leaves what belongs to all as it was."""
    with _GLOBAL, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
