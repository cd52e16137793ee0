"""A fleet with an exported bundle, for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import fleets
from tests.fleets import Fleet


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    """Copy of the fleet that a test may damage."""
    return fleets.build_fleet(tmp_path / "fleet")
