"""Overview of several pipelines: a cheap look at each one's publication, and counts computed in the
background.

A ledger that is unavailable, slow or damaged affects only its own pipelines and delays no others.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Hashable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from datetime import datetime
from time import monotonic
from typing import Generic, TypeVar

from dashboards.ops.reading.absence import Absence, CircuitBreaker
from dashboards.ops.reading.readers import SharedReaders
from forecaster.errors import LedgerError
from forecaster.ledger import overview
from forecaster.ledger.publication import PublishedTotal
from forecaster.ledger.records import Head, Run
from forecaster.ledger.store import Ledger

Count = TypeVar("Count")
log = logging.getLogger("forecaster.page")

REREAD_SECONDS = 2.0  # for which a look is reused
PATIENCE = 3.0  # seconds that a reader waits for the ledgers
STALE_SECONDS = 60.0  # for which a look is shown while a newer one is being read
# seconds until a failure counts as slow: then the ledger is not queried for its other pipelines
SLOW = 1.0
MOST_LEDGERS = 32  # that are read concurrently
MOST_COUNTS = 4096  # that are cached


@dataclass(frozen=True)
class Look:
    """Content of a ledger for a pipeline: its publication with the totals, and the last run; or the
    error."""

    head: Head | None = None
    last: Run | None = None
    totals: tuple[PublishedTotal, ...] = ()
    error: LedgerError | None = None
    absence: Absence | None = None  # set if the ledger is unavailable and this is from memory


class Overview:
    """The newest look at each pipeline; concurrent callers share one read. Thread-safe."""

    def __init__(self, urls: Mapping[str, str], readers: SharedReaders, clock: Callable[[], datetime]) -> None:
        """Group the pipelines by ledger; `urls` maps each pipeline's name to its ledger."""
        by_url: dict[str, list[str]] = {}
        for name, url in urls.items():
            by_url.setdefault(url, []).append(name)
        self._urls = dict(urls)
        self._ledgers = {url: LedgerLooks(url, tuple(names), readers, clock) for url, names in by_url.items()}
        self._pool = ThreadPoolExecutor(min(len(by_url), MOST_LEDGERS), "overview")
        self._lock = threading.Lock()
        self._running: dict[str, Future[Mapping[str, Look]]] = {}

    def looks(self, names: Collection[str]) -> Mapping[str, Look]:
        """Return a look at each of these pipelines, in their order; with an error if its ledger
        does not answer in time."""
        futures = {url: self._future(url) for url in {self._urls[name] for name in names}}
        wait(futures.values(), PATIENCE)
        looks = {url: future.result() for url, future in futures.items() if future.done()}
        error = LedgerError(f"the ledger has not answered for {PATIENCE:g} s")
        silent = Look(error=error)
        late = {url: self._ledgers[url].meanwhile(error) for url in futures if url not in looks}
        return {name: {**late, **looks}[self._urls[name]].get(name, silent) for name in names}

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)  # and wait: an engine cannot close a connection in use

    def _future(self, url: str) -> Future[Mapping[str, Look]]:
        with self._lock:
            future = self._running.get(url)
            if future is None or (future.done() and self._ledgers[url].is_old()):
                future = self._running[url] = self._pool.submit(self._ledgers[url].read)
        return future


class LedgerLooks:
    """Looks at the pipelines of one ledger; totals are read once per publication."""

    def __init__(self, url: str, names: tuple[str, ...], readers: SharedReaders, clock: Callable[[], datetime]) -> None:
        self._url, self._names, self._readers = url, names, readers
        self._breaker = CircuitBreaker(url, clock)
        self._totals: dict[str, tuple[object, tuple[PublishedTotal, ...]]] = {}
        self._at = 0.0
        self._looks: Mapping[str, Look] = {}

    def is_old(self) -> bool:
        return monotonic() - self._at > REREAD_SECONDS

    def meanwhile(self, error: LedgerError) -> Mapping[str, Look]:
        """Return the previous looks, while a slow ledger is being read."""
        if monotonic() - self._at < STALE_SECONDS:
            return self._looks
        self._breaker.failed(error)
        return self._in_memory()

    def read(self) -> Mapping[str, Look]:
        """Return a look at each pipeline; while the ledger is unavailable, the last one with the
        error."""
        try:
            looks = self._all(self._readers.open(self._url))
        except LedgerError as error:  # of any pipeline: query each separately
            self._breaker.failed(error)
            looks = self._in_memory() or self._each()
        else:
            self._breaker.answered()
        self._looks, self._at = looks, monotonic()
        return looks

    def _in_memory(self) -> Mapping[str, Look]:
        """Return the last looks, if the ledger is unavailable."""
        absence = self._breaker.absence
        if absence is None or not any(look.head for look in self._looks.values()):
            return {}
        return {
            name: replace(look, error=absence.error, absence=absence if look.head else None)
            for name, look in self._looks.items()
        }

    def _all(self, ledger: Ledger) -> Mapping[str, Look]:
        """Read all pipelines in two queries, plus one for each new publication."""
        with ledger.transaction() as connection:
            heads = overview.heads(connection, self._names)
            last = overview.last_nights(connection, self._names)
        return {
            name: Look(head, last.get(name), self._totals_of(ledger, head) if head else ())
            for name in self._names
            for head in (heads.get(name),)
        }

    def _each(self) -> Mapping[str, Look]:
        looks: dict[str, Look] = {}
        away: Look | None = None
        for name in self._names:
            began = monotonic()
            looks[name] = away or self._look(name)
            if looks[name].error and monotonic() - began > SLOW:
                away = looks[name]
        return looks

    def _look(self, name: str) -> Look:
        ledger = None
        try:
            ledger = self._readers.open(self._url)
            head = ledger.current(name)
            last = next(iter(ledger.runs(name, limit=1, ended=True, nights=True)), None)
            return Look(head, last, self._totals_of(ledger, head) if head else ())
        except LedgerError as error:
            if ledger is not None:
                self._readers.give_back(self._url, ledger)
            return Look(error=error)

    def _totals_of(self, ledger: Ledger, head: Head) -> tuple[PublishedTotal, ...]:
        key = (head.publication_id, head.revised_at)
        cached = self._totals.get(head.pipeline)
        if cached is None or cached[0] != key:
            cached = self._totals[head.pipeline] = (key, ledger.totals(head.publication_id))
        return cached[1]


class Counts(Generic[Count]):
    """Numbers computed over all depots: one after the other in the background, and cached."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "counts")
        self._lock = threading.Lock()
        self._counts: dict[Hashable, Future[Count]] = {}

    def due(self, key: Hashable, make: Callable[[], Count]) -> Future[Count]:
        """Return the future of a number."""
        with self._lock:
            future = self._counts.get(key)
            if future is None or (future.done() and future.exception() is not None):
                if len(self._counts) >= MOST_COUNTS:
                    self._counts = {key: future for key, future in self._counts.items() if not future.done()}
                future = self._counts[key] = self._pool.submit(make)
        return future

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)  # and wait: an engine cannot close a connection in use


def ready(future: Future[Count]) -> Count | None:
    """Return the number if it is available; None while it is computed or if it failed."""
    if not future.done() or future.cancelled():
        return None
    if error := future.exception():
        log.warning("counting what needs attention failed: %s", error)
        return None
    return future.result()
