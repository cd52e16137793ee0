"""Access context of one app: what is declared of access, the keys that sign, and the ledger."""

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
    """`views` names, for each view that a link may open, its page and the paths of its API;
    `prefix` is what stands before each address of a pipeline that is one of several, as in
    /p/harbor-fleet. Then sessions are shared: who has signed in has done so for all, and each
    declares what they may."""

    access: Access
    url: str
    pipeline: str | None
    store: PublicationStore
    clock: Callable[[], datetime]
    views: Mapping[str, tuple[str, ...]]
    keys: Keys = field(repr=False)
    prefix: str = ""
    shared_sessions: Sessions | None = field(default=None, repr=False)
    # of what strangers send
    warnings: RareWarnings = field(default_factory=RareWarnings, init=False, repr=False)
    # of what readers are not told
    troubles: RareWarnings = field(default_factory=RareWarnings, init=False, repr=False)

    @cached_property
    def sessions(self) -> Sessions:
        return self.shared_sessions or Sessions(self.pipeline or "", {"": self})

    @property
    def secure(self) -> bool:
        """Whether cookies travel over https alone."""
        return (self.access.url or "").startswith("https://")

    def cookie(self, name: str) -> str:
        """A browser takes a cookie called __Host- from this very host alone. Each of several
        pipelines has its own."""
        own = f"{name}-{self.pipeline}" if self.prefix else name
        return f"__Host-{own}" if self.secure else own

    def pipeline_shown(self) -> str:
        """The pipeline that is shown. Raises LedgerError where none is declared and nothing has
        been published."""
        return self.pipeline or self.store.edition().head.pipeline

    @cached_property
    def limiter(self) -> RateLimiter | None:
        """Of this pipeline's readers; None where nobody signs in. It outlives the pages, which may
        be closed."""
        if self.access.sign_in == "none":
            return None
        # a library that a page for one machine spares
        from dashboards.ops.access.rate_limits import RateLimiter

        return RateLimiter(self.access.limits)

    @contextmanager
    def writing(self) -> Iterator[sa.Connection]:
        """A transaction on the ledger."""
        with Ledger.open(self.url, patience=connect.ATTENDED) as ledger, ledger.transaction() as connection:
            yield connection

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """A transaction of the ledger that the page reads."""
        with self.store.reader().transaction() as connection:
            yield connection


def access_context(request: Request) -> AccessContext:
    context = request.app.state.access_context
    assert isinstance(context, AccessContext)
    return context


def signing_keys(access: Access) -> Keys:
    """The declared keys, the one that signs last; where none is declared one that this process makes up.

    Raises SpecError where it is not there or too short to keep anybody out.
    """
    keys = access.keys
    for name, key in keys.items():
        if len(key) < SHORTEST_KEY:
            raise SpecError(
                f"page.access.{name}: {getattr(access, name)} holds {len(key)} characters, wanted {SHORTEST_KEY} or "
                "more, as from python -c 'import secrets; print(secrets.token_urlsafe(32))'"
            )
    return tuple(keys.values()) or (secrets.token_urlsafe(32),)
