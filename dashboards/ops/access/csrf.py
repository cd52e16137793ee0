"""CSRF protection: distinguishes a write from our own page from one that a foreign page made a
browser send.

Every write carries a token that only our pages can read: in the header `X-CSRF-Token`, or in the
form field `csrf`. A browser that states a request's origin is believed as well.
"""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.exceptions import HTTPException
from starlette.requests import Request

from dashboards.ops.access.context import AccessContext, access_context
from dashboards.ops.access.person import Person, person
from dashboards.ops.access.signatures import serializer
from forecaster.core.language import _

HEADER, FIELD = "X-CSRF-Token", "csrf"
HOURS = 12  # for which a page may stay open before it is sent
FORM = "application/x-www-form-urlencoded"


def csrf_token(request: Request) -> str:
    """Return the reader's token, for a form or a script of ours."""
    token = _signer(access_context(request)).dumps(_whose(person(request)))
    assert isinstance(token, str)
    return token


async def check(request: Request, token: str | None = None) -> None:
    """Raise HTTPException unless the write comes from one of our pages. `token` is that of a form
    that the route has already read."""
    if is_foreign(request, access_context(request)):
        raise HTTPException(403, _("cross-origin request rejected; wanted a request from this page"))
    try:
        whose = _signer(access_context(request)).loads(
            await _token(request) if token is None else token, max_age=HOURS * 3600
        )
    except BadSignature:
        raise HTTPException(403, _("the page was open for too long, or is not ours; load it again")) from None
    if whose != _whose(person(request)):
        raise HTTPException(403, _("the page was made for somebody else; load it again"))


def is_foreign(request: Request, context: AccessContext) -> bool:
    """True if the browser reports that another site's page sent the request."""
    if (site := request.headers.get("sec-fetch-site")) is not None and site not in ("same-origin", "none"):
        return True
    if (origin := request.headers.get("origin")) is None:
        return False
    # browsers send this for a form on a page without referrer, as ours are
    if origin == "null":
        return site != "same-origin"
    home = context.access.url or f"{request.url.scheme}://{request.headers.get('host', '')}"
    return urlsplit(origin)[:2] != urlsplit(home)[:2]


async def _token(request: Request) -> str:
    if header := request.headers.get(HEADER):
        return header
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return ""
    body = await request.body()  # Starlette keeps it for the route
    return parse_qs(body.decode("utf-8", "replace")).get(FIELD, [""])[0]


def _whose(person: Person) -> list[str]:
    return [person.via, person.name]


def _signer(context: AccessContext) -> URLSafeTimedSerializer:
    # valid for this pipeline only
    return serializer(URLSafeTimedSerializer, context.keys, f"csrf{context.prefix}")
