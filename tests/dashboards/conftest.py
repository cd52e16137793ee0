"""A ledger of its own for each test, and someone who looks at the page made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.ops.http import response_cache
from dashboards.ops.routes import health
from tests.dashboards.seed import fill, publication
from tests.dashboards.visitor import Get, visitor


@pytest.fixture(autouse=True)
def _newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers are the newest, where readers would for a moment still get the one before: `test_again` has those."""
    monkeypatch.setattr(response_cache, "STALE_SECONDS", 0.0)
    monkeypatch.setattr(health, "READINESS_SECONDS", 0.0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def get(url: str) -> Get:
    fill(url, publication())
    return visitor(url)
