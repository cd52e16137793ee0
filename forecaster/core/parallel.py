"""Parallel map over independent calls (fan-out): in turn here, or by whoever gives another `Fan`.

The package knows no scheduler. A stage hands over calls that need nothing of one another, and gets back what they made;
`flows.runners` does them in threads or on a cluster. The same comes out, whoever does them. Many small calls that keep
a core busy each are done in processes of this machine.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any, Protocol, TypeVar

STALLED = 300.0  # seconds without any answer, after which processes are taken for dead

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

    Calls are taken as there is room for them, so that an iterator may end them when time is over. What a process that
    died, or does not answer within `STALLED` seconds, had in hand is done here, and so is all where none can be
    started. Raises what the function raises.
    """
    helpers = _start_helpers(workers) if workers > 1 else []
    try:
        yield from _in_order(function, iter(calls), helpers)
    finally:
        for helper in helpers:
            helper.process.kill()
            helper.process.join()


@dataclass
class _Helper:
    """A process that does one call at a time; `place` is that of the call that it has in hand."""

    process: BaseProcess
    pipe: Connection
    place: int | None = None


def _start_helpers(workers: int) -> list[_Helper]:
    context = get_context("spawn")  # threads of this process may hold locks that a fork would never see released
    helpers: list[_Helper] = []
    for _ in range(workers):
        here, there = context.Pipe()
        process = context.Process(target=_serve_calls, args=(there,), daemon=True)
        try:
            process.start()
        except (OSError, AssertionError):  # a daemon of multiprocessing may have no children
            return helpers
        there.close()  # so that a process that died is an end of file
        helpers.append(_Helper(process, here))
    return helpers


def _serve_calls(pipe: Connection) -> None:
    """Do the calls that come, until whoever sends them is gone."""
    while True:
        try:
            function, arguments = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = (True, function(*arguments))
        except Exception as error:
            answer = (False, error)
        pipe.send(answer)


def _in_order(
    function: Callable[..., Result], calls: Iterator[tuple[Any, ...]], helpers: list[_Helper]
) -> Iterator[Result]:
    """The results in the order of the calls, of which each helper has one in hand."""
    in_hand: dict[int, tuple[Any, ...]] = {}
    results: dict[int, Result] = {}
    taken, given_out, alive = 0, 0, list(helpers)
    while True:
        for helper in [helper for helper in alive if helper.place is None]:
            call = next(calls, None) if taken - given_out < 4 * len(helpers) else None
            if call is not None:
                helper.place, in_hand[taken], taken = taken, call, taken + 1
                if not _send(helper, function, call):
                    alive.remove(helper)
        results |= _answers(alive)
        for place in set(in_hand) - {helper.place for helper in alive}:
            call = in_hand.pop(place)
            if place not in results:
                results[place] = function(*call)
        while given_out in results:
            yield results.pop(given_out)
            given_out += 1
        if not in_hand and not results:
            call = next(calls, None)
            if call is None:
                return
            results[taken], taken = function(*call), taken + 1


def _send(helper: _Helper, function: Callable[..., Any], call: tuple[Any, ...]) -> bool:
    try:
        helper.pipe.send((function, call))
    except OSError:
        return False
    return True


def _answers(alive: list[_Helper]) -> dict[int, Any]:
    """What those who have finished say, by the place of the call; who died or hangs is taken out of `alive`."""
    busy = {helper.pipe: helper for helper in alive if helper.place is not None}
    answers: dict[int, Any] = {}
    ready = wait(list(busy), STALLED) if busy else []
    for helper in busy.values() if busy and not ready else []:
        alive.remove(helper)
    for pipe in ready:
        helper = busy[pipe]  # type: ignore[index]
        try:
            succeeded, value = helper.pipe.recv()
        except (EOFError, OSError):
            alive.remove(helper)
            continue
        if not succeeded:
            raise value
        assert helper.place is not None
        answers[helper.place], helper.place = value, None
    return answers
