"""Role-based authorization: a route that writes names the least role that it requires."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.exceptions import HTTPException
from starlette.requests import Request

from dashboards.ops.access import csrf
from dashboards.ops.access.person import Person, Role, person

__all__ = ["SAFE", "Role", "require"]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # they change nothing


def require(role: Role) -> Callable[[Request], Awaitable[Person]]:
    """A dependency that gives the person, who has this role at least; a write also has to come from a page of ours."""

    async def required(request: Request) -> Person:
        who = person(request)
        if not who.may(role):
            raise HTTPException(403, f"{who.name} is here as {who.role}, and this needs the role {role}")
        if request.method not in SAFE:
            await csrf.check(request)
        return who

    return required
