"""Time limits for a call, or for the next item of a stream, on a thread that may be abandoned.

A hanging call (a network mount, a FIFO, a server that accepts and does not answer) cannot be
interrupted from Python. It runs on a thread of its own, which is abandoned at the time limit and
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
LEAST = 1.0  # seconds for a call after the budget is used up


def call_within(seconds: float, call: Callable[[], Result], waiting_for: str) -> Result:
    """Return the result of a call. Raises TimeLimitExceeded, which contains `waiting_for`, after
    `seconds`."""
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
        finally:  # else the error and this frame reference each other, and keep all objects of the callers alive
            del error
    return result  # type: ignore[no-any-return]


class Budget:
    """Budget of seconds for several calls. Each may take half of the rest, so that a hanging call
    leaves time for the others. After the total, each call has `LEAST` seconds."""

    def __init__(self, total: float) -> None:
        self.total = self._left = total

    def renew(self) -> None:
        """Restore the whole budget, as for another run of this process."""
        self._left = self.total

    def call(self, call: Callable[[], Result], waiting_for: str, *, most: float = float("inf")) -> Result:
        """Return the result of a call within `most` seconds. Raises TimeLimitExceeded as
        `call_within` does."""
        begun = time.monotonic()
        try:
            return call_within(min(most, max(LEAST, self._left / 2)), call, waiting_for)
        finally:
            self._left -= time.monotonic() - begun


def items_within(
    silence: float, total: float, stream: Generator[Item, None, Result], waiting_for: str
) -> Generator[Item, None, Result]:
    """Yield a stream's items and return its result, with limits of `silence` seconds for each item
    and `total` seconds for all.

    Raises TimeLimitExceeded, which contains `waiting_for`. Only waiting time counts. An item is
    made when it is requested, so that memory and order are those of the plain stream.
    """
    requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
    outcomes: queue.SimpleQueue[tuple[Any, Any, BaseException | None]] = queue.SimpleQueue()

    def work() -> None:
        try:
            while requests.get():
                try:
                    outcomes.put((next(stream), None, None))
                except StopIteration as end:
                    outcomes.put((_END, end.value, None))
                    return
        except BaseException as error:
            outcomes.put((_END, None, error))
        finally:
            stream.close()

    threading.Thread(target=work, name=f"reads {waiting_for}", daemon=True).start()
    waited = 0.0
    try:
        while True:
            begun = time.monotonic()
            requests.put(True)
            try:
                item, result, error = outcomes.get(timeout=max(0.0, min(silence, total - waited)))
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
        requests.put(False)
