"""Throttled logging: warnings that any client can trigger are written once a minute, with their
count."""

from __future__ import annotations

import logging
import threading
from time import monotonic

from forecaster.errors import ForecasterError

SECONDS = 60.0

log = logging.getLogger("forecaster.page")


class RareWarnings:
    """Warnings with which no client can flood the log. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0.0  # on the monotonic clock: when the next may be written
        self._left_out = 0

    def may_write(self) -> int | None:
        """Return the number of warnings omitted since the last one if one may be written now; else
        None."""
        with self._lock:
            if monotonic() < self._next:
                self._left_out += 1
                return None
            self._next = monotonic() + SECONDS
            left_out, self._left_out = self._left_out, 0
        return left_out

    def warn_of(self, error: Exception) -> None:
        """Write an error: one of ours as its sentence, any other with its class."""
        self.warn("%s", error if isinstance(error, ForecasterError) else f"{type(error).__name__}: {error}")

    def warn(self, message: str, *values: object) -> None:
        if (left_out := self.may_write()) is not None:
            more = f" ({left_out:,} more like it before)" if left_out else ""
            log.warning(f"{message}%s", *values, more)
