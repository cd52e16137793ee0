"""Time limits on what is waited for: a call, or the next item of a stream, on a thread that may be
left behind.

What hangs (a network mount, a FIFO, a server that accepts and says nothing) cannot be interrupted
from Python. It is waited for on a thread of its own, which is left behind when its time is over and
ends with the process.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from forecaster.errors import TimeLimitExceeded

Item = TypeVar("Item")
Result = TypeVar("Result")
_END = object()
LEAST = 1.0  # seconds for a call whose budget is used up


def call_within(seconds: float, call: Callable[[], Result], waiting_for: str) -> Result:
    """Result of a call. Raises TimeLimitExceeded, which names what was waited for, after so many
    seconds."""
    outcome: queue.SimpleQueue[tuple[Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            outcome.put((call(), None))
        except BaseException as error:
            outcome.put((None, error))

    threading.Thread(target=work, name=f"waits for {waiting_for}", daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds)
    except queue.Empty:
        raise TimeLimitExceeded(f"{waiting_for} did not answer within {seconds:.0f} s") from None
    if error is not None:
        try:
            raise error
        finally:  # else the error and this frame hold one another, and with them all that callers have in hand
            del error
    return result  # type: ignore[no-any-return]


class Budget:
    """Seconds for many calls together. Each may take half of what is left, so that one that hangs
    leaves the others some, and all that hang take no more than the whole.
    """

    def __init__(self, total: float) -> None:
        self.total = self._left = total

    def renew(self) -> None:
        """Give all of it again, as to another run of this process."""
        self._left = self.total

    def call(self, call: Callable[[], Result], waiting_for: str, *, most: float = float("inf")) -> Result:
        """Result of a call within `most` seconds. Raises TimeLimitExceeded as `call_within`
        does."""
        begun = time.monotonic()
        try:
            return call_within(min(most, max(LEAST, self._left / 2)), call, waiting_for)
        finally:
            self._left -= time.monotonic() - begun


def items_within(
    silence: float, total: float, stream: Generator[Item, None, Result], waiting_for: str
) -> Generator[Item, None, Result]:
    """A stream's items and what it returns, waited for `silence` seconds each and `total` seconds
    in all.

    Raises TimeLimitExceeded, which names what was waited for. Only time in which something is
    waited for counts. The next item is made when it is asked for, so that memory and order stay as
    they were.
    """
    asked: queue.SimpleQueue[bool] = queue.SimpleQueue()
    made: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            while asked.get():
                try:
                    made.put((next(stream), None, None))
                except StopIteration as end:
                    made.put((_END, end.value, None))
                    return
        except BaseException as error:
            made.put((_END, None, error))
        finally:
            stream.close()

    threading.Thread(target=work, name=f"reads {waiting_for}", daemon=True).start()
    waited = 0.0
    try:
        while True:
            begun = time.monotonic()
            asked.put(True)
            try:
                item, result, error = made.get(timeout=max(0.0, min(silence, total - waited)))
            except queue.Empty:
                slow = total - waited < silence
                why = f"was not through within {total:.0f} s" if slow else f"gave nothing for {silence:.0f} s"
                raise TimeLimitExceeded(f"{waiting_for} {why}") from None
            waited += time.monotonic() - begun
            if error is not None:
                try:
                    raise error
                finally:
                    del error
            if item is _END:
                return result  # type: ignore[no-any-return]
            yield item
    finally:
        asked.put(False)
