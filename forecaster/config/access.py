"""The section `page` of the pipeline file: authentication, roles, row-level access by city, and rate limits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from forecaster.config.base import Section
from forecaster.config.credentials import fill

SignIn = Literal["none", "header", "oidc"]
GROUP = "group:"  # before the name of a group, since a person may be called as a group is
EVERYONE = "*"
_REFERENCE = re.compile(r"\$\{(secret:)?[\w-]+\}")
_HERE = r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"  # where nobody listens on the way
_RATE = re.compile(r"[1-9]\d{0,6}/(second|minute|hour|day)")


def _only_reference(value: str | None) -> str | None:
    if value is not None and not _REFERENCE.fullmatch(value):
        raise ValueError(
            "found a secret in the file, wanted it named, as in ${PAGE_SECRET} for an environment variable"
        )
    return value


class Header(Section):
    """What a proxy in front of the page says of whoever has signed in there."""

    user: str = "X-Forwarded-User"
    """The header with the person's name."""
    groups: str | None = "X-Forwarded-Groups"
    """The header with the person's groups, a comma between them."""

    @field_validator("user", "groups")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z0-9-]+", value):
            raise ValueError(f"found {value!r}, wanted the name of a header, as in X-Forwarded-User")
        return value


class Oidc(Section):
    """The OpenID provider at which people sign in."""

    issuer: str
    """Its address, as its own configuration spells it."""
    client_id: str
    """What it calls this page."""
    client_secret: str | None = None
    """The secret that it gave this page, named as in ${OIDC_SECRET}; a public client has none."""
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    """What the page asks for."""
    name: str = "email"
    """The claim that names a person."""
    groups: str = "groups"
    """The claim with the person's groups."""

    _secret = field_validator("client_secret")(_only_reference)

    @field_validator("issuer")
    @classmethod
    def _address(cls, value: str) -> str:
        if not re.fullmatch(r"https://\S+|http://" + _HERE + r"(/\S*)?", value):
            raise ValueError(f"found {value!r}, wanted an address that begins with https://")
        return value


class Roles(Section):
    """Who may do what: names as people sign in, `group:NAME`, or `*` for everyone who has signed in."""

    viewer: tuple[str, ...] = (EVERYONE,)
    """They look."""
    planner: tuple[str, ...] = ()
    """They also write plans."""
    admin: tuple[str, ...] = ()
    """They also make and revoke links, read the audit, and see every city."""


class Limits(Section):
    """How much one person, or one address that has not signed in, may ask; as in 300/minute."""

    reads: str = "300/minute"
    """Pages and API."""
    writes: str = "30/minute"
    """Whatever changes something."""
    strangers: str = "60/minute"
    """Whoever has not signed in."""
    inference: str = "60000/minute"
    """Requests of the inference service (`forecaster infer`)."""

    @field_validator("reads", "writes", "strangers", "inference")
    @classmethod
    def _rate(cls, value: str) -> str:
        if not _RATE.fullmatch(value):
            raise ValueError(f"found {value!r}, wanted a number a second, minute, hour or day, as in 300/minute")
        return value


class Access(Section):
    """How people sign in, and what they may see."""

    sign_in: SignIn = "none"
    """`none`: this machine only, and whoever uses it may do everything. `header`: a proxy says who it is. `oidc`: at an
    OpenID provider."""
    url: str | None = None
    """The address that people type, as in https://depots.example; cookies travel on https alone."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of the proxies whose headers are believed, as in 10.0.0.5 or 10.0.0.0/24."""
    header: Header = Header()
    """With `sign_in: header`: which headers."""
    oidc: Oidc | None = None
    """With `sign_in: oidc`: which provider."""
    secret: str | None = None
    """Signs cookies and links; named as in ${PAGE_SECRET}, 32 characters or more."""
    session_hours: float = Field(default=12, gt=0, le=24 * 31)
    """With `sign_in: oidc`: after so many hours people sign in again."""
    roles: Roles = Roles()
    """Who may do what."""
    cities: Mapping[str, tuple[str, ...]] = {}
    """Person or `group:NAME` → the cities that they see, `*` for all. Left out: everyone sees all. Who is named nowhere
    sees none."""
    limits: Limits = Limits()
    """How much one may ask."""

    _secret = field_validator("secret")(_only_reference)

    @field_validator("url")
    @classmethod
    def _origin(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"(https://[A-Za-z0-9.\-\[\]:]+|http://" + _HERE + ")", value):
            raise ValueError(f"found {value!r}, wanted https:// and a host alone, as in https://depots.example")
        return value

    @field_validator("proxies")
    @classmethod
    def _networks(cls, values: tuple[str, ...]) -> tuple[str, ...]:
        for value in values:
            try:
                ipaddress.ip_network(value)
            except ValueError:
                raise ValueError(f"found {value!r}, wanted an address or a network, as in 10.0.0.0/24") from None
        return values

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.sign_in == "header" and not self.proxies:
            raise ValueError("sign_in: header believes nobody without `proxies`; wanted the addresses of your proxies")
        if self.sign_in == "oidc":
            required = {"oidc": self.oidc, "url": self.url, "secret": self.secret}
            if missing := [name for name, value in required.items() if value is None]:
                raise ValueError(f"sign_in: oidc needs {', '.join(missing)} as well")
        return self

    @property
    def key(self) -> str | None:
        """What signs, filled in. Raises SpecError when the environment does not have it."""
        return None if self.secret is None else fill(self.secret, credential=True)


class Page(Section):
    access: Access = Access()
    """Who may see it, and how they sign in."""
    together: bool = False
    """Served beside other pipelines (`forecaster serve a.yaml b.yaml`): the pages lie under `/p/NAME/`, and links of
    morning digests lead there."""
    language: Literal["en", "de", "es", "ar"] = "en"
    """The language of those whose browser asks for none of these, and who chose none on the page."""
