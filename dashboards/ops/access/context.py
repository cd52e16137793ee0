"""Access context of one app: the declared access, the signing keys, and the ledger."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING

import sqlalchemy as sa
from starlette.requests import Request

from dashboards.ops.access.rare_warnings import RareWarnings
from dashboards.ops.access.sessions import Sessions
from dashboards.ops.access.signatures import Keys
from dashboards.ops.reading.store import PublicationStore
from forecaster.config.access import Access
from forecaster.errors import SpecError
from forecaster.ledger import connect
from forecaster.ledger.store import Ledger

if TYPE_CHECKING:
    from dashboards.ops.access.rate_limits import RateLimiter

SHORTEST_KEY = 32  # characters


@dataclass(frozen=True)
class AccessContext:
    """Access context of a pipeline's page.

    `views` maps each view that a link may open to its page and the paths of its API. `prefix`
    precedes each address of a pipeline that is one of several, as in /p/harbor-fleet. In that case
    sessions are shared: one sign-in holds for all pipelines, and each pipeline declares its own
    roles.
    """

    access: Access
    url: str
    pipeline: str | None
    store: PublicationStore
    clock: Callable[[], datetime]
    views: Mapping[str, tuple[str, ...]]
    keys: Keys = field(repr=False)
    prefix: str = ""
    shared_sessions: Sessions | None = field(default=None, repr=False)
    # about input that any client can send
    warnings: RareWarnings = field(default_factory=RareWarnings, init=False, repr=False)
    # about errors hidden from readers
    troubles: RareWarnings = field(default_factory=RareWarnings, init=False, repr=False)

    @cached_property
    def sessions(self) -> Sessions:
        return self.shared_sessions or Sessions(self.pipeline or "", {"": self})

    @property
    def secure(self) -> bool:
        """True if cookies travel over https only."""
        return (self.access.url or "").startswith("https://")

    def cookie(self, name: str) -> str:
        """Return the browser's name of a cookie. Browsers accept a __Host- cookie from this host
        only. Each of several pipelines has its own."""
        cookie_name = f"{name}-{self.pipeline}" if self.prefix else name
        return f"__Host-{cookie_name}" if self.secure else cookie_name

    def pipeline_shown(self) -> str:
        """Return the pipeline on display. Raises LedgerError if none is declared and nothing is
        published."""
        return self.pipeline or self.store.edition().head.pipeline

    @cached_property
    def limiter(self) -> RateLimiter | None:
        """Rate limiter of this pipeline's readers; None without sign-in. Outlives the pages, which
        may be closed."""
        if self.access.sign_in == "none":
            return None
        # imports a library that a local-only page does not need
        from dashboards.ops.access.rate_limits import RateLimiter

        return RateLimiter(self.access.limits)

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """Open a transaction on the ledger."""
        with Ledger.open(self.url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Open a read transaction on the page's ledger."""
        with self.store.reader().transaction() as connection:
            yield connection


def access_context(request: Request) -> AccessContext:
    context = request.app.state.access_context
    assert isinstance(context, AccessContext)
    return context


def signing_keys(access: Access) -> Keys:
    """Return the declared keys, the signing key last; if none is declared, one that this process
    generates.

    Raises SpecError for a missing key or one too short to be safe.
    """
    keys = access.keys
    for name, key in keys.items():
        if len(key) < SHORTEST_KEY:
            raise SpecError(
                f"page.access.{name}: {getattr(access, name)} holds {len(key)} characters, wanted {SHORTEST_KEY} or "
                "more, as from python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
    return tuple(keys.values()) or (secrets.token_urlsafe(32),)
