"""Copies of a fleet of which two nights were published."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pytest

from tests import fleets
from tests.fleets import Fleet
from tests.planning.nights import publish_nights


@pytest.fixture(scope="session")
def published_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """One that stays as it is."""
    return publish_nights(tmp_path_factory.mktemp("kept"), fleets.counts("ABCD"))


@pytest.fixture
def without_thursdays(tmp_path: Path) -> Fleet:
    """The same fleet, but that A never has a Thursday."""
    rows = [row.split(",") for row in fleets.counts("ABCD")]
    never = [",".join(row) for row in rows if row[0] != "A" or date.fromisoformat(row[1]).weekday() != 3]
    return publish_nights(tmp_path, never)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """One that a test may change."""
    return publish_nights(tmp_path / "fleet", fleets.counts("ABCD"))
