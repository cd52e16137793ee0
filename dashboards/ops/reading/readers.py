"""Shared readers: one connection pool for each ledger, however many pipelines of one process read it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from datetime import UTC, datetime

from anyio import CapacityLimiter, to_thread

from dashboards.ops.reading import standby
from dashboards.ops.reading.standby import Standby
from forecaster.ledger import connect
from forecaster.ledger.store import Ledger

log = logging.getLogger("forecaster.page")


class SharedReaders:
    """Ledgers opened for reading, by URL, the first time somebody asks. Thread-safe."""

    def __init__(self, clock: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._lock, self._clock = threading.Lock(), clock
        self._ledgers: dict[str, Ledger] = {}
        self._standbys: dict[str, Standby] = {}

    def open(self, url: str) -> Ledger:
        """Raises LedgerError where there is none to read; the next one who asks looks again."""
        with self._lock:
            ledger = self._ledgers.get(url)
        if ledger is not None:
            return ledger
        ledger = Ledger.open_reader(url)  # outside the lock: a database that is away takes seconds to say so
        with self._lock:
            first = self._ledgers.setdefault(url, ledger)
        if first is not ledger:
            ledger.close()
        return first

    def give_back(self, url: str, ledger: Ledger) -> None:
        """Close one that failed; whoever still has it opens its connections anew."""
        with self._lock:
            if self._ledgers.get(url) is ledger:
                del self._ledgers[url]
        ledger.close()

    def standby(self, url: str) -> Standby | None:
        """What is read while a ledger is away; None of one that is a file of this machine."""
        if connect.stamp(url) is not None:
            return None
        with self._lock:
            if url not in self._standbys:
                self._standbys[url] = Standby(lambda: self.open(url), self._clock)
            return self._standbys[url]

    async def keep_up(self) -> None:
        """Have the standbys look for what is new, from now on."""
        own = CapacityLimiter(1)  # a thread besides those that answer
        while True:
            for of_ledger in tuple(self._standbys.values()):
                try:
                    await to_thread.run_sync(of_ledger.look, limiter=own)
                except Exception:  # a page goes on without a standby
                    log.exception("what is shown could not be copied")
            await asyncio.sleep(standby.LOOK_SECONDS)

    def close(self) -> None:
        with self._lock:
            ledgers, self._ledgers = self._ledgers, {}
            standbys, self._standbys = self._standbys, {}
        for of_ledger in standbys.values():
            of_ledger.close()
        for ledger in ledgers.values():
            ledger.close()
