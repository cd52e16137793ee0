"""A fleet of which two nights were published, once for a session, and copies of it."""

from __future__ import annotations

import shutil
from datetime import date
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
    return _publish(tmp_path_factory.mktemp("kept"), fleets.counts("ABCD"))


@pytest.fixture
def without_thursdays(tmp_path: Path) -> Fleet:
    """The same fleet, but that A never has a Thursday."""
    rows = [row.split(",") for row in fleets.counts("ABCD")]
    never = [",".join(row) for row in rows if row[0] != "A" or date.fromisoformat(row[1]).weekday() != 3]
    return _publish(tmp_path, never)


def _publish(folder: Path, rows: list[str]) -> Fleet:
    file = folder / "pipeline.yaml"
    file.write_text(fleets.PIPELINE + STAFFING, "utf-8")
    spec = load(file)
    fleets.fill(spec, rows, fleets.CITIES)
    bundle = write_bundle(spec, 1.0)
    with Ledger.open(spec.ledger_url) as ledger:
        ledger.start_run("first", pipeline=spec.name, as_of=AS_OF, spec_digest=spec.digest)
        ledger.promote(spec.name, run_id="first", bundle_digest=bundle.name, by="test", reason="the first")
    publish_as_of(spec, AS_OF - DAY)
    publish_as_of(spec, AS_OF)
    return Fleet(file, spec, bundle)


@pytest.fixture
def fleet(published_fleet: Fleet, tmp_path: Path) -> Fleet:
    """A copy that a test may change."""
    shutil.copytree(published_fleet.file.parent, tmp_path / "fleet")
    file = tmp_path / "fleet" / "pipeline.yaml"
    return Fleet(file, load(file), tmp_path / "fleet" / published_fleet.bundle.relative_to(published_fleet.file.parent))
