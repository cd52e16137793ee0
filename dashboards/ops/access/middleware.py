"""Access-control middleware, before any route: authenticates, rate-limits and audits; denies by
default.

The inference service inherits from it and overrides what is open, how to identify people, and what
they may do.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import quote

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dashboards.ops.access import csrf, links, networks
from dashboards.ops.access.audit import audit
from dashboards.ops.access.authentication import AccessRefused, identify, identify_cheaply
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.person import Person, note_reader
from dashboards.ops.access.roles import SAFE, changes_nothing
from forecaster.core.language import _
from forecaster.errors import LedgerError

if TYPE_CHECKING:
    from dashboards.ops.access.rate_limits import Rate

FREE = ("/static/", "/healthz", "/worker.js")  # for everyone, without a limit
READY = "/readyz"  # likewise; it reports more to identified people
# for everyone, rate-limited, as are links and feeds
OPEN = ("/sign-in", "/sign-in/back", "/sign-out")
Refuse = Callable[[Request, int, str], Response]
_API = re.compile(r"(/p/[^/]+)?/api/")  # also of a pipeline that does not exist


def is_api(path: str) -> bool:
    """True if a program asks, not a browser."""
    return _API.match(path) is not None


class AccessMiddleware:
    """ASGI middleware that identifies the person, enforces the rate limits, and has each write
    audited."""

    def __init__(self, app: ASGIApp, context: AccessContext, refuse: Refuse, outside: ASGIApp | None = None) -> None:
        """Keep the app and its context. For one of several pipelines, `outside` answers readers who
        may see nothing of it, as if it did not exist."""
        self.app, self.context, self.refuse, self._outside = app, context, refuse, outside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request = Request(scope, receive)
        try:
            if self._outside is not None and not await self._sees_anything(request):
                return await self._outside(scope, receive, send)
            if self.is_free(request):
                return await self.app(scope, receive, send)
            answer = await self._let_in(request)
        except AccessRefused as refused:
            return await self.refuse(request, refused.status, str(refused))(scope, receive, send)
        except LedgerError as error:
            self.context.troubles.warn("%s", error)
            return await self.refuse(request, 503, _(error.for_readers))(scope, receive, send)
        if answer is not None:
            return await answer(scope, receive, send)
        return await self.app(scope, receive, self.noting(request, send))

    def is_free(self, request: Request) -> bool:
        """True if everyone may ask this, without a limit."""
        path = request.scope["path"]
        if path == READY:
            request.state.person = identify_cheaply(request, self.context)
        return path.startswith(FREE[0]) or path in FREE or path == READY

    async def identify(self, request: Request) -> Person | None:
        """Return the person behind a request, or None if unknown. Raises AccessRefused for a
        spoofed identity."""
        return await identify(request, self.context)

    def rate(self, request: Request) -> Rate:
        """Return the rate that limits such requests of a person who has signed in."""
        return "reads" if changes_nothing(request.method, request.url.path) else "writes"

    def authorize(self, request: Request, person: Person | None) -> Response | None:
        """Return the answer to a person who may not ask this; None if they may. Raises
        AccessRefused."""
        path = request.url.path
        if path in OPEN or path.startswith(("/link/", "/feed/")):
            return None
        if person is None:
            return self._unauthenticated(request)
        reads = request.method in SAFE or path == links.MY_WEEK  # where people answer
        if not person.opens(path) or (person.via == "link" and not reads):
            raise AccessRefused(403, _("this link allows reading one view only"))
        if request.method not in SAFE and csrf.is_foreign(request, self.context):
            raise AccessRefused(403, _("cross-origin request rejected; wanted a request from this page"))
        return None

    async def _sees_anything(self, request: Request) -> bool:
        """True if the reader, or a link in the address, may see any part of this pipeline."""
        try:
            if await self._identified(request) is not None:
                return True
        except AccessRefused:
            return False
        return await run_in_threadpool(links.opens, self.context, request.url.path)

    async def _identified(self, request: Request) -> Person | None:
        """Return the person, identified once per request. Raises as `identify` does."""
        if not hasattr(request.state, "identified"):
            request.state.identified = await self.identify(request)
        person: Person | None = request.state.identified
        return person

    async def _let_in(self, request: Request) -> Response | None:
        """Return the answer to a client who is not let in; else None, with the person in the
        request's state."""
        address = networks.origin(request, self.context.access.proxies)
        try:
            person = await self._identified(request)
        except AccessRefused:  # spoofers and people without a role or a city count as unauthenticated
            if (answer := self._too_much(request, None, address)) is not None:
                return answer
            raise
        answer = self._too_much(request, person, address) or self.authorize(request, person)
        if answer is None:
            request.state.person, request.state.address, request.state.audited = person, address, False
            if person is not None:
                note_reader(person)
        return answer

    def _too_much(self, request: Request, person: Person | None, address: str) -> Response | None:
        """Return the answer to a request beyond the rate limits; None within them."""
        limiter = self.context.limiter
        if limiter is None or (wait := limiter.wait(person, address, self.rate(request))) is None:
            return None
        answer = self.refuse(request, 429, _("rate limit exceeded; try again in {seconds} s", seconds=wait))
        answer.headers["Retry-After"] = str(wait)
        return answer

    def _unauthenticated(self, request: Request) -> Response:
        oidc = self.context.access.sign_in == "oidc"
        if oidc and request.method == "GET" and not is_api(request.url.path):
            target = self.context.prefix + request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/sign-in?next={quote(target, safe='')}", 303)
        if oidc:
            return self.refuse(request, 401, _("nobody has signed in; sign in at /sign-in"))
        sentence = _("nobody has signed in; the proxy in front of this page must send your name, and sent none")
        return self.refuse(request, 401, sentence)

    def noting(self, request: Request, send: Send) -> Send:
        """Audit a write that its route did not audit, before it is answered, and keep caches from
        sharing answers between people."""

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                wrote = not changes_nothing(request.method, request.url.path) and message["status"] < 400
                if wrote and not request.state.audited:
                    await run_in_threadpool(audit, request, "")
                headers = MutableHeaders(scope=message)
                if self.context.access.sign_in != "none":
                    if "Cookie" not in headers.get("Vary", ""):
                        headers.add_vary_header("Cookie")
                    if headers.get("Cache-Control") == "no-cache":
                        headers["Cache-Control"] = "private, no-cache"
            await send(message)

        return noting
