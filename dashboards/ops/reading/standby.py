"""Standby for a ledger whose database is away: since when it is, and the copy of what was published that is shown then.

Circuit breaker: while the ledger is away and there is a copy, nobody who asks waits for it; one tries it again beside,
every `RETRY_SECONDS`. The copy is a file of this process, in a folder of its own that goes with it: a page that is
started while the ledger is away has nothing to show. A ledger in SQLite's file has none: where that is, so is the page.
"""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from forecaster.core.language import _
from forecaster.errors import LedgerError, NoLedger
from forecaster.ledger.records import Head
from forecaster.ledger.sqlite.publication_copy import PublicationCopy
from forecaster.ledger.store import Ledger

PATIENCE = 3.0  # seconds that a reader waits for another one who asks the ledger
RETRY_SECONDS = 2.0  # between two tries while it is away
CLOSING_SECONDS = 5.0  # that whoever looks has to end
LOOK_SECONDS = 15.0  # between two looks for what is new while it is there
log = logging.getLogger("forecaster.page")


@dataclass(frozen=True)
class Absence:
    """Since when a ledger could not be read any more, and what it said."""

    since: datetime
    error: LedgerError

    def again(self) -> LedgerError:
        """The error for another one who asks."""
        return LedgerError(str(self.error))


class Standby:
    """Of one ledger, for all its pipelines that this process shows. Thread-safe."""

    def __init__(self, open_ledger: Callable[[], Ledger], clock: Callable[[], datetime]) -> None:
        """`open_ledger` gives the ledger to read; raises LedgerError where there is none."""
        self._open, self._clock = open_ledger, clock
        self._lock, self._looking = threading.Lock(), threading.Lock()
        self._pipelines: frozenset[str] = frozenset()
        self._copy: PublicationCopy | None = None
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._absence: Absence | None = None
        self._looked_at = 0.0
        self._beside = ThreadPoolExecutor(1, "standby")
        self._closed = False

    def watch(self, pipeline: str) -> None:
        """From the next look on, hold what this pipeline shows."""
        with self._lock:
            self._pipelines = self._pipelines | {pipeline}

    def look(self) -> None:
        """Copy what is new; notes that the ledger is away, or back. Who comes while somebody looks goes on."""
        if not self._looking.acquire(blocking=False):  # nor does anybody look once it is closed
            return
        try:
            self._looked_at = monotonic()
            self._copied().take(self._open(), sorted(self._pipelines))
        except LedgerError as error:
            self.failed(error)
        except OSError as error:  # no folder can be made
            log.warning("nothing can be shown while the ledger is away: %s", error)
        else:
            if self._absence is not None:
                log.warning("the ledger can be read again")
            self._absence = None
        finally:
            self._looking.release()

    def failed(self, error: LedgerError) -> None:
        """Somebody could not read the ledger."""
        with self._lock:
            if self._absence is not None or isinstance(error, NoLedger):
                return
            self._absence = Absence(self._clock(), error)
        log.warning("the ledger cannot be read; what is at hand of it is shown meanwhile: %s", error)

    def absence(self, *pipelines: str | None) -> Absence | None:
        """Since when the ledger is away, where there is a copy of what one of these shows; else None, and whoever asks
        reads the ledger."""
        absence = self._absence
        if absence is None or self.copy_of(*pipelines) is None:
            return None
        if monotonic() - self._looked_at > RETRY_SECONDS and not self._closed:
            self._looked_at = monotonic()
            self._beside.submit(self.look)
        return absence

    def copy_of(self, *pipelines: str | None) -> Ledger | None:
        """What to read in the place of the ledger; None where nothing is held of any of these pipelines."""
        copy = self._copy
        return copy.ledger if copy is not None and any(copy.holds(name) for name in pipelines if name) else None

    def close(self) -> None:
        self._closed = True
        self._beside.shutdown(wait=False, cancel_futures=True)
        self._looking.acquire(timeout=CLOSING_SECONDS)
        with self._lock:
            copy, folder, self._copy, self._folder = self._copy, self._folder, None, None
        if copy is not None:
            copy.close()
        if folder is not None:
            folder.cleanup()

    def _copied(self) -> PublicationCopy:
        with self._lock:
            if self._copy is None:
                self._folder = tempfile.TemporaryDirectory(prefix="forecaster-page-")
                self._copy = PublicationCopy(Path(self._folder.name))
            return self._copy


def absence_sentence(absence: Absence, head: Head) -> str:
    """What readers are told: since when, and as of when what they see is."""
    zone = ZoneInfo(head.timezone)
    return _(
        "The database of the forecasts has not answered since {since}. These were published {published}; nothing can "
        "be changed until it answers again.",
        since=display.instant(absence.since, zone),
        published=display.instant(head.published_at, zone),
    )
