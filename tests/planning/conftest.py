"""Copies of a fleet with two published nights."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests import fleets
from tests.fleets import Fleet
from tests.planning.nights import publish_nights


@pytest.fixture(scope="session")
def published_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """Fleet that tests must not change."""
    return publish_nights(tmp_path_factory.mktemp("kept"), fleets.counts("ABCD"))


@pytest.fixture
def without_thursdays(tmp_path: Path) -> Fleet:
    """The same fleet, except that A is closed on Thursdays."""
    rows = [row.split(",") for row in fleets.counts("ABCD")]
    never = [",".join(row) for row in rows if row[0] != "A" or date.fromisoformat(row[1]).weekday() != 3]
    return publish_nights(tmp_path, never)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Fleet that a test may change."""
    return publish_nights(tmp_path / "fleet", fleets.counts("ABCD"))
