"""Refresh queue of the response cache: makes answers anew in the background, one at a time, by priority.

First come those that somebody waits for, then the most asked for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from starlette.datastructures import MutableHeaders
from starlette.types import Scope

log = logging.getLogger("forecaster.page")
Make = Callable[[object, Scope], Awaitable[None]]


@dataclass(eq=False)
class Job:
    """A refresh that is due; `requests` counts who asked for the answer since, `waiting` who waits for it."""

    scope: Scope
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    requests: int = 0
    waiting: int = 0

    async def wait(self) -> None:
        self.waiting += 1
        await self.finished.wait()


class RefreshQueue:
    """Priority queue of the answers of one app that are due; the same answer is queued once."""

    def __init__(self, make: Make) -> None:
        self._make = make
        self._due: dict[object, Job] = {}
        self._worker: asyncio.Task[None] | None = None

    def is_due(self, question: object) -> bool:
        return question in self._due

    def due(self, question: object, scope: Scope) -> Job:
        """From now on the answer is due, unless it was already."""
        job = self._due.get(question)
        if job is None:
            job = self._due[question] = Job(_first(scope))
        job.requests += 1
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._work())
        return job

    async def _work(self) -> None:
        """Until nothing is due; who asks while an answer is being made asked for that one."""
        try:
            while self._due:
                question, job = max(self._due.items(), key=lambda item: (item[1].waiting > 0, item[1].requests))
                await self._refresh(question, job)
        finally:
            left, self._due = self._due, {}
            for job in left.values():
                job.finished.set()

    async def _refresh(self, question: object, job: Job) -> None:
        try:
            await self._make(question, job.scope)
        except Exception:  # who waits asks for themselves, and is told
            log.exception("an answer could not be made anew: %s", job.scope["path"])
        finally:
            self._due.pop(question, None)
            job.finished.set()


def _first(scope: Scope) -> Scope:
    """The request as it would be of somebody who has no answer yet: all of it is wanted."""
    plain = dict(scope, headers=list(scope["headers"]), state=dict(scope.get("state", {})))
    del MutableHeaders(scope=plain)["if-none-match"]
    return plain
