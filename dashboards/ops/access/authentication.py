"""Authentication: identifies a client by the local machine, a trusted proxy's header, a session
cookie or a link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request

from dashboards.ops.access import links, networks, sessions
from dashboards.ops.access.context import AccessContext
from dashboards.ops.access.person import Person, with_role
from forecaster.config.access import Access

LONGEST_NAME = 256


class AccessRefused(Exception):
    """A request that is rejected no matter who sent it: a status and a sentence."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status


async def identify(request: Request, context: AccessContext) -> Person | None:
    """Return the person behind a request, or None if unknown. Raises AccessRefused for a spoofed
    identity."""
    way = context.access.sign_in
    if way == "none":
        return _local(request)
    if way == "header":
        person = _by_header(request, context)
    else:
        cookie = dict(request.session)
        person = await run_in_threadpool(_by_session, context, cookie) if sessions.KEY in cookie else None
    if person is None and (token := request.cookies.get(context.cookie(links.COOKIE))):
        person = await run_in_threadpool(links.visitor, context, token)
    return person


def identify_cheaply(request: Request, context: AccessContext) -> Person | None:
    """Identify the person from the request alone; for requests open to everyone."""
    try:
        if context.access.sign_in == "none":
            return _local(request)
        return _by_header(request, context) if context.access.sign_in == "header" else None
    except AccessRefused:
        return None


def _local(request: Request) -> Person:
    """Return the person at this machine. Rejects other host names: any site could point its own
    name here (DNS rebinding)."""
    peer = networks.peer(request)
    if peer is None or not peer.is_loopback:
        raise AccessRefused(403, "this page serves only its own machine: sign-in is not declared")
    if not networks.names_this_machine(request):
        called = request.headers.get("host", "")[:80]
        raise AccessRefused(403, f"this page is not called {called!r}; wanted localhost or 127.0.0.1")
    if any(name in request.headers for name in networks.FORWARDED):
        raise AccessRefused(403, "this request came through a proxy, but sign-in is not declared")
    return Person("local", "admin", "local")


def _by_header(request: Request, context: AccessContext) -> Person | None:
    access = context.access
    names = [name for name in (access.header.user, access.header.groups) if name]
    if not networks.is_proxy(networks.peer(request), access.proxies):
        _refuse_spoofed(request, context, names)
        return None
    if twice := [name for name in names if len(request.headers.getlist(name)) > 1]:
        raise AccessRefused(400, f"found {twice[0]} twice, wanted it once; the proxy must replace what browsers send")
    name = _text(request.headers.get(access.header.user, ""))
    groups = _text(request.headers.get(access.header.groups, "")) if access.header.groups else ""
    if not name:
        return None
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise AccessRefused(400, f"{access.header.user} holds no name")
    return _with_role(access, name, tuple(group.strip() for group in groups.split(",") if group.strip()), "header")


def _refuse_spoofed(request: Request, context: AccessContext, names: Sequence[str]) -> None:
    """Raise AccessRefused if headers of these names come from anywhere but a proxy."""
    if spoofed := [name for name in names if name in request.headers]:
        sent = ", ".join(spoofed)
        context.warnings.warn("refused: %s sends %s, and is no declared proxy", networks.peer(request), sent)
        raise AccessRefused(403, f"only a declared proxy may send {spoofed[0]}")


def _by_session(context: AccessContext, cookie: Mapping[str, object]) -> Person | None:
    session = context.sessions.holder(cookie, context.access.session_hours, context.clock())
    return None if session is None else _with_role(context.access, session.name, session.groups, "oidc")


def _with_role(access: Access, name: str, groups: tuple[str, ...], via: str) -> Person:
    person = with_role(access, name, groups, "header" if via == "header" else "oidc")
    if person is None:
        raise AccessRefused(
            403, f"{name} has signed in but has no role here; the administrator of this page assigns one"
        )
    if person.cities is not None and not person.cities:
        raise AccessRefused(
            403, f"{name} has signed in but may see no city; the administrator of this page assigns cities"
        )
    return person


def _text(header: str) -> str:
    """Decode a header: they arrive as Latin-1, but proxies write UTF-8."""
    try:
        return header.encode("latin-1").decode("utf-8").strip()
    except UnicodeDecodeError:
        return header.strip()
