"""Server-side sessions: the ledger's record of a browser's token, read at most once a second.

While the ledger is unavailable, sessions known to this process stay valid until they are due for a
check with the provider.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from time import monotonic
from typing import Protocol

import sqlalchemy as sa

from forecaster.errors import LedgerError
from forecaster.ledger import access as ledger_access
from forecaster.ledger.access import Session

KEY = "id"  # in the cookie: the token
PLACE = "at"  # in the cookie: which of several ledgers has the session
REREAD_SECONDS = 1.0
MOST = 4096  # sessions held in memory
CHECKS = 4  # times that a session is checked with the provider during its life


class SessionLedger(Protocol):
    """A ledger that stores sessions."""

    def reading(self) -> AbstractContextManager[sa.Connection]: ...

    def writing(self) -> AbstractContextManager[sa.Connection]: ...


class Sessions:
    """The sessions of a page, or of several pipelines' pages together; each is stored in one
    ledger. Thread-safe.

    Sessions of another `pipeline` are ignored. A new session goes to the first of the `ledgers` (by
    name) that can be written.
    """

    def __init__(self, pipeline: str, ledgers: Mapping[str, SessionLedger]) -> None:
        self._pipeline, self._ledgers = pipeline, dict(ledgers)
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[Session | None, float]] = {}

    def begin(self, name: str, groups: Sequence[str], hours: float, now: datetime) -> dict[str, str]:
        """Record a sign-in; returns the content of the cookie.

        If no ledger can be reached, only this process knows the session, until one can be. Raises
        LedgerError if the last ledger can be read but not written.
        """
        token, until = secrets.token_urlsafe(32), now + timedelta(hours=hours)
        session = Session(ledger_access.session_id(token), self._pipeline, name, tuple(groups), now, until)
        last = list(self._ledgers)[-1]
        for place, ledger in self._ledgers.items():
            try:
                with ledger.writing() as connection:
                    ledger_access.begin_session(connection, session, now)
            except LedgerError:
                if place == last:
                    if not _is_away(ledger):
                        raise
                    self._remember(token, session)
            else:
                break
        return {KEY: token, PLACE: place} if place else {KEY: token}

    def holder(self, cookie: Mapping[str, object], hours: float, now: datetime) -> Session | None:
        """Return the session of a cookie. None: it has ended, or its groups must be fetched again.

        Raises LedgerError if the only ledger cannot be read; with several, another takes the next
        session.
        """
        token, ledger = self._of(cookie)
        try:
            session = None if ledger is None else self._read(ledger, token)
        except LedgerError:
            if len(self._ledgers) == 1:
                raise
            return None
        if session is None or session.pipeline != self._pipeline or session.expires_at <= now:
            return None
        return session if now < session.checked_at + timedelta(hours=hours / CHECKS) else None

    def end(self, cookie: Mapping[str, object]) -> None:
        """End the session for all copies of the cookie."""
        token, ledger = self._of(cookie)
        if ledger is None:
            return
        with ledger.writing() as connection:
            ledger_access.end_session(connection, token)
        with self._lock:
            self._sessions.pop(token, None)

    def of_person(self, name: str, now: datetime) -> list[Session]:
        """Return a person's sessions, the latest first. Raises LedgerError as `holder` does."""
        rows: list[Session] = []
        for ledger in self._ledgers.values():
            try:
                with ledger.reading() as connection:
                    rows += ledger_access.sessions(connection, self._pipeline, now, name)
            except LedgerError:
                if len(self._ledgers) == 1:
                    raise
        return sorted(rows, key=lambda session: session.checked_at, reverse=True)

    def end_all(self, name: str) -> None:
        """End every session of a person, in each ledger. Raises LedgerError if a reachable ledger
        cannot be written."""
        for ledger in self._ledgers.values():
            try:
                with ledger.writing() as connection:
                    ledger_access.end_sessions(connection, self._pipeline, name)
            except LedgerError:
                if len(self._ledgers) == 1 or not _is_away(ledger):
                    raise
        with self._lock:
            self._sessions.clear()

    def id_of(self, cookie: Mapping[str, object]) -> str:
        """Return the ID in the ledger of a cookie's session."""
        return ledger_access.session_id(self._of(cookie)[0])

    def _of(self, cookie: Mapping[str, object]) -> tuple[str, SessionLedger | None]:
        token, place = cookie.get(KEY), cookie.get(PLACE, "")
        return (token, self._ledgers.get(str(place))) if isinstance(token, str) else ("", None)

    def _read(self, ledger: SessionLedger, token: str) -> Session | None:
        with self._lock:
            session, at = self._sessions.get(token, (None, 0.0))
        if at and monotonic() - at < REREAD_SECONDS:
            return session
        try:
            with ledger.reading() as connection:
                session = ledger_access.read_session(connection, token)
        except LedgerError:
            if session is None:
                raise
            return session  # known people may keep reading until their check is due
        self._remember(token, session)
        return session

    def _remember(self, token: str, session: Session | None) -> None:
        with self._lock:
            if len(self._sessions) >= MOST:
                self._sessions.clear()
            self._sessions[token] = (session, monotonic())


def _is_away(ledger: SessionLedger) -> bool:
    try:
        with ledger.reading():
            return False
    except LedgerError:
        return True
