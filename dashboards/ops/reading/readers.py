"""Shared readers: one connection pool per ledger, no matter how many pipelines of a process read
it."""

from __future__ import annotations

import threading

from forecaster.ledger.store import Ledger


class SharedReaders:
    """Ledgers opened for reading, by URL, on first use. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ledgers: dict[str, Ledger] = {}

    def open(self, url: str) -> Ledger:
        """Return the reader of a ledger. Raises LedgerError if it cannot be read; the next call
        tries again."""
        with self._lock:
            ledger = self._ledgers.get(url)
        if ledger is not None:
            return ledger
        # outside the lock: an unavailable database takes seconds to fail
        ledger = Ledger.open_reader(url)
        with self._lock:
            first = self._ledgers.setdefault(url, ledger)
        if first is not ledger:
            ledger.close()
        return first

    def give_back(self, url: str, ledger: Ledger) -> None:
        """Close a reader that failed; other users of it reconnect."""
        with self._lock:
            if self._ledgers.get(url) is ledger:
                del self._ledgers[url]
        ledger.close()

    def close(self) -> None:
        with self._lock:
            ledgers, self._ledgers = self._ledgers, {}
        for ledger in ledgers.values():
            ledger.close()
