"""A fleet of which two nights were published, once for a session, and copies of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import DAY, STAFFING, publish_as_of, write_bundle


@pytest.fixture(scope="session")
def published_fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    """A fleet of which two nights were published."""
    file = tmp_path_factory.mktemp("kept") / "pipeline.yaml"
    file.write_text(fleets.PIPELINE + STAFFING, "utf-8")
    spec = load(file)
    fleets.fill(spec, fleets.counts("ABCD"), fleets.CITIES)
    folder = write_bundle(spec, 1.0)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(spec.name, run_id="first", bundle_digest=folder.name, by="test", reason="the first")
    publish_as_of(spec, AS_OF - DAY)
    publish_as_of(spec, AS_OF)
    return Fleet(file, spec, folder)


@pytest.fixture
def fleet(published_fleet: Fleet, tmp_path: Path) -> Fleet:
    """A copy that a test may change."""
    shutil.copytree(published_fleet.file.parent, tmp_path / "fleet")
    file = tmp_path / "fleet" / "pipeline.yaml"
    return Fleet(file, load(file), tmp_path / "fleet" / published_fleet.bundle.relative_to(published_fleet.file.parent))
