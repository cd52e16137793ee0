"""Publication store: reads the ledger for the page, now or as of an instant, and numbers the
current edition."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from hashlib import sha256
from time import monotonic
from typing import TYPE_CHECKING

from dashboards.ops.reading import point_in_time
from dashboards.ops.reading.absence import CircuitBreaker
from dashboards.ops.reading.editions import (
    Edition,
    Logbook,
    NothingPublished,
    Outlines,
    without_readings,
)
from dashboards.ops.reading.header import front
from dashboards.ops.reading.last_night import NIGHTS, fruitless, notice
from dashboards.ops.reading.readers import SharedReaders
from forecaster.core.language import _
from forecaster.core.language.holiday_names import NOWHERE, HolidayRegion
from forecaster.errors import LedgerError
from forecaster.ledger.records import Head, Run
from forecaster.ledger.soundness import require_unchanged
from forecaster.ledger.store import Ledger
from forecaster.planning import accepted_crews
from forecaster.plugins import plugin

if TYPE_CHECKING:
    from forecaster.config import Spec

REREAD_SECONDS = 1.0  # after which the ledger is read in any case
PATIENCE = 3.0  # seconds that a reader waits for another one's read of the ledger


@dataclass(frozen=True)
class LedgerSnapshot:
    """Content of the ledger at `stamp`; `at` is in seconds of the monotonic clock."""

    stamp: object | None
    writes: int
    at: float
    ended: float
    ledger: Ledger
    head: Head | None
    last: Run | None
    accepted: datetime | None  # when a crew, a schedule or a person's day was last accepted, set or answered

    def holds(self, stamp: object | None, writes: int) -> bool:
        """True while the ledger's files are unchanged, this page has not written, and less than
        `REREAD_SECONDS` have passed."""
        return self.stamp == stamp and self.writes == writes and monotonic() - self.ended < REREAD_SECONDS


class PublicationStore:
    """Provides editions. Thread-safe."""

    def __init__(
        self,
        url: str,
        pipeline: str | None,
        clock: Callable[[], datetime],
        build: str,
        readers: SharedReaders | None = None,
        spec: Spec | None = None,
    ) -> None:
        """Keep the parameters; nothing is read yet.

        `readers` are shared by all pipelines that are served together; by default the store has its
        own. The pipeline file gives the location of depots that declare no country.
        """
        where = spec.calendar if spec else None
        staffing = spec.staffing if spec else None
        features = {"notice.schedules": staffing and staffing.notice_days, "people.days": staffing and staffing.people}
        self._further_writes = [module for module, is_declared in features.items() if is_declared]
        self._home = HolidayRegion(where.country or "", where.subdivision or "") if where else NOWHERE
        self._url, self._pipeline, self._clock, self._build = url, pipeline, clock, build
        self._readers, self._alone = readers or SharedReaders(), readers is None
        self._breaker = CircuitBreaker(url, clock)
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._ledger: Ledger | None = None
        self._outlines = Outlines()
        self._snapshot: LedgerSnapshot | None = None
        self._writes = 0

    def edition(
        self, cities: frozenset[str] | None = None, *, as_of: str | None = None, publication: int | None = None
    ) -> Edition:
        """Return the current or a past publication, for readers of these cities (None: all).

        Raises LedgerError if no ledger can be read, NothingPublished if it is empty, BadParameter
        for an invalid past instant, and NotRetained for a publication that is no longer there.
        """
        ledger, head, last = self._now()
        if head is None:
            if self._pipeline:
                raise NothingPublished(
                    _("nothing has been published for {name} yet; the first night does it", name=self._pipeline)
                )
            raise NothingPublished(_("nothing has been published yet; the first night does it"))
        if as_of is not None or publication is not None:
            past_head, looked_at = point_in_time.find_publication(ledger, head, as_of, publication)
            past_head = past_head if cities is None else replace(past_head, note=None)
            header = front(past_head, looked_at)
            return Edition(past_head, header, None, ledger, self._outlines, cities, past=True, home=self._home)
        head = head if cities is None else replace(head, note=None)  # it may name depots
        header = front(head, self._clock(), fruitless(last, head))
        aside = notice(last) if cities is None else None  # may include rows of other cities
        return Edition(head, header, aside, ledger, self._outlines, cities, home=self._home)

    def absence_sentence(self, head: Head) -> str | None:
        """Return the sentence for a page in memory while the ledger is unavailable; None if it is
        available, or if all days of the publication are over."""
        absence = self._breaker.absence
        header = front(head, self._clock())
        if absence is None or header.target_dates[-1] < header.today:
            return None
        return absence.sentence(head)

    def head_in_memory(self) -> Head | None:
        """Return the publication shown before the ledger became unavailable; None if there is none
        to show."""
        head = self._snapshot.head if self._snapshot else None
        return head if head is not None and self.absence_sentence(head) is not None else None

    def no_answer(self, seconds: float) -> None:
        """Record that the ledger has not answered for `seconds`."""
        self._breaker.failed(LedgerError(f"the ledger has not answered for {seconds:g} s"))

    def logbook(self, cities: frozenset[str] | None = None) -> Logbook:
        """Return the latest runs, whether or not they published. Raises LedgerError if no ledger
        can be read.

        Findings concern the readings of all cities: readers of some cities get none.
        """
        ledger, head = self._head()
        newest = ledger.runs(head.pipeline if head else self._pipeline, limit=1, nights=True)
        runs = ledger.runs(newest[0].pipeline, limit=NIGHTS, nights=True) if newest else ()
        pipeline = head.pipeline if head else runs[0].pipeline if runs else None
        visible_runs = runs if cities is None else tuple(map(without_readings, runs))
        visible_head = head if head is None or cities is None else replace(head, note=None)
        return Logbook(visible_head, visible_runs, self._clock(), pipeline, ledger, self._outlines, cities)

    def quarter_hour(self) -> int:
        """Return the current quarter hour, counted from 1970: no zone's day begins within one."""
        return int(self._clock().timestamp() // 900)

    def reader(self) -> Ledger:
        """Return the ledger, for data outside publications. Raises LedgerError if none can be read."""
        return self._head()[0]

    def close(self) -> None:
        """Release the ledger and what was read of it; the next request reopens it."""
        self._ledger = self._snapshot = None
        self._outlines = Outlines()
        if self._alone:
            self._readers.close()

    def tag(self, edition: Edition, *parts: object) -> str:
        """Return the ETag of an answer; it depends on publication, day, notice, templates, cities
        and `parts`."""
        head, header = edition.head, edition.front
        accepted = self._snapshot.accepted if self._snapshot else None
        when = (head.published_at, head.revised_at, header.today, header.fruitless_began, accepted)
        cities = None if edition.cities is None else sorted(edition.cities)
        return self.entity_tag(head.publication_id, head.pipeline, *when, edition.notice, cities, *parts)

    def entity_tag(self, *parts: object) -> str:
        """Return a weak ETag (RFC 9110) of an answer that depends on these parts and on the build
        of the pages."""
        return f'W/"{sha256("|".join(map(str, (*parts, self._build))).encode()).hexdigest()[:32]}"'

    def stamp(self) -> object | None:
        """Return a value that changes with the ledger's files; None before the first read, and for
        a ledger without files."""
        return self._ledger.stamp() if self._ledger else None

    def known(self) -> tuple[object, float] | None:
        """Return the number of the current edition and the time of its read; None if it must be
        read again."""
        snapshot = self._snapshot
        if snapshot is None or not snapshot.holds(self.stamp(), self._writes):
            return None
        return (snapshot.head, snapshot.last, snapshot.accepted, self.quarter_hour()), snapshot.at

    def read_number(self) -> tuple[object, float]:
        """Return the same, read now if necessary. Raises LedgerError."""
        _, head, last = self._now()
        snapshot = self._snapshot
        number = head, last, snapshot.accepted if snapshot else None, self.quarter_hour()
        return number, snapshot.at if snapshot else monotonic()

    def accepted_at(self) -> datetime | None:
        """Return the instant at which planners last accepted a crew or withdrew an acceptance.
        Raises LedgerError."""
        self._now()
        return self._snapshot.accepted if self._snapshot else None

    def forget(self) -> None:
        """Have the next request read the ledger again, since this page has written."""
        self._writes += 1

    def _now(self) -> tuple[Ledger, Head | None, Run | None]:
        """Return the current publication and the last run, read again if the ledger's files have
        changed, or after a second."""
        self._breaker.check()
        with self._only_reader():
            stamp, writes, at = self.stamp(), self._writes, monotonic()
            snapshot = self._snapshot
            if snapshot is not None and snapshot.holds(stamp, writes):
                return snapshot.ledger, snapshot.head, snapshot.last
            ledger, head = self._read_head()
            if head is not None and (snapshot is None or snapshot.head != head):
                with ledger.transaction() as connection:
                    require_unchanged(connection, head.publication_id)
            last = next(iter(ledger.runs(head.pipeline, limit=1, ended=True, nights=True)), None) if head else None
            accepted = None
            if head is not None:
                with ledger.transaction() as connection:
                    writes_at = [accepted_crews.last_change(connection, head.pipeline)]
                    writes_at += [plugin(of).last_change(connection, head.pipeline) for of in self._further_writes]
                    accepted = max((at for at in writes_at if at is not None), default=None)
            self._snapshot = LedgerSnapshot(stamp, writes, at, monotonic(), ledger, head, last, accepted)
        return ledger, head, last

    @contextmanager
    def _only_reader(self) -> Iterator[None]:
        """Let one thread read for all concurrent ones. Raises LedgerError if it takes too long and
        pages in memory can be shown instead."""
        has_pages = self._snapshot is not None and self._breaker.guards
        if not self._reading.acquire(timeout=PATIENCE if has_pages else -1):
            self.no_answer(PATIENCE)
            raise LedgerError(f"the ledger has not answered for {PATIENCE:g} s")
        try:
            yield
        finally:
            self._reading.release()

    def _head(self) -> tuple[Ledger, Head | None]:
        self._breaker.check()
        return self._read_head()

    def _read_head(self) -> tuple[Ledger, Head | None]:
        try:
            ledger = self._ledger or self._readers.open(self._url)
            try:
                head = ledger.current(self._pipeline)
            except LedgerError:
                self._ledger = None  # the next request starts over
                self._readers.give_back(self._url, ledger)
                raise
        except LedgerError as error:
            self._breaker.failed(error)
            raise
        self._breaker.answered()
        self._ledger = ledger
        return ledger, head
