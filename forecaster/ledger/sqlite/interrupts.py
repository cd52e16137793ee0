"""Signal handlers that raise, and not inside SQLite: what is raised in a function that SQLite calls is lost there, and
the row that it looked at would be taken for damaged; what is raised as a transaction begins leaves it open."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType

from forecaster.ledger.sqlite import row_checksums

AGAIN = 0.02  # seconds after which a signal that came at the wrong moment is sent again
LONGEST = 2.0  # seconds for which a database may keep it off that does not answer


def raising(error: Callable[[], BaseException]) -> Callable[[int, FrameType | None], None]:
    """A handler for `signal.signal`, which raises an error as soon as no database is at work in the main thread."""
    since: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal since
        since = since or time.monotonic()
        is_short = time.monotonic() - since < LONGEST
        if not (row_checksums.is_called_in(frame) or (is_short and _is_in_sqlalchemy(frame))):
            since = None
            raise error()
        main = threading.main_thread().ident or 0
        timer = threading.Timer(AGAIN, signal.pthread_kill, (main, number))
        timer.daemon = True
        timer.start()

    return handle


def _is_in_sqlalchemy(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("sqlalchemy."):
            return True
        frame = frame.f_back
    return False
