"""Optional dependencies: import a package that only a baseline needs, or say what installs it."""

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
# what a process has once: filters of warnings, loggers, NumPy's own random numbers
_GLOBAL = threading.RLock()


def import_optional(module: str, baseline: str) -> Any:
    """The module. Raises MissingExtra when it, or a package that it needs, is not installed."""
    try:
        with quietly():
            return import_module(module)
    except ModuleNotFoundError as error:
        template = N_("the baseline {name} needs the package {package}, not installed here: {command}")
        command = "pip install 'harbor-forecaster[baselines]'"
        raise MissingExtra(sentence(template, name=baseline, package=error.name, command=command)) from error


@contextmanager
def quietly() -> Iterator[None]:
    """Without warnings, nor lines that a package logs on import and for each fit. Threads take
    turns here, so that each leaves what belongs to all as it was."""
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
