"""Calls in several processes: the same comes out, in order, whoever does them and whatever becomes of a process."""

from __future__ import annotations

import operator
import os
from collections.abc import Iterator

from forecaster.core.parallel import in_processes


def test_the_same_comes_out_in_order_from_one_process_and_from_two() -> None:
    calls = [(number, 3) for number in range(9)]
    expected = [3 * number for number in range(9)]
    assert list(in_processes(operator.mul, calls, 1)) == expected
    assert list(in_processes(operator.mul, calls, 2)) == expected


def test_calls_of_a_process_that_died_are_done_here() -> None:
    calls = [(os.getpid(), number) for number in range(4)]
    assert list(in_processes(_double_at_home, calls, 2)) == [0, 2, 4, 6]


def test_calls_are_taken_one_by_one_so_that_they_may_end() -> None:
    taken = []

    def calls() -> Iterator[tuple[int, int]]:
        for number in range(100):
            taken.append(number)
            yield number, 1

    assert next(in_processes(operator.add, calls(), 1)) == 1
    assert taken == [0]


def _double_at_home(home: int, number: int) -> int:
    if os.getpid() != home:
        os._exit(1)
    return 2 * number
