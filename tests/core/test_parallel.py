"""Calls in several processes: the same results in order, with any number of processes and if one
fails."""

from __future__ import annotations

import operator
import os
import time
from collections.abc import Iterator
from multiprocessing import active_children

import pytest

from forecaster.core import parallel
from forecaster.core.parallel import in_processes


def test_one_and_two_processes_return_the_same_results_in_order() -> None:
    calls = [(number, 3) for number in range(9)]
    expected = [3 * number for number in range(9)]
    assert list(in_processes(operator.mul, calls, 1)) == expected
    assert list(in_processes(operator.mul, calls, 2)) == expected


def test_calls_of_a_dead_process_run_here() -> None:
    calls = [(os.getpid(), number) for number in range(4)]
    assert list(in_processes(_double_at_home, calls, 2)) == [0, 2, 4, 6]


def test_calls_are_consumed_one_by_one() -> None:
    taken = []

    def calls() -> Iterator[tuple[int, int]]:
        for number in range(100):
            taken.append(number)
            yield number, 1

    assert next(in_processes(operator.add, calls(), 1)) == 1
    assert taken == [0]


def test_a_hanging_process_is_killed_and_the_rest_runs_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "STALLED", 3.0)  # a process needs some of them to start
    before = set(active_children())
    calls = [(os.getpid(), number) for number in range(12)]
    assert list(in_processes(_hangs_elsewhere, calls, 2)) == [2 * number for number in range(12)]
    for process in set(active_children()) - before:
        process.join(20)
        assert not process.is_alive()


def test_exceptions_of_the_function_are_raised_here() -> None:
    with pytest.raises(ZeroDivisionError):
        list(in_processes(operator.floordiv, [(1, 1), (1, 0), (1, 1)], 2))


def test_closing_the_results_ends_the_pending_calls() -> None:
    results = in_processes(operator.add, ((number, 1) for number in range(1000)), 2)
    assert next(results) == 1
    results.close()  # type: ignore[attr-defined]


def _hangs_elsewhere(home: int, number: int) -> int:
    if os.getpid() != home:
        time.sleep(3600)
    return 2 * number


def _double_at_home(home: int, number: int) -> int:
    if os.getpid() != home:
        os._exit(1)
    return 2 * number
