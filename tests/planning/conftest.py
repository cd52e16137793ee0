"""A fleet of which two nights were published, once for a session, and copies of it."""

from __future__ import annotations

import shutil
from datetime import date
from pathlib import Path

import pytest

from forecaster.config import load
from tests import fleets
from tests.fleets import Fleet
from tests.planning.nights import publish_nights


@pytest.fixture(scope="session")
def published_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet of which two nights were published."""
    return publish_nights(tmp_path_factory.mktemp("kept"), fleets.counts("ABCD"))


@pytest.fixture
def without_thursdays(tmp_path: Path) -> Fleet:
    """The same fleet, but that A never has a Thursday."""
    rows = [row.split(",") for row in fleets.counts("ABCD")]
    never = [",".join(row) for row in rows if row[0] != "A" or date.fromisoformat(row[1]).weekday() != 3]
    return publish_nights(tmp_path, never)


@pytest.fixture
def fleet(published_fleet: Fleet, tmp_path: Path) -> Fleet:
    """A copy that a test may change."""
    shutil.copytree(published_fleet.file.parent, tmp_path / "fleet")
    file = tmp_path / "fleet" / "pipeline.yaml"
    return Fleet(file, load(file), tmp_path / "fleet" / published_fleet.bundle.relative_to(published_fleet.file.parent))
