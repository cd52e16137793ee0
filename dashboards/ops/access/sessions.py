"""Server-side sessions: what a browser's token stands for, read from the ledger at most once a second."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from time import monotonic

import sqlalchemy as sa

from forecaster.ledger import sessions as ledger_sessions
from forecaster.ledger.sessions import Session

KEY = "id"  # of the token in the cookie
REREAD_SECONDS = 1.0
MOST = 4096  # sessions that are remembered
CHECKS = 4  # times that a session is checked against the provider while it lasts
Transaction = Callable[[], AbstractContextManager[sa.Connection]]


class SessionCache:
    """The sessions of one page. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: dict[str, tuple[Session | None, float]] = {}

    def begin(
        self, writing: Transaction, pipeline: str, name: str, groups: Sequence[str], hours: float, now: datetime
    ) -> str:
        """Write down that somebody has signed in; returns the token."""
        token, until = secrets.token_urlsafe(32), now + timedelta(hours=hours)
        session = Session(ledger_sessions.session_id(token), pipeline, name, tuple(groups), now, until)
        with writing() as connection:
            ledger_sessions.begin(connection, session, now)
        return token

    def holder(self, reading: Transaction, pipeline: str, token: str, hours: float, now: datetime) -> Session | None:
        """Who holds a token. None: nobody any more, or their groups have to be asked for again."""
        session = self._read(reading, token)
        if session is None or session.pipeline != pipeline or session.expires_at <= now:
            return None
        return session if now < session.checked_at + timedelta(hours=hours / CHECKS) else None

    def end(self, writing: Transaction, token: str) -> None:
        """Of all copies, wherever they are."""
        with writing() as connection:
            ledger_sessions.end(connection, token)
        with self._lock:
            self._sessions.pop(token, None)

    def _read(self, reading: Transaction, token: str) -> Session | None:
        with self._lock:
            session, at = self._sessions.get(token, (None, 0.0))
        if at and monotonic() - at < REREAD_SECONDS:
            return session
        with reading() as connection:
            session = ledger_sessions.read(connection, token)
        with self._lock:
            if len(self._sessions) >= MOST:
                self._sessions.clear()
            self._sessions[token] = (session, monotonic())
        return session
