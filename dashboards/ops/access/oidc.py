"""OpenID Connect sign-in: authorization code with PKCE; the session is kept on the server."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import httpx2
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.starlette_client import OAuth, StarletteOAuth2App
from fastapi import APIRouter
from joserfc.errors import JoseError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from dashboards.ops.access import own_sessions
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.csrf import is_foreign
from dashboards.ops.access.own_sessions import EMPTIED
from dashboards.ops.access.person import with_role
from forecaster.config.access import Oidc
from forecaster.config.credentials import fill
from forecaster.core.language import N_, _
from forecaster.core.terminal import escaped
from forecaster.errors import LedgerError
from forecaster.ledger import access as ledger_access
from forecaster.ledger.access import AuditEntry

PATIENCE = 10  # seconds to wait for the provider
GONE = N_("You have signed out")


def router(context: AccessContext, page: Callable[..., bytes]) -> APIRouter:
    """Return the routes for signing in and out; `page` renders a template."""
    declared = context.access.oidc
    assert declared is not None
    routes, provider = APIRouter(include_in_schema=False), client(declared)
    routes.include_router(own_sessions.router(context, page))

    @routes.get("/sign-in")
    async def sign_in(request: Request, next: str = "/") -> Response:
        # if the session cannot be ended now, at least this browser no longer holds it
        with suppress(LedgerError):
            await _forget(request, context)
        request.session["next"] = next if is_ours(next) else "/"
        try:
            await _trusted(provider, declared)
            answer = await provider.authorize_redirect(request, f"{context.access.url}/sign-in/back")
        except (AuthlibBaseError, httpx2.HTTPError, RuntimeError, ValueError) as error:
            raise HTTPException(
                503, _("the provider {name} cannot be asked who you are: {why}", name=declared.issuer, why=_why(error))
            ) from error
        assert isinstance(answer, Response)
        return answer

    @routes.get("/sign-in/back")
    async def back(request: Request) -> Response:
        target = request.session.get("next", "/")
        try:
            await _trusted(provider, declared)
            identity = await _identity(provider, declared, request)
        except (AuthlibBaseError, JoseError, httpx2.HTTPError, RuntimeError, ValueError) as error:
            request.session.clear()
            context.warnings.warn("sign-in refused from %s: %s", request.state.address, escaped(_why(error)))
            raise HTTPException(
                401, _("the provider {name} did not sign you in: {why}", name=declared.issuer, why=_why(error))
            ) from error
        request.session.clear()
        who, hours = (identity["name"], identity["groups"]), context.access.session_hours
        request.session.update(await run_in_threadpool(context.sessions.begin, *who, hours, context.clock()))
        await run_in_threadpool(_record, request, context, *who)
        return RedirectResponse(target, 303)

    @routes.post("/sign-out")
    async def sign_out(request: Request) -> Response:
        if is_foreign(request, context):
            raise HTTPException(403, _("cross-origin request rejected; wanted a request from this page"))
        await _forget(request, context)
        request.state.audited = True  # nothing was written
        return RedirectResponse("/sign-out", 303, EMPTIED)

    @routes.get("/sign-out")
    async def signed_out() -> Response:
        return _signed_out(page)

    return routes


def _record(request: Request, context: AccessContext, name: str, groups: Sequence[str]) -> None:
    """Write a sign-in and its role into the audit; into the log if the ledger is unavailable."""
    reader = with_role(context.access, name, groups, "oidc")
    about = (name, reader.role if reader else "none", str(request.state.address), request.method, request.url.path)
    try:
        with context.writing() as connection:
            entry = AuditEntry(context.clock(), context.pipeline_shown(), *about, "signed in")
            ledger_access.note(connection, entry)
    except LedgerError as error:
        context.troubles.warn("%s has signed in, which the audit does not have: %s", name, error)


async def _forget(request: Request, context: AccessContext) -> None:
    """End the reader's session, for every copy of its cookie."""
    cookie = dict(request.session)
    request.session.clear()
    await run_in_threadpool(context.sessions.end, cookie)


def _signed_out(page: Callable[..., bytes]) -> Response:
    """Return a page of ours that does not redirect to the provider: that would sign people in again
    at once, and browsers do not let our forms lead to another site."""
    forgotten = _("This device has forgotten what the pages showed.")
    body = page("trouble.html", title=_(GONE), heading=_(GONE), sentence=forgotten)
    return Response(body, media_type="text/html; charset=utf-8", headers={"Cache-Control": "no-store"})


def client(declared: Oidc) -> StarletteOAuth2App:
    """Return the OIDC client. Raises SpecError if the declared secret is missing."""
    secret = None if declared.client_secret is None else fill(declared.client_secret, credential=True)
    return OAuth().register(
        "page",
        client_id=declared.client_id,
        client_secret=secret,
        server_metadata_url=f"{declared.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": " ".join(declared.scopes),
            "code_challenge_method": "S256",
            "token_endpoint_auth_method": "client_secret_basic" if secret else "none",
            "timeout": PATIENCE,
        },
    )


def is_ours(path: str) -> bool:
    """True if the target after sign-in is on this page: never another host, in any spelling."""
    return path.startswith("/") and not path.startswith(("//", "/\\")) and path.isprintable()


async def _trusted(provider: StarletteOAuth2App, declared: Oidc) -> None:
    issuer = (await provider.load_server_metadata()).get("issuer")
    if issuer != declared.issuer:
        raise ValueError(f"it calls itself {issuer!r}")


async def _identity(provider: StarletteOAuth2App, declared: Oidc, request: Request) -> dict[str, Any]:
    """Return name and groups, from the id token or else from the provider's userinfo of the same
    person."""
    claims_options = {name: {"essential": True, "values": [value]} for name, value in _expected(declared).items()}
    token = await provider.authorize_access_token(request, claims_options=claims_options)
    claims: Mapping[str, Any] | None = token.get("userinfo")
    if claims is None:
        raise ValueError("it sent no id token")
    source = await _source(provider, declared, token, claims)
    return {"name": _name(source, declared), "groups": _groups({**source, **claims}.get(declared.groups), declared)}


async def _source(
    provider: StarletteOAuth2App, declared: Oidc, token: dict[str, Any], claims: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the claims that hold the name and whether it is verified."""
    if declared.name in claims or "userinfo_endpoint" not in provider.server_metadata:
        return claims
    try:
        source: Mapping[str, Any] = await provider.userinfo(token=token)
    except (TypeError, ValueError) as error:
        raise ValueError("its answer about you is not a JSON object") from error
    if source.get("sub") != claims["sub"]:
        raise ValueError("it names two people at once")
    return source


def _name(source: Mapping[str, Any], declared: Oidc) -> str:
    name = source.get(declared.name)
    if name is None or name == "":
        raise ValueError(f"it did not send your {declared.name}")
    if not _is_name(name):
        raise ValueError(f"{declared.name}: found {_shown(name)}, wanted text without spaces at its ends")
    verified = source.get("email_verified", True)  # some providers write it as a string
    if declared.name == "email" and verified is not True and verified != "true":
        raise ValueError(f"it has not verified that {name} is yours")
    return str(name)


def _groups(claim: object, declared: Oidc) -> list[str]:
    groups = [] if claim is None or claim == "" else [claim] if isinstance(claim, str) else claim
    if not isinstance(groups, list) or not all(map(_is_name, groups)):
        raise ValueError(f"{declared.groups}: found {_shown(claim)}, wanted a list of names")
    return groups


def _is_name(claim: object) -> bool:
    return isinstance(claim, str) and claim == claim.strip() != "" and claim.isprintable()


def _shown(claim: object) -> str:
    return repr(claim)[:80]


def _expected(declared: Oidc) -> dict[str, str]:
    return {"iss": declared.issuer, "aud": declared.client_id}


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
