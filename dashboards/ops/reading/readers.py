"""Shared readers: one connection pool for each ledger, however many pipelines of one process read
it."""

from __future__ import annotations

import threading

from forecaster.ledger.store import Ledger


class SharedReaders:
    """Ledgers opened for reading, by URL, the first time somebody asks. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ledgers: dict[str, Ledger] = {}

    def open(self, url: str) -> Ledger:
        """Raises LedgerError where there is none to read; the next one who asks looks again."""
        with self._lock:
            ledger = self._ledgers.get(url)
        if ledger is not None:
            return ledger
        # outside the lock: a database that is away takes seconds to say so
        ledger = Ledger.open_reader(url)
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

    def close(self) -> None:
        with self._lock:
            ledgers, self._ledgers = self._ledgers, {}
        for ledger in ledgers.values():
            ledger.close()
