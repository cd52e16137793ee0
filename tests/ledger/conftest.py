"""A new ledger on each of the two databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forecaster.ledger.store import Ledger
from tests.databases import Postgres, new_database
from tests.databases import postgres as postgres
from tests.ledger.publications import start


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL for a new ledger; on PostgreSQL in a database of its own."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'new' / 'ledger.db'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    with new_database(server, "ledger") as address:
        yield address


@pytest.fixture
def ledger(url: str) -> Iterator[Ledger]:
    """Ledger in which a run has begun."""
    with Ledger.open(url) as opened:
        start(opened, "night-1")
        yield opened
