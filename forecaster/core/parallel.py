"""Parallel map over independent calls (fan-out): in turn here, or by another `Fan`.

The package knows no scheduler. A stage passes independent calls and receives their results;
`flows.runners` runs them in threads or on a cluster. The results are the same with every runner.
Many small calls that keep a core busy each run in processes of this machine.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Future, ProcessPoolExecutor, wait
from multiprocessing import active_children, get_context
from typing import Any, Protocol, TypeVar

from forecaster.core.processes import parent_watch

STALLED = 300.0  # seconds without any answer, after which processes are considered dead

Result = TypeVar("Result")


class Fan(Protocol):
    """Parallel map: run every call once and return the results in the order of the calls.

    Calls are taken one by one as capacity allows, so that their arguments are not in memory all at
    once. They can be sent to another process: partial applications of functions that a module has
    by name.
    """

    def __call__(self, calls: Iterable[Callable[[], Result]], /) -> list[Result]: ...


def in_turn(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
    """Run the calls one after the other, in this thread."""
    return [call() for call in calls]


def available_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(function: Callable[..., Result], calls: Iterable[tuple[Any, ...]], workers: int) -> Iterator[Result]:
    """Yield the results of a module's function for each tuple of arguments, in their order; with
    one worker, in this process.

    Calls are taken as capacity allows, so that an iterator may end them at a time limit. If a
    process dies, does not answer within `STALLED` seconds or cannot be started, the rest runs here.
    Raises what the function raises.
    """
    if workers < 2:
        yield from (function(*call) for call in calls)
        return
    pool = _KillablePool(workers)
    in_hand: deque[tuple[tuple[Any, ...], Future[Result] | None]] = deque()
    try:
        for call in calls:
            in_hand.append((call, pool.submitted(function, call)))
            if len(in_hand) == 4 * workers:
                yield pool.result(function, *in_hand.popleft())
        while in_hand:
            yield pool.result(function, *in_hand.popleft())
    finally:
        pool.kill()


class _KillablePool:
    """Processes of this machine, with this process as a substitute if they fail."""

    def __init__(self, workers: int) -> None:
        self._others = set(active_children())
        # Not forked: a fork would never see the release of locks that other threads of this process
        # hold.
        self._pool = ProcessPoolExecutor(workers, get_context("spawn"), parent_watch.end_with, (os.getpid(),))

    def submitted(self, function: Callable[..., Result], call: tuple[Any, ...]) -> Future[Result] | None:
        """Submit a call; None if there are no processes (any more)."""
        try:
            return self._pool.submit(function, *call)
        except (OSError, AssertionError, RuntimeError):  # a daemon process of multiprocessing may have no children
            return None

    def result(self, function: Callable[..., Result], call: tuple[Any, ...], future: Future[Result] | None) -> Result:
        if future is None or future.cancelled():
            return function(*call)
        if not wait([future], STALLED).done:
            self.kill()
        try:
            return future.result()
        except (BrokenExecutor, CancelledError):
            return function(*call)

    def kill(self) -> None:
        """Kill the processes: this process would wait for a hanging one at its end."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for process in set(active_children()) - self._others:
            process.kill()
