"""Role-based authorization: a route that writes names the minimum role that it requires."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from dashboards.ops.access import csrf
from dashboards.ops.access.person import Person, Role, person
from forecaster.core.language import _

__all__ = ["CHECK", "SAFE", "Role", "RoleFirst", "changes_nothing", "require"]

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})  # methods that change nothing
CHECK = "/settings/check"  # POSTed only because its form is too long for a URL


@dataclass(frozen=True)
class Requirement:
    """A dependency that provides the person, who has at least this role; a write must also come
    from a page of ours."""

    role: Role

    async def __call__(self, request: Request) -> Person:
        who = self.holder(request)
        if request.method not in SAFE:
            await csrf.check(request)
        return who

    def holder(self, request: Request) -> Person:
        """Return the person, who has the role. Raises HTTPException otherwise, without reading the
        body."""
        who = person(request)
        if not who.may(self.role):
            raise HTTPException(
                403,
                _(
                    "{person} is here as {role}, and this needs the role {wanted}",
                    person=who.name,
                    role=who.role,
                    wanted=self.role,
                ),
            )
        return who


def changes_nothing(method: str, path: str) -> bool:
    """True for requests that only read."""
    return method in SAFE or path == CHECK


def require(role: Role) -> Requirement:
    """Return the dependency of a route that needs this role."""
    return Requirement(role)


class RoleFirst(APIRoute):
    """A route that checks roles before it reads the body; FastAPI reads the body before any
    dependency runs."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        calls = [dependency.call for dependency in self.dependant.dependencies]
        requirements = [call for call in calls if isinstance(call, Requirement)]

        async def checked(request: Request) -> Response:
            for requirement in requirements:
                requirement.holder(request)
            return await handle(request)

        return checked
