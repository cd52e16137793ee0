"""Send an answer again to who asks the same within a second, while the ledger's files are as they were.

Behind the gate, before the routes: routing and a thread for each request cost more than the answer. Only what has a tag
is kept, so no form and nothing that was made for one person; the cities that somebody sees are part of the question.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import monotonic
from typing import Any

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.ops.answers import same
from dashboards.ops.shelf import AGAIN, Shelf

MOST = 1024  # answers
LARGEST = 1_000_000  # bytes of one that is kept
OF_A_BODY = (b"content-length", b"content-type", b"content-encoding", b"content-disposition")


@dataclass(frozen=True)
class Kept:
    """An answer, what the ledger's files were like before it was made, and when that was (monotonic clock)."""

    stamp: object
    at: float
    start: Message
    body: bytes
    tag: str


class Again:
    """Keeps the answers of one app."""

    def __init__(self, app: ASGIApp, shelf: Shelf) -> None:
        self.app, self._shelf = app, shelf
        self._kept: dict[object, Kept] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stamp = self._shelf.stamp() if scope["type"] == "http" and scope["method"] == "GET" else None
        if stamp is None:
            await self.app(scope, receive, send)
            return
        headers, now = Headers(scope=scope), monotonic()
        question = _question(scope, headers)
        found = self._kept.get(question)
        if found is None or found.stamp != stamp or now - found.at > AGAIN:
            await self.app(scope, receive, self._keeping(question, stamp, now, send))
            return
        await _sent(found, headers.get("if-none-match", ""), send)

    def _keeping(self, question: object, stamp: object, now: float, send: Send) -> Send:
        """Passes an answer on, and keeps it where it may be sent again."""
        began: list[Message] = []

        async def keeping(message: Message) -> None:
            if message["type"] == "http.response.start":
                tag = Headers(raw=message["headers"]).get("etag")
                if message["status"] == 200 and tag:
                    began.append({**message, "headers": list(message["headers"]), "tag": tag})
            elif began and not message.get("more_body") and len(message["body"]) <= LARGEST:
                start = began.pop()
                if len(self._kept) >= MOST:
                    self._kept = {}
                self._kept[question] = Kept(stamp, now, start, message["body"], start.pop("tag"))
            await send(message)

        return keeping


async def _sent(found: Kept, known: str, send: Send) -> None:
    """Each time with headers of its own: those outside add to them."""
    headers, start, body = list(found.start["headers"]), found.start, found.body
    if same(known, found.tag):
        headers = [(name, value) for name, value in headers if name not in OF_A_BODY]
        start, body = {"type": "http.response.start", "status": 304}, b""
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def _question(scope: Scope, headers: Headers) -> tuple[Any, ...]:
    gzip = "gzip" in headers.get("accept-encoding", "")
    cities = scope["state"]["person"].cities if scope.get("state", {}).get("person") else ()
    return scope["path"], scope["query_string"], headers.get("accept-language", ""), gzip, cities
