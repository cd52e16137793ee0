"""A fleet with a trained bundle, once a module, and a copy of it for each test."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forecaster.config import load
from tests import fleets
from tests.fleets import Fleet


@pytest.fixture(scope="module")
def published_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return fleets.build_fleet(tmp_path_factory.mktemp("kept"))


@pytest.fixture
def fleet(published_fleet: Fleet, tmp_path: Path) -> Fleet:
    """A copy that a test may damage."""
    shutil.copytree(published_fleet.file.parent, tmp_path / "fleet")
    file = tmp_path / "fleet" / "pipeline.yaml"
    return Fleet(file, load(file), tmp_path / "fleet" / published_fleet.bundle.relative_to(published_fleet.file.parent))
