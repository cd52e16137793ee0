"""What is shown now: the ledger's reader, opened when there is one, and the answers made from what it holds."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256

from dashboards.ops import past
from dashboards.ops.views.front import Front, front
from dashboards.ops.views.health import NIGHTS, fruitless, notice
from forecaster.errors import LedgerError
from forecaster.ledger import Head, Ledger, PublishedDepot, PublishedTotal, Run

KEPT_ANSWERS = 512
UNTOLD = "Told to those who see every city."


class NothingPublished(LedgerError):
    """The ledger is fine, and no night has published yet."""


class NoSuchDepot(LookupError):
    """The publication has no depot of this id."""


@dataclass(frozen=True)
class Edition:
    """A publication as it reads today to whoever sees some cities, or all: what it says depends on nothing else."""

    head: Head
    front: Front
    notice: str | None  # what the last night kept aside
    ledger: Ledger
    cities: frozenset[str] | None = None  # None: all
    past: bool = False  # not what is up now

    def depots(self) -> tuple[PublishedDepot, ...]:
        if not (found := self.ledger.depots(self.head.publication_id)):
            raise NothingPublished("this publication has just been replaced by a newer one; load the page again")
        return tuple(depot for depot in found if self._sees(depot))

    def totals(self) -> tuple[PublishedTotal, ...]:
        """Who does not see every city does not see the network's: it would tell of the others."""
        found = self.ledger.totals(self.head.publication_id)
        return found if self.cities is None else tuple(total for total in found if total.city in self.cities)

    def depot(self, depot_id: str) -> PublishedDepot:
        """Raises NoSuchDepot."""
        found = self.ledger.depot(self.head.publication_id, depot_id)
        if found is None or not self._sees(found):
            raise NoSuchDepot(depot_id)
        return found

    def _sees(self, depot: PublishedDepot) -> bool:
        return self.cities is None or depot.attributes.get("city") in self.cities


@dataclass(frozen=True)
class Logbook:
    """The last nights of a pipeline, newest first, as they read now; `head` is what is published, if anything is."""

    head: Head | None
    runs: tuple[Run, ...]
    now: datetime
    ledger: Ledger


class Shelf:
    """Hands out editions, and keeps the answers made from the newest one. Threads may share it."""

    def __init__(self, url: str, pipeline: str | None, clock: Callable[[], datetime], build: str) -> None:
        self._url, self._pipeline, self._clock, self._build = url, pipeline, clock, build
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._kept: dict[str, bytes] = {}
        self._kept_for: object = None

    def edition(
        self, cities: frozenset[str] | None = None, *, as_of: str | None = None, publication: int | None = None
    ) -> Edition:
        """What is up now, or what was, for whoever sees these cities (None: all).

        Raises LedgerError when there is no ledger to read, NothingPublished when it is empty, BadAsk and NotKept when
        something past was asked for that is no instant, or no longer there.
        """
        ledger, head = self._head()
        if head is not None and cities is not None:
            head = replace(head, note=None)  # it may name depots
        if head is None:
            whose = f" for {self._pipeline}" if self._pipeline else ""
            raise NothingPublished(f"nothing has been published{whose} yet; the first `forecaster run` does it")
        if as_of is not None or publication is not None:
            found, seen = past.meant(ledger, head, as_of, publication)
            found = found if cities is None else replace(found, note=None)
            return Edition(found, front(found, seen), None, ledger, cities, past=True)
        last = next(iter(ledger.runs(head.pipeline, limit=1, ended=True, nights=True)), None)
        shown = front(head, self._clock(), fruitless(last, head))
        return Edition(head, shown, notice(last), ledger, cities)

    def logbook(self, cities: frozenset[str] | None = None) -> Logbook:
        """The last nights, whether or not they published. Raises LedgerError when there is no ledger to read.

        What was found in the readings names depots: who does not see every city is told how much, not what.
        """
        ledger, head = self._head()
        newest = ledger.runs(head.pipeline if head else self._pipeline, limit=1, nights=True)
        runs = ledger.runs(newest[0].pipeline, limit=NIGHTS, nights=True) if newest else ()
        return Logbook(head, runs if cities is None else tuple(map(_discreet, runs)), self._clock(), ledger)

    def reader(self) -> Ledger:
        """The ledger, for what is no publication. Raises LedgerError when there is none to read."""
        return self._head()[0]

    def tag(self, edition: Edition, path: str) -> str:
        """Names one answer: another publication, day, notice, template or path has another tag, and so have other
        cities."""
        head, said = edition.head, edition.front
        when = (head.published_at, said.today, said.fruitless)
        seen = None if edition.cities is None else sorted(edition.cities)
        return self.named(head.publication_id, head.pipeline, *when, edition.notice, path, seen)

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
        if edition.past:
            return make()
        shown = (edition.head, edition.front, edition.notice)
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


def _discreet(run: Run) -> Run:
    found = tuple({**finding, "message": UNTOLD, "places": []} for finding in run.findings)
    return replace(run, findings=found, message=None, verdict=None)
