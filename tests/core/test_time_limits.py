"""Hanging calls are abandoned at their time limit; others are unaffected."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable, Generator
from contextlib import suppress

import pytest

from forecaster.core.time_limits import call_within, items_within
from forecaster.errors import SourceError, TimeLimitExceeded

forever = threading.Event()


def test_results_and_exceptions_of_a_call_pass_through() -> None:
    assert call_within(5, lambda: 7, "nobody") == 7
    with pytest.raises(SourceError, match="its own"):
        call_within(5, failing, "nobody")


def test_a_hanging_call_is_named() -> None:
    with pytest.raises(TimeLimitExceeded, match=r"the registry did not answer within 0 s"):
        call_within(0.05, forever.wait, "the registry")


def test_a_stream_yields_its_items_in_order_and_its_return_value() -> None:
    ending: list[str] = []

    def items() -> Generator[int, None, None]:
        ending.append((yield from items_within(5, 5, counting(3), "nobody")))

    assert list(items()) == [0, 1, 2]
    assert ending == ["whole"]


def test_a_silent_stream_is_named() -> None:
    stream = items_within(0.05, 60, hanging(), "the source demand.csv")
    assert next(stream) == 1
    with pytest.raises(TimeLimitExceeded, match=r"the source demand\.csv gave nothing for 0 s"):
        next(stream)


def test_a_slow_stream_ends_at_its_total_limit() -> None:
    def dripping() -> Generator[int, None, str]:
        while True:
            forever.wait(0.02)
            yield 1

    stream = items_within(10, 0.2, dripping(), "the view")
    with pytest.raises(TimeLimitExceeded, match="the view was not through within 0 s"):
        list(stream)


def test_a_streams_error_passes_through_and_an_abandoned_stream_is_closed() -> None:
    closed = threading.Event()

    def stream() -> Generator[int, None, str]:
        try:
            yield 1
            raise SourceError("broken")
        finally:
            closed.set()

    with pytest.raises(SourceError, match="broken"):
        list(items_within(5, 5, stream(), "nobody"))
    assert closed.is_set()
    closed.clear()
    left = items_within(5, 5, stream(), "nobody")
    next(left)
    left.close()
    assert closed.wait(5)


def failing() -> int:
    raise SourceError("its own")


def counting(number: int) -> Generator[int, None, str]:
    yield from range(number)
    return "whole"


def hanging() -> Generator[int, None, str]:
    yield 1
    forever.wait()
    return "never"


class Rows:
    """Data that a caller holds."""


def test_an_error_of_another_thread_keeps_no_references_of_callers() -> None:
    def fails() -> None:
        raise OSError("gone")

    def items() -> Generator[int, None, None]:
        yield 1
        raise OSError("gone")

    def caller(ask: Callable[[], object]) -> weakref.ref[Rows]:
        rows = Rows()
        with suppress(OSError):
            ask()
        return weakref.ref(rows)

    gc.disable()
    try:
        assert caller(lambda: call_within(5, fails, "a call"))() is None
        assert caller(lambda: [*items_within(5, 5, items(), "a stream")])() is None
    finally:
        gc.enable()
