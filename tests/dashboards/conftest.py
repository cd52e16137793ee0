"""A separate ledger for each test, and a visitor of the page made from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dashboards.ops.http import response_cache
from dashboards.ops.routes import health
from tests.dashboards.seed import fill, publication
from tests.dashboards.visitor import Get, visitor


@pytest.fixture(autouse=True)
def _newest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable stale answers, which readers get for a moment otherwise; `test_response_cache` covers
    those."""
    monkeypatch.setattr(response_cache, "STALE_SECONDS", 0.0)
    monkeypatch.setattr(health, "READINESS_SECONDS", 0.0)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def get(url: str) -> Get:
    fill(url, publication())
    return visitor(url)
