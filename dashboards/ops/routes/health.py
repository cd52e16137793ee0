"""Health checks for load balancers: liveness (the process is up) and readiness (it has something to
show).

They are answered to everyone, without rate limit and under any host name: an answer costs nothing,
or shares a look at the ledger that is taken once a second.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from time import monotonic

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response

from dashboards.ops.reading.store import PublicationStore
from forecaster.errors import LedgerError

READINESS_SECONDS = 1.0  # for which a known readiness is reused


@dataclass(frozen=True)
class Readiness:
    """Readiness with a sentence for signed-in people, and one for admins; `at` is on the monotonic
    clock."""

    ready: bool
    sentence: str
    for_admins: str
    stamp: object | None
    at: float


class ReadinessCache:
    """Recent readiness, read once for all concurrent requests. Thread-safe."""

    def __init__(self, store: PublicationStore) -> None:
        self._store, self._lock = store, threading.Lock()
        self._last: Readiness | None = None

    def now(self) -> Readiness:
        with self._lock:
            last, stamp = self._last, self._store.stamp()
            if last is None or last.stamp != stamp or monotonic() - last.at >= READINESS_SECONDS:
                last = self._last = self._look()
        return last

    def _look(self) -> Readiness:
        try:
            head = self._store.edition().head
        except LedgerError as error:
            cached_head = self._store.head_in_memory()
            ready, sentence, for_admins = cached_head is not None, error.for_readers, str(error)
            if cached_head is not None:
                sentence = f"publication {cached_head.publication_id} of {cached_head.pipeline}, from memory"
                for_admins = f"{sentence}: {error}"
        else:
            ready, sentence = True, f"publication {head.publication_id} of {head.pipeline}"
            for_admins = sentence
        return Readiness(ready, sentence, for_admins, self._store.stamp(), monotonic())


def router(store: PublicationStore) -> APIRouter:
    """Return the routes for machines: liveness and readiness."""
    routes, cache = APIRouter(tags=["health"]), ReadinessCache(store)

    @routes.get("/healthz", response_class=PlainTextResponse)
    async def healthz() -> str:  # async: needs no free thread
        """Liveness: the process is up."""
        return "ok\n"

    @routes.get("/readyz", response_class=PlainTextResponse, responses={503: {"description": "Not ready, and why"}})
    def readyz(request: Request) -> Response:
        """Readiness: something is published, and the ledger can be read or pages are in memory.
        Otherwise 503, with the reason for signed-in people."""
        who, readiness = request.state.person, cache.now()
        plain = "ready" if readiness.ready else "not ready"
        sentence = readiness.for_admins if who and who.may("admin") else readiness.sentence if who else plain
        if readiness.ready:
            return PlainTextResponse(f"{sentence}\n")
        return PlainTextResponse(f"{sentence}\n", 503, {"Retry-After": "60"})

    return routes
