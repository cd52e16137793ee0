"""Requests that are computed together get their own answers, whatever their order, sizes and
failures."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.core.arrays import Floats
from forecaster.serving.batching import (
    Arrays,
    BatchLimits,
    DeadlinePassed,
    MicroBatcher,
    QueueClosed,
    QueueFull,
)

POISON = -1.0
SOON = 10.0  # seconds: later than any test needs


class Doubling:
    """Double each row, as a graph would; a row of `POISON` makes the whole batch fail."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, arrays: Arrays) -> Floats:
        self.gate.wait(10)
        x = arrays["x"]
        self.sizes.append(len(x))
        if (x == POISON).any():
            raise ValueError("a row cannot be computed")
        doubled: Floats = 2 * x
        return doubled


class Notes:
    """Recorder of the queue's measurements."""

    def __init__(self) -> None:
        self.batches: list[tuple[str, int]] = []
        self.waits: list[float] = []

    def batch(self, why: str, rows: int, seconds: float) -> None:
        assert seconds >= 0
        self.batches.append((why, rows))

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)


def rows_of(*values: float) -> dict[str, Any]:
    return {"x": np.array(values, np.float32)[:, None]}


async def asked(batcher: MicroBatcher, *values: float, seconds: float = SOON) -> list[float]:
    answer = await batcher.submit(rows_of(*values), len(values), deadline=time.monotonic() + seconds)
    return [float(value) for value in answer[:, 0]]


def run(body: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return asyncio.run(body())


REQUESTS = st.lists(
    st.tuples(
        st.integers(1, 11),  # rows
        st.sampled_from(["well", "well", "well", "poison", "late", "gone"]),
        st.integers(0, 3),  # turns of the loop before it is submitted
    ),
    min_size=1,
    max_size=14,
)


@given(REQUESTS, st.integers(1, 5), st.integers(1, 3))
def test_each_request_gets_its_own_rows_in_any_company(
    requests: list[tuple[int, str, int]], batch_rows: int, workers: int
) -> None:
    async def one(batcher: MicroBatcher, number: int, rows: int, fate: str, turns: int) -> object:
        for _ in range(turns):
            await asyncio.sleep(0)
        values = [1000.0 * (number + 1) + row for row in range(rows)]
        if fate == "poison":
            values[rows // 2] = POISON
        asking = asyncio.ensure_future(asked(batcher, *values, seconds=0 if fate == "late" else SOON))
        if fate == "gone":
            await asyncio.sleep(0)
            asking.cancel()
        try:
            return await asking
        except (ValueError, DeadlinePassed, asyncio.CancelledError) as error:
            return type(error)

    async def body() -> tuple[list[object], int]:
        limits = BatchLimits(batch_rows, 0.001, 10_000, workers)
        compute = Doubling()
        batcher = MicroBatcher(compute, limits)
        outcomes = await asyncio.gather(*(one(batcher, number, *ask) for number, ask in enumerate(requests)))
        await batcher.close(SOON)
        assert batcher.queued_rows == 0
        assert max(compute.sizes, default=0) <= batch_rows
        return list(outcomes), len(compute.sizes)

    outcomes, _ = run(body)
    wrong = {"poison": ValueError, "late": DeadlinePassed, "gone": asyncio.CancelledError}
    for number, ((rows, fate, _), outcome) in enumerate(zip(requests, outcomes, strict=True)):
        doubled = [2 * (1000.0 * (number + 1) + row) for row in range(rows)]
        assert outcome == wrong.get(fate, doubled) or (fate == "gone" and outcome == doubled)


def test_a_batch_records_its_reason_and_fills_while_another_computes() -> None:
    async def body() -> None:
        compute, notes = Doubling(), Notes()
        batcher = MicroBatcher(compute, BatchLimits(4, 60, 100, 2), notes)
        compute.gate.clear()
        lone = asyncio.ensure_future(asked(batcher, 1))
        await asyncio.sleep(0)
        several = [asyncio.ensure_future(asked(batcher, value)) for value in (2, 3, 4, 5)]
        await asyncio.sleep(0)
        left = asyncio.ensure_future(asked(batcher, 6))
        await asyncio.sleep(0)
        ending = asyncio.ensure_future(batcher.close(SOON))
        await asyncio.sleep(0.01)
        compute.gate.set()
        assert await lone == [2]
        assert [await answer for answer in several] == [[4], [6], [8], [10]]
        assert await left == [12]
        await ending
        assert sorted(notes.batches) in (
            [("full", 4), ("idle", 1), ("last", 1)],
            [("full", 4), ("idle", 1), ("idle", 1)],
        )
        assert len(notes.waits) == 6

    run(body)


def test_the_oldest_request_waits_no_longer_than_declared() -> None:
    async def body() -> None:
        compute, notes = Doubling(), Notes()
        batcher = MicroBatcher(compute, BatchLimits(8, 0.01, 100, 2), notes)
        compute.gate.clear()
        answers = [asyncio.ensure_future(asked(batcher, 1))]
        await asyncio.sleep(0)
        answers += [asyncio.ensure_future(asked(batcher, value)) for value in (2, 3)]
        await asyncio.sleep(0.2)
        assert batcher.queued_rows == 0
        compute.gate.set()
        assert [await answer for answer in answers] == [[2], [4], [6]]
        await batcher.close(SOON)
        assert sorted(notes.batches) == [("idle", 1), ("waited", 2)]

    run(body)


def test_a_full_queue_and_a_deadline_reject_requests_before_they_compute() -> None:
    async def body() -> None:
        compute = Doubling()
        batcher = MicroBatcher(compute, BatchLimits(2, 0, 4, 1))
        compute.gate.clear()
        computing = asyncio.ensure_future(asked(batcher, 1, 2))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(asked(batcher, 3, 4, 5))
        late = asyncio.ensure_future(asked(batcher, 9, seconds=0.02))
        await asyncio.sleep(0)
        with pytest.raises(QueueFull, match="4 rows wait already"):
            await asked(batcher, 6)
        with pytest.raises(DeadlinePassed, match="before its turn"):
            await late  # while the only thread is busy
        assert batcher.queued_rows == 3
        compute.gate.set()
        assert await computing == [2, 4]
        assert await waiting == [6, 8, 10]
        assert await asked(batcher, *range(1, 10)) == [2.0 * value for value in range(1, 10)]  # larger than the queue
        await batcher.close(SOON)
        with pytest.raises(QueueClosed):
            await asked(batcher, 1)
        assert 9 not in compute.sizes

    run(body)


def test_small_requests_pass_between_the_pieces_of_a_large_one() -> None:
    async def body() -> None:
        compute = Doubling()
        batcher = MicroBatcher(compute, BatchLimits(2, 0, 100, 1))
        compute.gate.clear()
        order: list[str] = []

        async def noted(name: str, *values: float) -> list[float]:
            answer = await asked(batcher, *values)
            order.append(name)
            return answer

        large = asyncio.ensure_future(noted("large", *range(1, 20)))
        await asyncio.sleep(0)
        small = asyncio.ensure_future(noted("small", 50))
        await asyncio.sleep(0)
        compute.gate.set()
        assert await small == [100]
        assert await large == [2.0 * value for value in range(1, 20)]
        assert order == ["small", "large"]
        await batcher.close(SOON)

    run(body)


def test_requests_still_waiting_at_the_end_are_rejected() -> None:
    async def body() -> None:
        compute = Doubling()
        batcher = MicroBatcher(compute, BatchLimits(1, 0, 10, 1))
        compute.gate.clear()
        computing = asyncio.ensure_future(asked(batcher, 1))
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(asked(batcher, 2))
        await asyncio.sleep(0)
        await batcher.close(0.01)
        with pytest.raises(QueueClosed):
            await waiting
        compute.gate.set()
        assert await computing == [2]

    run(body)
