"""Optional dependencies: import a package that only a baseline needs, or name the command that
installs it."""

from __future__ import annotations

import logging
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.errors import MissingExtra

_TALKATIVE = ("prophet", "prophet.plot", "cmdstanpy")  # loggers
# protects state of the whole process: filters of warnings, loggers, NumPy's global random numbers
_GLOBAL = threading.RLock()


def import_optional(module: str, baseline: str) -> Any:
    """Import the module. Raises MissingExtra if it, or a package that it needs, is not installed."""
    try:
        with quietly():
            return import_module(module)
    except ModuleNotFoundError as error:
        template = N_("the baseline {name} needs the package {package}, not installed here: {command}")
        command = "pip install 'harbor-forecaster[baselines]'"
        raise MissingExtra(sentence(template, name=baseline, package=error.name, command=command)) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Suppress warnings, and lines that a package logs on import and for each fit. One thread at a
    time, so that each restores the state of the process."""
    loggers = [logging.getLogger(name) for name in _TALKATIVE]
    with _GLOBAL, warnings.catch_warnings():
        before = [logger.disabled for logger in loggers]
        try:
            warnings.simplefilter("ignore")
            for logger in loggers:
                logger.disabled = True  # their imports set their levels
            yield
        finally:
            for logger, disabled in zip(loggers, before, strict=True):
                logger.disabled = disabled
