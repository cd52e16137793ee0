"""CSRF protection: tells a write from a page of ours from one that a foreign page made a browser
send.

Every write carries a token that only our pages can read: in the header `X-CSRF-Token`, or as the
field `csrf` of a form. A browser that says where a request comes from is believed as well.
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
HOURS = 12  # that a page may stay open before it is sent
FORM = "application/x-www-form-urlencoded"


def csrf_token(request: Request) -> str:
    """The token of the reader, for a form or a script of ours."""
    token = _signer(access_context(request)).dumps(_whose(person(request)))
    assert isinstance(token, str)
    return token


async def check(request: Request, token: str | None = None) -> None:
    """Raises HTTPException where the write did not come from one of our pages; `token` is the one of a form that the
    route has read itself."""
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
    """Whether the browser says that another site's page asks."""
    if (site := request.headers.get("sec-fetch-site")) is not None and site not in ("same-origin", "none"):
        return True
    if (origin := request.headers.get("origin")) is None:
        return False
    # what a browser says of a form on a page that sends no referrer, as ours do
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
    # of this pipeline alone
    return serializer(URLSafeTimedSerializer, context.keys, f"csrf{context.prefix}")
