"""Response cache of one app: bodies of the current edition, evicted least recently used first.

An edition has a number, composed of the publication, its last write, the last run and the quarter
hour. A body is cached by address, language, encoding and the reader's rights; a new number empties
the cache. Answers outside an edition (the latest runs, the past) hold until the ledger is read
again, a second at most. Only answers with an ETag are cached: no forms, nothing made for one
person. The cache sits behind the access middleware and before the routes, since routing and a
thread per request cost more than the answer.

While the bodies of a new edition are rendered, one after the other, readers get those of the
edition before; readers who have just written do not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from gzip import decompress
from html import escape
from time import monotonic
from typing import Any

from anyio import fail_after, to_thread
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.ops.access.roles import changes_nothing
from dashboards.ops.formatting import locale
from dashboards.ops.http.language import of_request
from dashboards.ops.http.responses import OF_EDITION, ORIGIN, TRY_AGAIN, etag_matches
from dashboards.ops.reading.store import PublicationStore
from forecaster.core.language import _
from forecaster.errors import LedgerError

STALE_SECONDS = 2.0  # for which the previous edition may be served after a new one appears
# seconds that an answer waits for the number; then its route waits for the ledger itself
PATIENCE = 1.0
EARLIER_SECONDS = 10.0  # for which it is served at most, as thousands of depots take seconds to render
MOST_BYTES = 32_000_000
LARGEST_BODY = 1_000_000  # bytes of one cached body
ABSENCE = b"<!-- absence -->"  # placeholder in a page for the sentence on the ledger's absence
OF_A_BODY = (b"content-length", b"content-type", b"content-encoding", b"content-disposition")
log = logging.getLogger("forecaster.page")


@dataclass(frozen=True)
class CachedResponse:
    """A response with its validity: the edition's number or the time of the ledger read."""

    holds_for: object
    start: Message
    body: bytes
    tag: str


class RecentResponses:
    """Least-recently-used responses by request key, up to `MOST_BYTES` together."""

    def __init__(self) -> None:
        self._responses: OrderedDict[object, CachedResponse] = OrderedDict()
        self._bytes = 0

    def get(self, question: object) -> CachedResponse | None:
        if (response := self._responses.get(question)) is not None:
            self._responses.move_to_end(question)
        return response

    def put(self, question: object, response: CachedResponse) -> None:
        if (before := self._responses.pop(question, None)) is not None:
            self._bytes -= len(before.body)
        self._responses[question] = response
        self._bytes += len(response.body)
        while self._bytes > MOST_BYTES:
            self._bytes -= len(self._responses.popitem(last=False)[1].body)


class ResponseCache:
    """ASGI middleware that caches the responses of one app; concurrent equal requests share one
    rendering."""

    def __init__(self, app: ASGIApp, store: PublicationStore, but: tuple[str, ...] = ()) -> None:
        """Keep the app and the store. Paths that begin with one of `but` are never cached: they
        contain their own credentials."""
        self.app, self._store, self._but = app, store, but
        self._number: object = None  # of the current edition
        self._read_at = 0.0  # time of the last ledger read, on the monotonic clock
        self._reading: asyncio.Task[None] | None = None
        self._writes, self._has_written = 0, False  # the latter since the last ledger read
        self._bodies, self._earlier, self._earlier_until = RecentResponses(), RecentResponses(), 0.0
        self._earlier_number: object = None
        # keys that are being answered for the first time
        self._first_requests: dict[object, asyncio.Event] = {}
        self._due: dict[object, Scope] = {}  # keys to render again
        self._worker: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "GET" or scope["path"].startswith(self._but):
            await self.app(scope, receive, self._noting(scope, send))
            return
        headers = Headers(scope=scope)
        question = _question(scope, headers)
        response = await self._response(question, scope)
        if response is None:
            scope[ORIGIN] = "made"
            await self._first(question, scope, receive, send)
        else:
            await _send_cached(response, headers.get("if-none-match", ""), send)

    async def _response(self, question: object, scope: Scope) -> CachedResponse | None:
        """Return the cached answer, or the earlier one while a new one is rendered; None if the
        route must render it."""
        try:
            await self._look()
        except TimeoutError:
            if self._in_memory(question) is None:
                return None  # the route waits for the ledger
            self._store.no_answer(PATIENCE)
            return self._while_away(question, scope)
        except LedgerError:
            return self._while_away(question, scope)
        response = self._kept(question)
        if response is None and (earlier := self._earlier_response(question)) is not None:
            scope[ORIGIN] = "earlier"
            self._make_anew(question, scope)
            return earlier
        if response is None and (first := self._first_requests.get(question)) is not None:
            await first.wait()
            response = self._kept(question)
        scope[ORIGIN] = "kept"
        return response

    def _in_memory(self, question: object) -> CachedResponse | None:
        """Return the page of the current edition or the one before; None for anything but a page."""
        page = self._bodies.get(question) or self._earlier.get(question)
        if page is None or not isinstance(page.holds_for, tuple):
            return None
        is_page = Headers(raw=page.start["headers"])["content-type"].startswith("text/html")
        return page if is_page else None

    def _while_away(self, question: object, scope: Scope) -> CachedResponse | None:
        """Return a page in memory with a sentence on the ledger's absence; None if there is no such
        page, and the route reports the error."""
        if (page := self._in_memory(question)) is None:
            return None
        assert isinstance(page.holds_for, tuple)
        headers = Headers(raw=page.start["headers"])
        with locale.active(of_request(Request(scope))):
            if (sentence := self._store.absence_sentence(page.holds_for[0])) is None:
                return None
            alarm = f"<strong>{escape(_('Perhaps not the newest.'))}</strong> {escape(sentence)}"
        html = decompress(page.body) if headers.get("content-encoding") == "gzip" else page.body
        body = html.replace(ABSENCE, f'<p class="stale" role="status">{alarm}</p>'.encode(), 1)
        scope[ORIGIN] = "copy"
        kind = {"Content-Type": headers["content-type"], "Content-Length": str(len(body))}
        answer = Headers({**kind, "Cache-Control": "no-store", **TRY_AGAIN})
        return CachedResponse(None, {**page.start, "headers": answer.raw}, body, "absence")

    async def _look(self) -> None:
        """Learn the edition's number; during a ledger read, a slightly older number suffices.

        Raises LedgerError, and TimeoutError if the ledger does not answer within `PATIENCE`
        seconds.
        """
        number_and_time = self._store.known()
        if number_and_time is None and not self._has_written and monotonic() - self._read_at <= STALE_SECONDS:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.get_running_loop().create_task(self._read())
            return
        if number_and_time is None:
            with fail_after(PATIENCE):
                number_and_time = await to_thread.run_sync(self._store.read_number, abandon_on_cancel=True)
        self._take(*number_and_time)

    async def _read(self) -> None:
        with suppress(LedgerError):  # the next request reads it
            self._take(*await to_thread.run_sync(self._store.read_number))

    def _take(self, number: object, read_at: float) -> None:
        """Empty the cache if the edition has changed."""
        if read_at <= self._read_at:
            return
        if number != self._number:
            is_fresh = monotonic() - self._read_at <= STALE_SECONDS
            self._earlier, self._earlier_number = self._bodies, self._number
            self._earlier_until = monotonic() + EARLIER_SECONDS if is_fresh else 0.0
            self._number, self._bodies = number, RecentResponses()
        self._read_at, self._has_written = read_at, False

    def _kept(self, question: object) -> CachedResponse | None:
        response = self._bodies.get(question)
        holds = response is not None and response.holds_for in (self._number, self._read_at)
        return response if holds else None

    def _earlier_response(self, question: object) -> CachedResponse | None:
        """Return the previous edition's answer, for some seconds."""
        response = self._earlier.get(question) if monotonic() < self._earlier_until else None
        return response if response is not None and response.holds_for == self._earlier_number else None

    async def _first(self, question: object, scope: Scope, receive: Receive, send: Send) -> None:
        """Call the app; concurrent requests for the same key wait for its answer."""
        answered = self._first_requests.setdefault(question, asyncio.Event())
        try:
            await self.app(scope, receive, self._keeping(question, scope, send))
        finally:
            answered.set()
            self._first_requests.pop(question, None)

    def _make_anew(self, question: object, scope: Scope) -> None:
        """Queue an answer for rendering in the background."""
        if question not in self._due:
            plain = dict(scope, headers=list(scope["headers"]), state=dict(scope.get("state", {})))
            del MutableHeaders(scope=plain)["if-none-match"]
            self._due[question] = plain
        if self._worker is None or self._worker.done():
            self._worker = asyncio.get_running_loop().create_task(self._make_due())

    async def _make_due(self) -> None:
        while self._due:
            question, scope = next(iter(self._due.items()))
            try:
                if self._kept(question) is None:
                    await self._first(question, scope, _no_body, _discard)
            except Exception:  # the next request reports the error
                log.exception("an answer could not be recomputed: %s", scope["path"])
            finally:
                del self._due[question]

    def _noting(self, scope: Scope, send: Send) -> Send:
        """Empty the cache after a write, so that the next page shows it."""
        if changes_nothing(scope.get("method", "GET"), scope.get("path", "")):
            return send

        async def noting(message: Message) -> None:
            if message.get("status", 503) != 503:  # on 503 the ledger is unavailable: pages in memory stay
                self._writes += 1
                self._bodies, self._earlier = RecentResponses(), RecentResponses()
                # a read in progress may return older data
                self._has_written, self._read_at = True, monotonic()
                self._store.forget()
            await send(message)

        return noting

    def _keeping(self, question: object, scope: Scope, send: Send) -> Send:
        """Pass an answer on, and cache it if it may be reused."""
        now = self._number, self._writes
        read_at = self._read_at
        began: list[Message] = []

        async def keeping(message: Message) -> None:
            if message["type"] == "http.response.start":
                tag = Headers(raw=message["headers"]).get("etag")
                if message["status"] == 200 and tag:
                    began.append({**message, "headers": list(message["headers"]), "tag": tag})
            elif began and (message.get("more_body") or len(message["body"]) > LARGEST_BODY):
                began.clear()
            elif began and now == (self._number, self._writes):
                start = began.pop()
                holds_for = self._number if scope.get(OF_EDITION) else read_at
                self._bodies.put(question, CachedResponse(holds_for, start, message["body"], start.pop("tag")))
            await send(message)

        return keeping


async def _send_cached(response: CachedResponse, if_none_match: str, send: Send) -> None:
    """Send a cached response, with its own copy of the headers: outer middleware adds to them."""
    headers, start, body = list(response.start["headers"]), response.start, response.body
    if etag_matches(if_none_match, response.tag):
        headers = [(name, value) for name, value in headers if name not in OF_A_BODY]
        start, body = {"type": "http.response.start", "status": 304}, b""
    await send({**start, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _no_body() -> Message:
    """Wait forever: there is no body and no disconnect, for which a file's response listens."""
    await asyncio.Event().wait()
    raise AssertionError


async def _discard(_: Message) -> None:
    pass


def _question(scope: Scope, headers: Headers) -> tuple[Any, ...]:
    gzip = "gzip" in headers.get("accept-encoding", "")
    reader = scope.get("state", {}).get("person")
    rights = (reader.cities, reader.may("admin")) if reader else ()
    return scope["path"], scope["query_string"], scope.get("state", {}).get("locale"), gzip, rights
