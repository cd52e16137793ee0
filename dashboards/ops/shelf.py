"""What is shown now: the ledger's reader, opened when there is one, and the answers made from what it holds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256

from dashboards.ops.views.front import Front, front
from dashboards.ops.views.health import NIGHTS, notice
from forecaster.errors import LedgerError
from forecaster.ledger import Head, Ledger, PublishedDepot, PublishedTotal, Run

KEPT_ANSWERS = 512


class NothingPublished(LedgerError):
    """The ledger is fine, and no night has published yet."""


class NoSuchDepot(LookupError):
    """The publication has no depot of this id."""


@dataclass(frozen=True)
class Edition:
    """A publication as it reads today: what it says depends on nothing else."""

    head: Head
    front: Front
    notice: str | None  # what the last night kept aside
    ledger: Ledger

    def depots(self) -> tuple[PublishedDepot, ...]:
        if not (found := self.ledger.depots(self.head.publication_id)):
            raise NothingPublished("this publication has just been replaced by a newer one; load the page again")
        return found

    def totals(self) -> tuple[PublishedTotal, ...]:
        return self.ledger.totals(self.head.publication_id)

    def depot(self, depot_id: str) -> PublishedDepot:
        """Raises NoSuchDepot."""
        found = self.ledger.depot(self.head.publication_id, depot_id)
        if found is None:
            raise NoSuchDepot(depot_id)
        return found


@dataclass(frozen=True)
class Logbook:
    """The last nights of a pipeline, newest first, as they read now; `head` is what is published, if anything is."""

    head: Head | None
    runs: tuple[Run, ...]
    now: datetime


class Shelf:
    """Hands out editions, and keeps the answers made from the newest one. Threads may share it."""

    def __init__(self, url: str, pipeline: str | None, clock: Callable[[], datetime], build: str) -> None:
        self._url, self._pipeline, self._clock, self._build = url, pipeline, clock, build
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._kept: dict[str, bytes] = {}
        self._kept_for: object = None

    def edition(self) -> Edition:
        """Raises LedgerError when there is no ledger to read, and NothingPublished when it is empty."""
        ledger, head = self._head()
        if head is None:
            whose = f" for {self._pipeline}" if self._pipeline else ""
            raise NothingPublished(f"nothing has been published{whose} yet; the first `forecaster run` does it")
        last = next(iter(ledger.runs(head.pipeline, limit=1, ended=True, nights=True)), None)
        return Edition(head, front(head, self._clock()), notice(last), ledger)

    def logbook(self) -> Logbook:
        """The last nights, whether or not they published. Raises LedgerError when there is no ledger to read."""
        ledger, head = self._head()
        newest = ledger.runs(head.pipeline if head else self._pipeline, limit=1, nights=True)
        runs = ledger.runs(newest[0].pipeline, limit=NIGHTS, nights=True) if newest else ()
        return Logbook(head, runs, self._clock())

    def tag(self, edition: Edition, path: str) -> str:
        """Names one answer: another publication, day, notice, template or path has another tag."""
        head = edition.head
        when = (head.published_at, head.revised_at, edition.front.today)
        return self.named(head.publication_id, head.pipeline, *when, edition.notice, path)

    def named(self, *parts: object) -> str:
        """The tag of an answer that depends on these parts and on what the pages are made with."""
        return f'W/"{sha256("|".join(map(str, (*parts, self._build))).encode()).hexdigest()[:32]}"'

    def _head(self) -> tuple[Ledger, Head | None]:
        ledger = self._ledger or Ledger.open_reader(self._url)
        try:
            head = ledger.current(self._pipeline)
        except LedgerError:
            self._ledger = None  # the next request looks again from the start
            raise
        self._ledger = ledger
        return ledger, head

    def answer(self, edition: Edition, tag: str, make: Callable[[], bytes]) -> bytes:
        """The answer of this tag, made once for an edition."""
        shown = (edition.head, edition.front.today, edition.notice)
        with self._lock:
            if self._kept_for != shown or len(self._kept) >= KEPT_ANSWERS:
                self._kept, self._kept_for = {}, shown
            kept = self._kept.get(tag)
        if kept is None:
            kept = make()
            with self._lock:
                if self._kept_for == shown:
                    self._kept[tag] = kept
        return kept
