"""Who may ask, and how much: the page's sign-in by a proxy's header, tokens for machines, limits, and sizes of bodies.

A token is a link of the view `infer` (`forecaster link FILE --view infer`): signed, in the ledger, revocable, and of
one city where it names one. It comes as `Authorization: Bearer TOKEN`. Where no sign-in is declared, this machine alone
may ask, as with the page.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.inference import refusals
from dashboards.inference.header_numbers import whole_number
from dashboards.inference.refusals import Refused
from dashboards.ops.access import csrf, links, networks
from dashboards.ops.access.authentication import identify
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.person import Person

FREE = ("/v2/health/live", "/v2/health/ready")  # for everyone, as often as they like
LARGEST_BODY = 64 << 20  # bytes
MOST_BODIES = 128 << 20  # bytes of all bodies that are held at a time
BODY_SECONDS = 20.0  # that a body may take to come
TOKEN_SECONDS = 1.0  # that a token is believed without a look at the ledger
MOST_TOKENS = 1024
CLOSE = {"Connection": "close"}  # the rest of the body is not waited for


class Entrance:
    """ASGI middleware: finds out who asks, and holds the limits; refuses by default."""

    def __init__(self, app: ASGIApp, context: AccessContext, turned_away: Callable[[int], None]) -> None:
        """`turned_away` is told the status of whoever does not come in."""
        self.app, self._context, self._turned_away = app, context, turned_away
        self._tokens: dict[str, tuple[Person | None, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in FREE:
            return await self.app(scope, receive, send)
        request = Request(scope, receive)
        try:
            request.state.person = await self._let_in(request)
        except Exception as error:
            refused = refusals.of(error, self._context.warnings)
            self._turned_away(refused.status)
            return await refusals.answer(refused)(scope, receive, send)
        return await self.app(scope, receive, send)

    async def _let_in(self, request: Request) -> Person:
        context = self._context
        address = networks.origin(request, context.access.proxies)
        try:
            person = await self._person(request)
        except Exception:  # who pretends counts as a stranger does
            self._limit(None, address)
            raise
        self._limit(person, address)
        if person is None:
            raise Refused(
                401,
                "nobody has signed in; wanted Authorization: Bearer and a token, or what the proxy says",
                headers={"WWW-Authenticate": "Bearer"},
            )
        if csrf.is_foreign(request, context):
            raise Refused(403, "this came from another site's page")
        return person

    async def _person(self, request: Request) -> Person | None:
        sign_in = self._context.access.sign_in
        if sign_in != "none":
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() == "bearer":
                return await self._holder(token.strip())
            if sign_in == "oidc":  # browsers sign in at the page
                return None
        person = await identify(request, self._context)
        # The cookie of a wall screen, or a feed's token sent as one, opens a view of the page and nothing here.
        return None if person is not None and person.via == "link" else person

    async def _holder(self, token: str) -> Person | None:
        person, until = self._tokens.get(token, (None, 0.0))
        if monotonic() < until:
            return person
        person = await run_in_threadpool(_holder, self._context, token)
        if len(self._tokens) >= MOST_TOKENS:
            self._tokens.clear()
        self._tokens[token] = (person, monotonic() + TOKEN_SECONDS)
        return person

    def _limit(self, person: Person | None, address: str) -> None:
        limiter = self._context.limiter
        if limiter is not None and (wait := limiter.wait_to_infer(person, address)) is not None:
            sentence = f"that was too much at once; try again in {wait} s"
            raise Refused(429, sentence, headers={"Retry-After": str(wait)})


class LastAnswers:
    """ASGI middleware: while the server ends, an answer is the last of its connection, so that whoever keeps one open
    asks another server from then on, and none is closed on a request that is under way."""

    def __init__(self, app: ASGIApp, draining: Callable[[], bool]) -> None:
        self.app, self._draining = app, draining

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and self._draining():
                MutableHeaders(scope=message)["Connection"] = "close"
            await send(message)

        await self.app(scope, receive, closing if scope["type"] == "http" else send)


def _holder(context: AccessContext, token: str) -> Person | None:
    try:
        link = links.open_link(context, token)
    except links.DeadLink:
        return None
    if link.view != links.INFER:
        return None
    return Person(f"link {link.link_id}", "viewer", "link", None if link.city is None else frozenset({link.city}))


class Bodies:
    """Reads bodies, of which only so many bytes are held at a time."""

    def __init__(self, largest: int = LARGEST_BODY, most: int = MOST_BODIES) -> None:
        self._largest, self._most, self._held = largest, most, 0

    @asynccontextmanager
    async def read(self, request: Request, most: int | None = None) -> AsyncIterator[bytes]:
        """The body, of `most` bytes where the route says how many, for as long as the context lasts. Raises Refused
        413, 415, 408 or 503."""
        largest = self._largest if most is None else min(most, self._largest)
        if (encoding := request.headers.get("content-encoding", "identity")).lower() != "identity":
            sentence = f"Content-Encoding: found {encoding[:40]!r}, wanted a body that is not compressed"
            raise Refused(415, sentence, headers=CLOSE)  # a small one may unfold to any size
        declared = request.headers.get("content-length", "")
        if declared and whole_number(declared, 0, largest) is None:
            raise too_large(largest)
        held = 0
        try:
            parts: list[bytes] = []
            async with asyncio.timeout(BODY_SECONDS):
                async for part in request.stream():
                    held += len(part)
                    self._held += len(part)
                    if held > largest:
                        raise too_large(largest)
                    if self._held > self._most:
                        sentence = "too many large requests at once; ask again in a moment"
                        raise Refused(503, sentence, reason="full", headers={**refusals.RETRY, **CLOSE})
                    parts.append(part)
            body = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            yield body
        except TimeoutError:
            raise Refused(408, f"the body did not come within {BODY_SECONDS:g} s", headers=CLOSE) from None
        finally:
            self._held -= held


def too_large(largest: int) -> Refused:
    sentence = f"found a body of more than {largest:,} bytes; ask in several requests"
    return Refused(413, sentence, headers=CLOSE)
