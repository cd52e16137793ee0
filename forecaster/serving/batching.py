"""Micro-batching: rows of several requests wait in a bounded queue and are computed together
(dynamic batching).

A batch starts when a worker is free and the batch is full, nothing else is computing, or its oldest
request has waited long enough. A lone request therefore does not wait for others, and under load
batches fill by themselves. Requests are computed in order of arrival; one with more rows than a
batch is computed in pieces and goes to the end of the queue after each. The rows of an answer
return only to the request that they belong to, by position.

Submitted arrays have been checked (`input_checks`): they have the same names, types and trailing
shapes.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Floats

Arrays = Mapping[str, NDArray[Any]]
Compute = Callable[[Arrays], Floats]
Why = Literal["full", "idle", "waited", "last"]
WHYS: tuple[Why, ...] = ("full", "idle", "waited", "last")


@dataclass(frozen=True)
class BatchLimits:
    """Largest batch, longest wait, most waiting rows, and concurrent computations."""

    batch_rows: int = 64  # maximum number of depots per run of the graph (`predict.MAX_PIECE`)
    wait_seconds: float = 0.005
    queue_rows: int = 1024  # a request with more rows is accepted only if the queue is empty
    workers: int = 2


class NotComputed(Exception):
    """A request that was rejected before it was computed; the message may be shown to the client."""

    reason: Literal["full", "late", "closing"] = "full"


class QueueFull(NotComputed):
    """The queue has too many waiting rows."""


class DeadlinePassed(NotComputed):
    """The deadline passed before the request's turn."""

    reason = "late"


class QueueClosed(NotComputed):
    """The server is shutting down."""

    reason = "closing"


class Observer(Protocol):
    """Receiver of the queue's measurements; all times are in seconds."""

    def batch(self, why: Why, rows: int, seconds: float) -> None:
        """Record a computed batch."""

    def wait(self, seconds: float) -> None:
        """Record the time that a request, or a piece of one, waited before it was computed."""


class Unobserved:
    """Observer that ignores all measurements."""

    def batch(self, why: Why, rows: int, seconds: float) -> None: ...

    def wait(self, seconds: float) -> None: ...


@dataclass(eq=False)
class _Request:
    """A waiting request, with the number of its rows sent to be computed and the rows already
    computed."""

    arrays: Arrays
    rows: int
    deadline: float
    since: float
    answer: asyncio.Future[Floats]
    sent: int = 0
    parts: dict[int, Floats] = field(default_factory=dict)  # computed rows, by the index of the first of them

    def next_rows(self, most: int) -> int:
        """Return the number of rows in the next piece."""
        return min(self.rows - self.sent, most)


@dataclass(frozen=True, eq=False)
class _Piece:
    """Consecutive rows of a request that are computed together."""

    request: _Request
    first: int
    rows: int

    def arrays(self) -> Arrays:
        """Return the rows of each array, without a copy if they are all rows of the request."""
        if self.rows == self.request.rows:
            return self.request.arrays
        return {name: x[self.first : self.first + self.rows] for name, x in self.request.arrays.items()}


class MicroBatcher:
    """Compute submitted requests, several at a time. Everything except `compute` runs in the event
    loop that created the batcher."""

    def __init__(self, compute: Compute, limits: BatchLimits, observer: Observer | None = None) -> None:
        """Keep the function `compute`, which maps arrays of rows to an array of as many rows. It is
        called in `limits.workers` threads."""
        self._compute, self._limits = compute, limits
        self._observer: Observer = observer or Unobserved()
        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(limits.workers, "infer")
        self._waiting: deque[_Request] = deque()
        self._computing = 0  # batches
        self._closing = False
        self._timer: asyncio.TimerHandle | None = None
        self._idle = asyncio.Event()
        self._idle.set()
        self.queued_rows = 0

    async def submit(self, arrays: Arrays, rows: int, *, deadline: float) -> Floats:
        """Return the answer for each row, in order; `deadline` is an instant of `time.monotonic`.

        Raises QueueFull, DeadlinePassed or QueueClosed before anything is computed (for a large
        request: before the next piece), and whatever `compute` raises for these rows.
        """
        now = time.monotonic()
        if self._closing:
            raise QueueClosed("the server is shutting down; ask another one")
        if now >= deadline:
            raise DeadlinePassed("the deadline had passed before the request was read")
        if self.queued_rows and self.queued_rows + rows > self._limits.queue_rows:
            raise QueueFull(
                f"{self.queued_rows} rows wait already, wanted {self._limits.queue_rows} at most with these"
            )
        request = _Request(arrays, rows, deadline, now, self._loop.create_future())
        self._waiting.append(request)
        self.queued_rows += rows
        self._idle.clear()
        # A waiting request can expire even while all workers are busy.
        late = self._loop.call_later(deadline - now, self._expire, request)
        self._dispatch()
        try:
            return await request.answer
        finally:
            late.cancel()
            self._withdraw(request)  # in case the caller was canceled

    async def close(self, seconds: float) -> None:
        """Accept no more requests and compute the waiting ones for at most `seconds`; those that
        still wait then fail with QueueClosed. Idempotent."""
        self._closing = True
        self._dispatch()
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            for request in tuple(self._waiting):
                self._fail(request, QueueClosed("the server is shutting down; ask another one"))
        self._threads.shutdown(wait=False, cancel_futures=False)

    # --- choice and start of batches
    # -----------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        """Start batches while a worker is free and there is a reason to; otherwise schedule the
        next attempt."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._computing < self._limits.workers and (why := self._why()) is not None:
            if batch := self._take():
                self._computing += 1
                pieces = tuple(batch)
                work = self._loop.run_in_executor(self._threads, partial(_timed, self._compute, pieces))
                work.add_done_callback(partial(self._done, pieces, why))
        if self._waiting and self._computing < self._limits.workers:
            due = self._waiting[0].since + self._limits.wait_seconds - time.monotonic()
            self._timer = self._loop.call_later(max(due, 0), self._dispatch)

    def _why(self) -> Why | None:
        """Return the reason to start a batch now; None if nothing waits, or the batch should wait
        longer."""
        if not self._waiting:
            return None
        if self.queued_rows >= self._limits.batch_rows:
            return "full"
        if self._computing == 0:
            return "idle"
        if self._closing:
            return "last"
        waited = time.monotonic() - self._waiting[0].since
        return "waited" if waited >= self._limits.wait_seconds else None

    def _take(self) -> list[_Piece]:
        """Return the next batch; empty if all waiting requests have expired."""
        space, pieces, now = self._limits.batch_rows, list[_Piece](), time.monotonic()
        while self._waiting and space:
            request = self._waiting[0]
            if request.deadline <= now:
                self._expire(request)
                continue
            rows = request.next_rows(self._limits.batch_rows)
            if rows > space:
                break
            self._waiting.popleft()
            pieces.append(_Piece(request, request.sent, rows))
            request.sent += rows
            space -= rows
            self.queued_rows -= rows
            self._observer.wait(now - request.since)
            if request.sent < request.rows:
                request.since = now
                self._waiting.append(request)  # other requests go first
        return pieces

    # --- results of requests
    # -------------------------------------------------------------------------------------------

    def _done(
        self, pieces: tuple[_Piece, ...], why: Why, work: asyncio.Future[tuple[list[Floats | Exception], float]]
    ) -> None:
        """Give each request its own rows, or the error raised for them."""
        self._computing -= 1
        answers, seconds = work.result()
        self._observer.batch(why, sum(piece.rows for piece in pieces), seconds)
        for piece, answer in zip(pieces, answers, strict=True):
            request = piece.request
            if isinstance(answer, Exception):
                self._fail(request, answer)
                continue
            request.parts[piece.first] = answer
            if sum(map(len, request.parts.values())) == request.rows and not request.answer.done():
                parts = [request.parts[first] for first in sorted(request.parts)]
                request.answer.set_result(parts[0] if len(parts) == 1 else np.concatenate(parts))
        self._dispatch()
        if not self._waiting and not self._computing:
            self._idle.set()

    def _expire(self, request: _Request) -> None:
        """Reject the request if it, or a piece of it, still waits."""
        if request.sent < request.rows:
            self._fail(
                request, DeadlinePassed("the deadline passed before its turn; ask again later, or with a longer one")
            )

    def _fail(self, request: _Request, error: Exception) -> None:
        self._withdraw(request)
        if not request.answer.done():
            request.answer.set_exception(error)

    def _withdraw(self, request: _Request) -> None:
        """Compute no more rows of the request."""
        if request.sent < request.rows:
            self._waiting.remove(request)
            self.queued_rows -= request.rows - request.sent
            request.sent = request.rows
            if not self._waiting and not self._computing:
                self._idle.set()


def _timed(compute: Compute, pieces: tuple[_Piece, ...]) -> tuple[list[Floats | Exception], float]:
    """Return the result or error of each piece, and the elapsed seconds; never raises."""
    begun = time.perf_counter()
    try:
        answers: list[Floats | Exception] = [*_together(compute, pieces)]
    except Exception as error:
        # The failing piece is unknown: compute each alone, so that it does not fail the others.
        answers = [error] if len(pieces) == 1 else [_alone(compute, piece) for piece in pieces]
    return answers, time.perf_counter() - begun


def _together(compute: Compute, pieces: tuple[_Piece, ...]) -> list[Floats]:
    arrays = [piece.arrays() for piece in pieces]
    joined = arrays[0] if len(arrays) == 1 else {name: np.concatenate([x[name] for x in arrays]) for name in arrays[0]}
    computed = compute(joined)
    rows = sum(piece.rows for piece in pieces)
    if len(computed) != rows:
        raise RuntimeError(f"found {len(computed)} answers, wanted {rows}, one a row")
    return np.split(computed, np.cumsum([piece.rows for piece in pieces])[:-1])


def _alone(compute: Compute, piece: _Piece) -> Floats | Exception:
    try:
        return _together(compute, (piece,))[0]
    except Exception as error:
        return error
