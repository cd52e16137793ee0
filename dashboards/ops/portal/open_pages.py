"""Least-recently-used cache of pipelines' pages: opened on request, the longest unused closed
first."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable
from typing import Generic, TypeVar

from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Receive, Scope, Send

MOST_OPEN = 16  # pipelines
App = TypeVar("App", bound=ASGIApp)


class OpenPages(Generic[App]):
    """Least-recently-used cache of ASGI apps by name; an app with a request in progress is never
    closed."""

    def __init__(self, make: Callable[[str], App], close: Callable[[str], None], most: int = MOST_OPEN) -> None:
        self._make, self._close, self._most = make, close, most
        self._open: dict[str, App] = {}  # least recently used first
        self._opening: dict[str, asyncio.Task[App]] = {}
        self._requests: Counter[str] = Counter()
        self._closed = 0  # since the last garbage collection

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._open)

    async def __call__(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        self._requests[name] += 1
        try:
            await (await self._app(name))(scope, receive, send)
        finally:
            self._requests[name] -= 1
            self._close_longest_unasked()

    async def _app(self, name: str) -> App:
        if (app := self._open.pop(name, None)) is None:
            task = self._opening.get(name)
            if task is None:
                task = self._opening[name] = asyncio.create_task(run_in_threadpool(self._make, name))
                task.add_done_callback(lambda _: self._opening.pop(name, None))
            app = await asyncio.shield(task)  # a client that disconnects must not cancel it for others
        self._open[name] = app
        return app

    def _close_longest_unasked(self) -> None:
        idle = [name for name in self._open if not self._requests[name]]
        for name in idle[: max(len(self._open) - self._most, 0)]:
            del self._open[name]
            del self._requests[name]
            self._close(name)
            self._closed += 1
        # an app is full of cycles, which a page's process rarely collects by itself
        if self._closed >= self._most:
            self._closed = 0
            gc.collect()
