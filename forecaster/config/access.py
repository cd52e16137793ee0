"""The section `page` of the pipeline file: authentication, roles, row-level access by city, and
rate limits."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from forecaster.config.base import Section
from forecaster.config.credentials import fill

SignIn = Literal["none", "header", "oidc"]
GROUP = "group:"  # prefix of the name of a group: a person may have the same name as a group
EVERYONE = "*"
_REFERENCE = re.compile(r"\$\{(secret:)?[\w-]+\}")
_HERE = r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?"  # loopback hosts, where plain http is safe
_RATE = re.compile(r"[1-9]\d{0,6}/(second|minute|hour|day)")


def only_reference(value: str | None) -> str | None:
    """Return the value. Raises ValueError for a secret that is written in the file itself."""
    if value is not None and not _REFERENCE.fullmatch(value):
        raise ValueError(
            "found a secret in the file, wanted it named, as in ${PAGE_SECRET} for an environment variable"
        )
    return value


class Header(Section):
    """Headers in which a proxy passes the signed-in person."""

    user: str = "X-Forwarded-User"
    """Header with the person's name."""
    groups: str | None = "X-Forwarded-Groups"
    """Header with the person's groups, separated by commas."""

    @field_validator("user", "groups")
    @classmethod
    def _name(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"[A-Za-z0-9-]+", value):
            raise ValueError(f"found {value!r}, wanted the name of a header, as in X-Forwarded-User")
        return value


class Oidc(Section):
    """OpenID provider."""

    issuer: str
    """Issuer address, as in its own configuration."""
    client_id: str
    """Client id of this page."""
    client_secret: str | None = None
    """Client secret, as a reference such as ${OIDC_SECRET}; a public client has none."""
    scopes: tuple[str, ...] = ("openid", "email", "profile")
    """Requested scopes."""
    name: str = "email"
    """Claim with the person's name."""
    groups: str = "groups"
    """Claim with the person's groups."""

    _secret = field_validator("client_secret")(only_reference)

    @field_validator("issuer")
    @classmethod
    def _address(cls, value: str) -> str:
        if not re.fullmatch(r"https://\S+|http://" + _HERE + r"(/\S*)?", value):
            raise ValueError(f"found {value!r}, wanted an address that begins with https://")
        return value


class Roles(Section):
    """Permissions by role: names of people as they sign in, `group:NAME`, or `*` for every
    signed-in person."""

    viewer: tuple[str, ...] = (EVERYONE,)
    """May read."""
    planner: tuple[str, ...] = ()
    """May also write plans."""
    admin: tuple[str, ...] = ()
    """May also change the settings, create and revoke links, read the audit log, and see every city."""


class Limits(Section):
    """Rate limits for each person, or for each address without sign-in; as in 300/minute."""

    reads: str = "300/minute"
    """Pages and API."""
    writes: str = "30/minute"
    """Changes."""
    strangers: str = "60/minute"
    """Requests without sign-in."""
    inference: str = "60000/minute"
    """Requests of the inference service (`forecaster infer`)."""

    @field_validator("reads", "writes", "strangers", "inference")
    @classmethod
    def _rate(cls, value: str) -> str:
        if not _RATE.fullmatch(value):
            raise ValueError(f"found {value!r}, wanted a number a second, minute, hour or day, as in 300/minute")
        return value


class Access(Section):
    """Sign-in and permissions."""

    sign_in: SignIn = "none"
    """`none`: this machine only, with all permissions. `header`: a proxy passes the person.
    `oidc`: an OpenID provider."""
    url: str | None = None
    """Public address, as in https://depots.example; cookies need https."""
    proxies: tuple[str, ...] = ()
    """Addresses or networks of trusted proxies, as in 10.0.0.5 or 10.0.0.0/24."""
    header: Header = Header()
    """Headers, with `sign_in: header`."""
    oidc: Oidc | None = None
    """Provider, with `sign_in: oidc`."""
    secret: str | None = None
    """Key for cookies and links, as a reference such as ${PAGE_SECRET}, at least 32 characters."""
    former_secret: str | None = None
    """The previous key. It signs nothing new, but cookies and links that it signed stay valid."""
    session_hours: float = Field(default=12, gt=0, le=24 * 31)
    """Lifetime of a session with `sign_in: oidc`."""
    roles: Roles = Roles()
    """Permissions by role."""
    cities: Mapping[str, tuple[str, ...]] = {}
    """Person or `group:NAME` → visible cities, `*` for all. Left out: all cities for everyone. A
    person without an entry sees none."""
    limits: Limits = Limits()
    """Rate limits."""

    _secret = field_validator("secret", "former_secret")(only_reference)

    @field_validator("url")
    @classmethod
    def _origin(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch(r"(https://[A-Za-z0-9.\-\[\]:]+|http://" + _HERE + ")", value):
            raise ValueError(f"found {value!r}, wanted only https:// and a host, as in https://depots.example")
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
            raise ValueError("sign_in: header trusts no one without `proxies`; wanted the addresses of your proxies")
        if self.former_secret is not None and self.secret is None:
            raise ValueError("former_secret signs nothing; wanted `secret`, its replacement, as well")
        if self.sign_in == "oidc":
            required = {"oidc": self.oidc, "url": self.url, "secret": self.secret}
            if missing := [name for name, value in required.items() if value is None]:
                raise ValueError(f"sign_in: oidc needs {', '.join(missing)} as well")
        return self

    @property
    def keys(self) -> dict[str, str]:
        """Signing keys by their names in this section, filled in; the last one signs. Raises
        SpecError if the environment lacks one."""
        declared = {"former_secret": self.former_secret, "secret": self.secret}
        return {name: fill(value, credential=True) for name, value in declared.items() if value is not None}


class Page(Section):
    access: Access = Access()
    """Sign-in and permissions."""
    together: bool = False
    """Served with other pipelines (`forecaster serve a.yaml b.yaml`): pages are under `/p/NAME/`,
    and morning digests link there."""
    language: Literal["en", "de", "es", "ar"] = "en"
    """Language for readers who chose none and whose browser requests none of these."""
