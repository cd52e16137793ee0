"""Absence of a ledger whose database does not answer: its start, and the time of the next retry."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from time import monotonic
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from forecaster.core.language import _
from forecaster.errors import LedgerError, NoLedger
from forecaster.ledger import connect
from forecaster.ledger.records import Head

RETRY_SECONDS = 2.0  # between two retries while the ledger is unavailable
log = logging.getLogger("forecaster.page")


@dataclass(frozen=True)
class Absence:
    """Start of a ledger's absence, and its error."""

    since: datetime
    error: LedgerError

    def sentence(self, head: Head) -> str:
        """Sentence for readers: the start of the absence, and the time of the shown publication."""
        zone = ZoneInfo(head.timezone)
        return _(
            "The database of the forecasts has not answered since {since}. These were published "
            "{published}; nothing can be changed until it answers again.",
            since=display.instant(self.since, zone),
            published=display.instant(head.published_at, zone),
        )


class CircuitBreaker:
    """Circuit breaker of a ledger: while it is unavailable, one request in two seconds tries it and
    the others fail at once. It does not guard an SQLite ledger, which is on the page's own machine."""

    def __init__(self, url: str, clock: Callable[[], datetime]) -> None:
        self._clock = clock
        self.guards = connect.stamp(url) is None
        self._retry_at = 0.0
        self.absence: Absence | None = None

    def check(self) -> None:
        """Raise LedgerError while the ledger is unavailable, except for the request that retries
        it."""
        if self.absence is not None:
            if monotonic() < self._retry_at:
                raise LedgerError(str(self.absence.error))
            self._retry_at = monotonic() + RETRY_SECONDS

    def failed(self, error: LedgerError) -> None:
        """Record that the ledger could not be read."""
        if self.absence is None and self.guards and not isinstance(error, NoLedger):
            self.absence = Absence(self._clock(), error)
            self._retry_at = monotonic() + RETRY_SECONDS
            log.warning("the ledger cannot be read; pages in memory are shown meanwhile: %s", error)

    def answered(self) -> None:
        """Record that the ledger could be read."""
        if self.absence is not None:
            log.warning("the ledger can be read again")
            self.absence = None
