"""Readers of a page at a steady rate: requests do not wait for earlier ones (open loop), so that
queueing counts."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

PATHS = ("/", "/depot/D1", "/?sort=city", "/api/v1/depots/D2", "/wall")
LONGEST = 10.0  # seconds after which a reader gives up
NO_ANSWER = 0  # our own status


@dataclass
class Answers:
    """Answers to readers: status → count, and the wait of each in seconds."""

    statuses: Counter[int] = field(default_factory=Counter)
    waits: list[float] = field(default_factory=list)

    @property
    def error_share(self) -> float:
        """Share of readers without an answer or with a 5xx."""
        errors = sum(number for status, number in self.statuses.items() if status == NO_ANSWER or status >= 500)
        return errors / max(1, self.statuses.total())

    def percentile(self, share: float) -> float:
        """Return the seconds within which this share was answered; NaN if there were no requests."""
        ordered = sorted(self.waits)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


@contextmanager
def reading(port: int, rate: float) -> Iterator[Answers]:
    """Send `rate` requests per second to a port of this machine while the block runs."""
    answers, over = Answers(), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(_read(port, rate, answers, over)), daemon=True)
    thread.start()
    try:
        yield answers
    finally:
        over.set()
        thread.join(LONGEST + 5)


async def _read(port: int, rate: float, answers: Answers, over: threading.Event) -> None:
    begun, number, tasks = time.monotonic(), 0, set[asyncio.Task[None]]()
    while not over.is_set():
        due = begun + number / rate
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        task = asyncio.create_task(_ask(port, PATHS[number % len(PATHS)], due, answers))
        tasks.add(task)
        task.add_done_callback(tasks.discard)
        number += 1
    await asyncio.gather(*tasks)


async def _ask(port: int, path: str, due: float, answers: Answers) -> None:
    status = NO_ANSWER
    with suppress(OSError, ValueError, IndexError, TimeoutError):
        async with asyncio.timeout(LONGEST):
            status = await _status(port, path)
    answers.statuses[status] += 1
    answers.waits.append(time.monotonic() - due)


async def _status(port: int, path: str) -> int:
    """Return the status of a complete answer; NO_ANSWER if the connection closed without one."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n".encode())
        answer = await reader.read()
        while more := await reader.read():
            answer += more
        return int(answer.split(b" ", 2)[1]) if answer else NO_ANSWER
    finally:
        writer.close()
