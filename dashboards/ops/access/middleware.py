"""Access-control middleware, before any route: authenticates, rate-limits and audits; denies by default."""

from __future__ import annotations

import re
from collections.abc import Callable
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
from dashboards.ops.access.person import Person
from dashboards.ops.access.roles import SAFE
from forecaster.core.language import _
from forecaster.errors import LedgerError

FREE = ("/static/", "/healthz", "/worker.js")  # for everyone, as often as they like
READY = "/readyz"  # likewise, and it says more to whom it knows
OPEN = ("/sign-in", "/sign-in/back", "/sign-out")  # for everyone, in measure; links and feeds are, too
ROSTER, WEEK = "/roster", "/week"
Refuse = Callable[[Request, int, str], Response]
_API = re.compile(r"(/p/[^/]+)?/api/")  # of a pipeline that is not there, too


def is_api(path: str) -> bool:
    """Whether a program asks, and not a browser."""
    return _API.match(path) is not None


def _page_of(request: Request) -> str:
    """The page whose view a request is of. Files of /roster are the plans of /week, with people's names: no screen that
    shows crews alone has them."""
    path = request.url.path
    return WEEK if path == ROSTER and "format" in request.query_params else path


class AccessMiddleware:
    """ASGI middleware: finds the person, holds the rate limits, and sees to it that each write is audited."""

    def __init__(self, app: ASGIApp, context: AccessContext, refuse: Refuse, outside: ASGIApp | None = None) -> None:
        """`outside` answers readers who may see nothing of this pipeline, one of several, as if it were not there."""
        self.app, self._context, self._refuse, self._outside = app, context, refuse, outside

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        request = Request(scope, receive)
        try:
            if self._outside is not None and not await self._sees_anything(request):
                return await self._outside(scope, receive, send)
            if scope["path"].startswith(FREE[0]) or scope["path"] in FREE:
                return await self.app(scope, receive, send)
            if scope["path"] == READY:
                request.state.person = identify_cheaply(request, self._context)
                return await self.app(scope, receive, send)
            person = await self._let_in(request)
        except AccessRefused as refused:
            return await self._refuse(request, refused.status, str(refused))(scope, receive, send)
        except LedgerError as error:
            self._context.troubles.warn("%s", error)
            return await self._refuse(request, 503, _(error.for_readers))(scope, receive, send)
        if isinstance(person, Response):
            return await person(scope, receive, send)
        return await self.app(scope, receive, self._audited(request, send))

    async def _sees_anything(self, request: Request) -> bool:
        """Whether the reader, or a link in the address, may see something of this pipeline."""
        try:
            if await self._identified(request) is not None:
                return True
        except AccessRefused:
            return False
        return await run_in_threadpool(links.opens, self._context, request.url.path)

    async def _identified(self, request: Request) -> Person | None:
        """The person, identified once for each request. Raises as `identify` does."""
        if not hasattr(request.state, "identified"):
            request.state.identified = await identify(request, self._context)
        person: Person | None = request.state.identified
        return person

    async def _let_in(self, request: Request) -> Person | Response | None:
        """The person, or what they get instead. Only what is open to everyone goes on with nobody."""
        context, path = self._context, request.url.path
        address = networks.origin(request, context.access.proxies)
        try:
            person = await self._identified(request)
        except AccessRefused:  # who pretends, and who has no role or city, counts as a stranger does
            if (answer := self._too_much(request, None, address)) is not None:
                return answer
            raise
        request.state.person, request.state.address, request.state.audited = person, address, False
        if (answer := self._too_much(request, person, address)) is not None:
            return answer
        if path in OPEN or path.startswith(("/link/", "/feed/")):
            return person
        if person is None:
            return self._unauthenticated(request)
        if not person.opens(_page_of(request)) or (person.via == "link" and request.method not in SAFE):
            raise AccessRefused(403, _("this link opens one view alone, for reading"))
        if request.method not in SAFE and csrf.is_foreign(request, context):
            raise AccessRefused(403, _("this came from another site; wanted a page of ours"))
        return person

    def _too_much(self, request: Request, person: Person | None, address: str) -> Response | None:
        """The answer to one request more than the limits allow; None while they do."""
        limiter = self._context.limiter
        if limiter is None or (wait := limiter.wait(person, address, request.method)) is None:
            return None
        answer = self._refuse(request, 429, _("that was too much at once; try again in {seconds} s", seconds=wait))
        answer.headers["Retry-After"] = str(wait)
        return answer

    def _unauthenticated(self, request: Request) -> Response:
        oidc = self._context.access.sign_in == "oidc"
        if oidc and request.method == "GET" and not is_api(request.url.path):
            target = self._context.prefix + request.url.path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse(f"/sign-in?next={quote(target, safe='')}", 303)
        if oidc:
            return self._refuse(request, 401, _("nobody has signed in; sign in at /sign-in"))
        sentence = _("nobody has signed in; the proxy in front of this page says who you are, and said nothing")
        return self._refuse(request, 401, sentence)

    def _audited(self, request: Request, send: Send) -> Send:
        """Before a write that nobody audited is answered, keep its row. And nobody's answer is anybody else's."""

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                if request.method not in SAFE and message["status"] < 400 and not request.state.audited:
                    await run_in_threadpool(audit, request, "")
                headers = MutableHeaders(scope=message)
                if self._context.access.sign_in != "none":
                    if "Cookie" not in headers.get("Vary", ""):
                        headers.add_vary_header("Cookie")
                    if headers.get("Cache-Control") == "no-cache":
                        headers["Cache-Control"] = "private, no-cache"
            await send(message)

        return noting
