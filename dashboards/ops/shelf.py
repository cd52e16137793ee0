"""What is shown now: the ledger's reader, opened when there is one, and the answers made from what it holds."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from hashlib import sha256
from time import monotonic

from dashboards.ops.views.front import Front, front
from dashboards.ops.views.health import NIGHTS, notice
from forecaster import glances, hindsight
from forecaster.errors import LedgerError
from forecaster.hindsight import Tally
from forecaster.ledger import Head, Ledger, Promotion, PublishedDay, PublishedDepot, PublishedTotal, Run

KEPT_ANSWERS = 512
AGAIN = 1.0  # seconds after which the ledger is read in any case


class NothingPublished(LedgerError):
    """The ledger is fine, and no night has published yet."""


class NoSuchDepot(LookupError):
    """The publication has no depot of this id."""


@dataclass(frozen=True)
class Answer:
    """What is sent, plain and compressed."""

    body: bytes
    zipped: bytes

    @classmethod
    def of(cls, body: bytes) -> Answer:
        return cls(body, gzip.compress(body, 6, mtime=0))


@dataclass(frozen=True)
class Outline:
    """A publication's depots as the page of all of them needs them, and what was expected before."""

    depots: tuple[PublishedDepot, ...]
    before: Mapping[tuple[str, date], float]


class Outlines:
    """The outlines that were read last. Who comes while one is being read waits for it, and reads none of their own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: dict[int, Outline] = {}

    def ready(self, publication_id: int) -> bool:
        return publication_id in self._found

    def of(self, head: Head, ledger: Ledger) -> Outline:
        """Raises NothingPublished when it is kept no longer."""
        with self._lock:
            if (found := self._found.get(head.publication_id)) is None:
                found = _outline(head, ledger)
                newest = list(self._found.items())[-1:]
                self._found = {**dict(newest), head.publication_id: found}
        return found


def _outline(head: Head, ledger: Ledger) -> Outline:
    with ledger.transaction() as connection:
        depots = glances.outline(connection, head.publication_id)
        earlier = glances.before(connection, head)
        medians = {} if earlier is None else glances.medians(connection, earlier)
    if not depots:
        raise NothingPublished("this publication has just been replaced by a newer one; load the page again")
    return Outline(depots, medians)


@dataclass(frozen=True)
class Edition:
    """A publication as it reads today: what it says depends on nothing else."""

    head: Head
    front: Front
    notice: str | None  # what the last night kept aside
    ledger: Ledger
    kept: Outlines

    def outline(self) -> tuple[PublishedDepot, ...]:
        """The depots with the last days before them, without marks: read once for each publication."""
        return self.kept.of(self.head, self.ledger).depots

    def before(self) -> Mapping[tuple[str, date], float]:
        """What the publication before this one expected of a depot and a day, in orders."""
        return self.kept.of(self.head, self.ledger).before

    def said_before(self, depot_id: str) -> Mapping[date, PublishedDay]:
        """What the publications before this one said of a depot's days that are over."""
        with self.ledger.transaction() as connection:
            return glances.said_before(connection, self.head, depot_id)

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
    pipeline: str | None
    ledger: Ledger
    kept: Outlines

    def depots(self) -> tuple[PublishedDepot, ...]:
        """The depots that are published, as the page of all of them shows them."""
        return self.kept.of(self.head, self.ledger).depots if self.head else ()

    def promotions(self) -> tuple[Promotion, ...]:
        """Who became champion, the oldest first."""
        return self.ledger.promotions(self.pipeline) if self.pipeline else ()

    def tallies(self) -> tuple[Tally, ...]:
        """What came of earlier forecasts."""
        with self.ledger.transaction() as connection:
            return hindsight.kept(connection, self.pipeline) if self.pipeline else ()


@dataclass(frozen=True)
class Seen:
    """What the ledger said when its files were as `stamp` tells; `at` is of the monotonic clock."""

    stamp: object | None
    at: float
    ledger: Ledger
    head: Head | None
    last: Run | None


class Shelf:
    """Hands out editions, and keeps the answers made from the newest one. Threads may share it."""

    def __init__(self, url: str, pipeline: str | None, clock: Callable[[], datetime], build: str) -> None:
        self._url, self._pipeline, self._clock, self._build = url, pipeline, clock, build
        self._lock = threading.Lock()
        self._ledger: Ledger | None = None
        self._kept: dict[str, Answer] = {}
        self._outlines = Outlines()
        self._seen: Seen | None = None
        self._kept_for: object = None

    def edition(self) -> Edition:
        """Raises LedgerError when there is no ledger to read, and NothingPublished when it is empty."""
        ledger, head, last = self._now()
        if head is None:
            whose = f" for {self._pipeline}" if self._pipeline else ""
            raise NothingPublished(f"nothing has been published{whose} yet; the first `forecaster run` does it")
        return Edition(head, front(head, self._clock()), notice(last), ledger, self._outlines)

    def logbook(self) -> Logbook:
        """The last nights, whether or not they published. Raises LedgerError when there is no ledger to read."""
        ledger, head = self._head()
        newest = ledger.runs(head.pipeline if head else self._pipeline, limit=1, nights=True)
        runs = ledger.runs(newest[0].pipeline, limit=NIGHTS, nights=True) if newest else ()
        pipeline = head.pipeline if head else runs[0].pipeline if runs else None
        return Logbook(head, runs, self._clock(), pipeline, ledger, self._outlines)

    def tag(self, edition: Edition, *asked: object) -> str:
        """Names one answer: another publication, day, notice or template, and whatever else is asked, has another."""
        head = edition.head
        when = (head.published_at, edition.front.today)
        return self.named(head.publication_id, head.pipeline, *when, edition.notice, *asked)

    def named(self, *parts: object) -> str:
        """The tag of an answer that depends on these parts and on what the pages are made with."""
        return f'W/"{sha256("|".join(map(str, (*parts, self._build))).encode()).hexdigest()[:32]}"'

    def _now(self) -> tuple[Ledger, Head | None, Run | None]:
        """What is published and the last night, read again when the ledger's files have changed, or after a second."""
        stamp = self._ledger.stamp() if self._ledger else None
        seen = self._seen
        if seen is not None and stamp is not None and seen.stamp == stamp and monotonic() - seen.at < AGAIN:
            return seen.ledger, seen.head, seen.last
        ledger, head = self._head()
        last = next(iter(ledger.runs(head.pipeline, limit=1, ended=True, nights=True)), None) if head else None
        self._seen = Seen(stamp, monotonic(), ledger, head, last)
        return ledger, head, last

    def _head(self) -> tuple[Ledger, Head | None]:
        ledger = self._ledger or Ledger.open_reader(self._url)
        try:
            head = ledger.current(self._pipeline)
        except LedgerError:
            self._ledger = None  # the next request looks again from the start
            raise
        self._ledger = ledger
        return ledger, head

    def answer(self, edition: Edition, tag: str, make: Callable[[], bytes]) -> Answer:
        """The answer of this tag, made and compressed once for an edition."""
        shown = (edition.head, edition.front.today, edition.notice)
        with self._lock:
            if self._kept_for != shown or len(self._kept) >= KEPT_ANSWERS:
                self._kept, self._kept_for = {}, shown
            kept = self._kept.get(tag)
        if kept is None:
            kept = Answer.of(make())
            with self._lock:
                if self._kept_for == shown:
                    self._kept[tag] = kept
        return kept
