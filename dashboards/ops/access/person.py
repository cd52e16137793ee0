"""The authenticated person behind a request: a name, a role, and the visible cities."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Literal

from starlette.requests import Request

from forecaster.config.access import EVERYONE, GROUP, Access

Role = Literal["viewer", "planner", "admin"]
ROLES: tuple[Role, ...] = ("viewer", "planner", "admin")  # each includes the rights of those before it
Via = Literal["local", "header", "oidc", "link"]


@dataclass(frozen=True)
class Person:
    name: str
    role: Role
    via: Via
    cities: frozenset[str] | None = None  # None: all
    paths: frozenset[str] | None = None  # None: all; a link opens few
    groups: tuple[str, ...] = ()  # as the provider or proxy reported them

    def may(self, role: Role) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)

    def opens(self, path: str) -> bool:
        return self.paths is None or path in self.paths


_is_admin: ContextVar[bool] = ContextVar("is_admin", default=False)


def note_reader(reader: Person) -> None:
    """Note the reader of this context's page: an admin's menu has more entries."""
    _is_admin.set(reader.may("admin"))


def is_for_admin() -> bool:
    """True while a page is made for an admin."""
    return _is_admin.get()


def person(request: Request) -> Person:
    """Return the person of a request; the middleware rejects requests without one."""
    current = request.state.person
    assert isinstance(current, Person)
    return current


def with_role(access: Access, name: str, groups: Iterable[str], via: Via) -> Person | None:
    """Return a signed-in person with the highest role declared for them; None without a role."""
    groups = tuple(groups)
    names = {EVERYONE, *(GROUP + group for group in groups)}
    if not name.startswith(GROUP):  # a user whose name looks like a group gets no group's rights
        names.add(name)
    role = next((role for role in reversed(ROLES) if names & set(getattr(access.roles, role))), None)
    return None if role is None else Person(name, role, via, cities(access.cities, names, role), groups=groups)


def cities(declared: Mapping[str, tuple[str, ...]], names: set[str], role: Role) -> frozenset[str] | None:
    """Return the cities visible to a person with these names; None: all."""
    if not declared or role == "admin":
        return None
    visible = frozenset(city for name in names for city in declared.get(name, ()))
    return None if EVERYONE in visible else visible
