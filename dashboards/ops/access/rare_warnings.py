"""Throttled logging: what strangers can bring about is written once a minute, with how often it came meanwhile."""

from __future__ import annotations

import logging
import threading
from time import monotonic

SECONDS = 60.0

log = logging.getLogger("forecaster.page")


class RareWarnings:
    """Warnings that nobody outside can fill the log with. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0.0  # of the monotonic clock: when one may be written again
        self._left_out = 0

    def warn(self, message: str, *values: object) -> None:
        with self._lock:
            if monotonic() < self._next:
                self._left_out += 1
                return
            self._next = monotonic() + SECONDS
            left_out, self._left_out = self._left_out, 0
        log.warning(f"{message}%s", *values, f" ({left_out:,} more like it before)" if left_out else "")
