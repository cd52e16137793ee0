"""The first schema: a new ledger is created from the tables and stamped with the newest revision."""

from __future__ import annotations

revision = "0008"
down_revision = None


def upgrade() -> None:
    """Do nothing: no ledger is older than this revision."""
