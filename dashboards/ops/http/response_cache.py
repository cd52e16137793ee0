"""HTTP response cache: serves a stale answer for two seconds while a newer one is made (stale-while-revalidate).

An answer is sent again while the ledger is as it was. The cache lies behind the access middleware, before the routes:
routing and a thread for each request cost more than the answer. Only what has an ETag is kept: no form, nothing that
was made for one person; the cities that somebody sees are part of the question. When something is published, readers
get what was there until the new answer is made, which one does for all (`RefreshQueue`). Nobody gets what is older than
`STALE_SECONDS`, unless its successor is being made; and who has just written on this page sees it.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import monotonic
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.ops.access.roles import SAFE
from dashboards.ops.http.refresh_queue import RefreshQueue
from dashboards.ops.http.responses import ORIGIN, etag_matches
from dashboards.ops.reading.store import REREAD_SECONDS, PublicationStore

STALE_SECONDS = 2.0  # that an answer may be behind what is published
STALE_SECONDS_WHILE_REFRESHING = 10.0  # thousands of depots take longer to make than STALE_SECONDS
MOST_RESPONSES = 1024  # answers
LARGEST_BODY = 1_000_000  # bytes of one that is kept
OF_A_BODY = (b"content-length", b"content-type", b"content-encoding", b"content-disposition")


@dataclass(frozen=True)
class CachedResponse:
    """A response, and what the ledger's files were like before it was made, when that was (monotonic clock), and after
    how many writes."""

    stamp: object | None
    at: float
    writes: int
    start: Message
    body: bytes
    tag: str


class ResponseCache:
    """ASGI middleware that caches the responses of one app; one request makes each for all who ask meanwhile."""

    def __init__(self, app: ASGIApp, store: PublicationStore, but: tuple[str, ...] = ()) -> None:
        """Paths that begin with one of `but` are asked each time: who may read them is in the path."""
        self.app, self._store, self._but = app, store, but
        self._responses: dict[object, CachedResponse] = {}
        self._first_requests: dict[object, asyncio.Event] = {}  # what is being answered for the first time
        self._writes = 0
        self._refreshes = RefreshQueue(self._make)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith(self._but):
            await self.app(scope, receive, self._noting(scope, send))
            return
        headers = Headers(scope=scope)
        question = _question(scope, headers)
        if question not in self._responses and (first := self._first_requests.get(question)) is not None:
            await first.wait()
        response, scope[ORIGIN] = self._responses.get(question), "kept"
        if response is not None and not self._holds(response):
            before, response = response, await self._newer(question, scope, response)
            scope[ORIGIN] = "earlier" if response is before else "made"
        if response is None:
            scope[ORIGIN] = "made"
            await self._first(question, scope, receive, send)
        else:
            await _send_cached(response, headers.get("if-none-match", ""), send)

    async def _first(self, question: object, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the app; who asks the same meanwhile waits for that."""
        answered = self._first_requests.setdefault(question, asyncio.Event())
        try:
            await self.app(scope, receive, self._keeping(question, send))
        finally:
            answered.set()
            self._first_requests.pop(question, None)

    def _holds(self, response: CachedResponse) -> bool:
        new = response.stamp == self._store.stamp() and response.writes == self._writes
        return new and monotonic() - response.at <= REREAD_SECONDS

    async def _newer(self, question: object, scope: Scope, response: CachedResponse) -> CachedResponse | None:
        """The answer that was there, where it may still be sent, else the newer one; None: it can't be kept."""
        age = monotonic() - response.at
        may = STALE_SECONDS_WHILE_REFRESHING if self._refreshes.is_due(question) else STALE_SECONDS
        job = self._refreshes.due(question, scope)
        if response.writes == self._writes and age <= may:
            return response
        while True:
            await job.wait()
            newer = self._responses.get(question)
            if newer is None or newer is response:  # there is no such page any more, or nothing to make it from
                self._responses.pop(question, None)
                return None
            if newer.writes == self._writes:
                return newer
            response, job = newer, self._refreshes.due(question, scope)

    async def _make(self, question: object, scope: Scope) -> None:
        """Ask the app for nobody, and keep the answer."""
        await self.app(dict(scope), _no_body, self._keeping(question, _discard))

    def _noting(self, scope: Scope, send: Send) -> Send:
        """Whoever may have changed something finds it on the next page."""
        if scope.get("method", "GET") in SAFE:
            return send

        async def noting(message: Message) -> None:
            self._writes += 1
            await send(message)

        return noting

    def _keeping(self, question: object, send: Send) -> Send:
        """Passes an answer on, and keeps it where it may be sent again."""
        stamp, now, writes = self._store.stamp(), monotonic(), self._writes
        began: list[Message] = []

        async def keeping(message: Message) -> None:
            if message["type"] == "http.response.start":
                tag = Headers(raw=message["headers"]).get("etag")
                if message["status"] == 200 and tag:
                    began.append({**message, "headers": list(message["headers"]), "tag": tag})
            elif began and (message.get("more_body") or len(message["body"]) > LARGEST_BODY):
                began.clear()
            elif began:
                start = began.pop()
                if len(self._responses) >= MOST_RESPONSES:
                    self._responses = {}
                self._responses[question] = CachedResponse(stamp, now, writes, start, message["body"], start.pop("tag"))
            await send(message)

        return keeping


async def _send_cached(response: CachedResponse, if_none_match: str, send: Send) -> None:
    """Each time with headers of its own: those outside add to them."""
    headers, start, body = list(response.start["headers"]), response.start, response.body
    if etag_matches(if_none_match, response.tag):
        headers = [(name, value) for name, value in headers if name not in OF_A_BODY]
        start, body = {"type": "http.response.start", "status": 304}, b""
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _no_body() -> Message:
    """Nobody sends anything, and nobody goes away: a file's answer listens for that."""
    await asyncio.Event().wait()
    raise AssertionError


async def _discard(_: Message) -> None:
    pass


def _question(scope: Scope, headers: Headers) -> tuple[Any, ...]:
    gzip = "gzip" in headers.get("accept-encoding", "")
    cities = scope["state"]["person"].cities if scope.get("state", {}).get("person") else ()
    return scope["path"], scope["query_string"], scope.get("state", {}).get("locale"), gzip, cities
