"""Signatures of cookies, links and forms: HMAC-SHA-256 with the newest of the page's secrets.

Signatures by the former secret stay valid.
"""

from __future__ import annotations

import hashlib
from typing import TypeVar

from itsdangerous import Serializer, TimestampSigner
from starlette.middleware.sessions import SessionMiddleware
from starlette.types import ASGIApp

Keys = tuple[str, ...]
"""Secrets of a page, the newest last: only that one signs."""
S = TypeVar("S", bound=Serializer[str])


def serializer(kind: type[S], keys: Keys, salt: str) -> S:
    """Return a serializer that signs and reads values of one purpose, named by the salt."""
    return kind(list(keys), salt=salt, signer_kwargs={"digest_method": hashlib.sha256})


class SignedSessions(SessionMiddleware):
    """Starlette's session cookie, signed with the secrets of a page."""

    def __init__(self, app: ASGIApp, keys: Keys, session_cookie: str, max_age: int, https_only: bool) -> None:
        super().__init__(app, keys[-1], session_cookie, max_age, https_only=https_only)
        self.signer = TimestampSigner(list(keys), digest_method=hashlib.sha256)
