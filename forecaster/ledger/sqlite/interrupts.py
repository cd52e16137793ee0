"""Signals that end a run by raising, and are not lost: what is raised in a function that SQLite calls does not come out
of it, and the row that it looked at would be taken for damaged; what is raised as a transaction begins leaves it open;
what is raised in a weak reference's callback, as imports have them, is ignored."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType

from forecaster.ledger.sqlite import row_checksums

AGAIN = 0.02  # seconds after which a signal that came at the wrong moment is sent again
LONGEST = 2.0  # seconds for which a database may keep it off that does not answer


def raise_on(number: int, error: Callable[[], KeyboardInterrupt]) -> None:
    """Have a signal raise an error in the main thread, as soon as no database is at work there, and until it is heard.

    Raises ValueError in another thread than the main one.
    """
    since: float | None = None

    def handle(number: int, frame: FrameType | None) -> None:
        nonlocal since
        since = since or time.monotonic()
        is_short = time.monotonic() - since < LONGEST
        if row_checksums.is_called_in(frame) or (is_short and _is_in_sqlalchemy(frame)):
            _send_again(number)
            return
        since = None
        raise error()

    signal.signal(number, handle)
    if not isinstance(sys.unraisablehook, _IgnoredErrors):
        sys.unraisablehook = _IgnoredErrors(sys.unraisablehook)
    sys.unraisablehook.signals[type(error())] = number


class _IgnoredErrors:
    """The hook for what Python ignores: sends the signal again whose error is among it; one for all signals."""

    def __init__(self, before: Callable[[sys.UnraisableHookArgs], object]) -> None:
        self.before, self.signals = before, dict[type[BaseException], int]()

    def __call__(self, ignored: sys.UnraisableHookArgs) -> None:
        number = self.signals.get(ignored.exc_type)
        if number is None:
            self.before(ignored)
        else:
            _send_again(number)


def _send_again(number: int) -> None:
    timer = threading.Timer(AGAIN, signal.pthread_kill, (threading.main_thread().ident or 0, number))
    timer.daemon = True
    timer.start()


def _is_in_sqlalchemy(frame: FrameType | None) -> bool:
    while frame is not None:
        if str(frame.f_globals.get("__name__")).startswith("sqlalchemy."):
            return True
        frame = frame.f_back
    return False
