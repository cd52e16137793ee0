"""Access to the inference service: the page's sign-in by a proxy's header, and tokens for machines.

A token is a link of the view `infer` (`forecaster link FILE --view infer`): signed, in the ledger,
revocable, and optionally limited to a city. It is sent as `Authorization: Bearer TOKEN`. If no
sign-in is declared, only this machine has access, as with the page.
"""

from __future__ import annotations

from time import monotonic
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Send

from dashboards.ops.access import csrf, links
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.middleware import AccessMiddleware, Refuse
from dashboards.ops.access.person import Person

if TYPE_CHECKING:
    from dashboards.ops.access.rate_limits import Rate

FREE = ("/v2/health/live", "/v2/health/ready")  # for everyone, without a limit
TOKEN_SECONDS = 1.0  # for which a token is trusted without a look at the ledger
MOST_TOKENS = 1024
NOBODY = "nobody has signed in; wanted Authorization: Bearer and a token, or the proxy's header"


class TokenAccess(AccessMiddleware):
    """The page's access control for machines, which read and are not audited."""

    def __init__(self, app: ASGIApp, context: AccessContext, refuse: Refuse) -> None:
        super().__init__(app, context, refuse)
        self._tokens: dict[str, tuple[Person | None, float]] = {}

    def is_free(self, request: Request) -> bool:
        return request.scope["path"] in FREE

    async def identify(self, request: Request) -> Person | None:
        sign_in = self.context.access.sign_in
        if sign_in != "none":
            scheme, _, token = request.headers.get("authorization", "").partition(" ")
            if scheme.lower() == "bearer":
                return await self._holder(token.strip())
            if sign_in == "oidc":  # browsers sign in at the page
                return None
        person = await super().identify(request)
        # The cookie of a wall screen, or a feed's token sent as a cookie, opens a view of the page
        # but nothing here.
        return None if person is not None and person.via == "link" else person

    def rate(self, request: Request) -> Rate:
        return "inference"

    def authorize(self, request: Request, person: Person | None) -> Response | None:
        if person is None:
            return self.refuse(request, 401, NOBODY)
        if csrf.is_foreign(request, self.context):
            return self.refuse(request, 403, "cross-origin request rejected")
        return None

    def noting(self, request: Request, send: Send) -> Send:
        return send

    async def _holder(self, token: str) -> Person | None:
        person, until = self._tokens.get(token, (None, 0.0))
        if monotonic() < until:
            return person
        person = await run_in_threadpool(links.visitor, self.context, token)
        person = person if person is not None and person.opens(links.INFER) else None
        if len(self._tokens) >= MOST_TOKENS:
            self._tokens.clear()
        self._tokens[token] = (person, monotonic() + TOKEN_SECONDS)
        return person
