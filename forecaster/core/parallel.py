"""Parallel map over independent calls (fan-out): in turn here, or by whoever gives another `Fan`.

The package knows no scheduler. A stage hands over calls that need nothing of one another, and gets back what they made;
`flows.runners` does them in threads or on a cluster. The same comes out, whoever does them. Many small calls that keep
a core busy each are done in processes of this machine.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Fan(Protocol):
    """Parallel map: does every call once and gives what they made, in the order of the calls.

    Calls are taken one by one as there is room for them, so that what they carry is not in memory all at once. They can
    be sent to another process: partial applications of functions that a module has by name.
    """

    def __call__(self, calls: Iterable[Callable[[], Result]], /) -> list[Result]: ...


def in_turn(calls: Iterable[Callable[[], Any]], /) -> list[Any]:
    """One after the other, in this thread."""
    return [call() for call in calls]


def available_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def in_processes(function: Callable[..., Result], calls: Iterable[tuple[Any, ...]], workers: int) -> Iterator[Result]:
    """What a function of a module makes of each tuple of arguments, in their order; with one worker in this process.

    Calls are taken as there is room for them, so that an iterator may end them when time is over. Where processes
    cannot be started, or one dies, the calls that are left are done here.
    """
    calls = iter(calls)
    waiting: deque[tuple[tuple[Any, ...], Future[Result] | None]] = deque()
    if workers > 1:
        # spawn: threads of this process may hold locks that a fork would never see released
        with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
            try:
                for call in calls:
                    waiting.append((call, None))
                    waiting[-1] = (call, pool.submit(function, *call))
                    if len(waiting) > 2 * workers:
                        yield _first_result(waiting)
                while waiting:
                    yield _first_result(waiting)
            except (BrokenExecutor, OSError):
                pass
    for call, _ in waiting:
        yield function(*call)
    for call in calls:
        yield function(*call)


def _first_result(waiting: deque[tuple[tuple[Any, ...], Future[Result] | None]]) -> Result:
    future = waiting[0][1]
    assert future is not None
    result = future.result()
    waiting.popleft()
    return result
