"""A new model is tried at some depots: a worse one is rolled back automatically, an equal one is
promoted."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from forecaster.ledger.store import Ledger
from tests import canaries
from tests.canaries import Known, admit, run_night, said, shown

pytestmark = pytest.mark.e2e

EQUAL, WORSE = 1.0005, 1.2


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Known:
    return canaries.build(tmp_path_factory.mktemp("known"), 1.0, EQUAL, WORSE)


@pytest.fixture
def known(built: Known, tmp_path: Path) -> Known:
    shutil.copytree(built.file.parent, tmp_path / "fleet")
    return Known(tmp_path / "fleet" / "pipeline.yaml", built.bundles)


def seen_beside(known: Known, day: int, factor: float) -> frozenset[str]:
    """Depots whose page shows this bundle's numbers; all others show the champion's exactly."""
    publication = shown(known)
    ours, champion = said(known, day, factor), said(known, day, 1.0)
    marked = frozenset(depot.depot_id for depot in publication.depots if depot.bundle_digest == known.bundles[factor])
    for depot in publication.depots:
        expected = ours if depot.depot_id in marked else champion
        for published in depot.days:
            assert published.quantiles == pytest.approx(expected[depot.depot_id, published.target_date], rel=1e-6)
    return marked


def test_model_a_fifth_too_high_is_rolled_back_within_three_nights(known: Known) -> None:
    first = run_night(known, 0, admit(known, WORSE, backtested=EQUAL))
    assert first.outcome == "published", first.message
    [trial] = canaries.trials(known)
    assert (trial.state, len(trial.cohort)) == ("running", 2)
    assert seen_beside(known, 0, WORSE) == trial.cohort
    nights = 0
    while canaries.trials(known)[0].state == "running":
        nights += 1
        night = run_night(known, nights)
        seen = seen_beside(known, nights, WORSE)
        assert seen in (trial.cohort, frozenset())
    assert nights <= 3
    assert seen == frozenset()
    assert night.canary is not None
    assert (night.canary.state, night.outcome) == ("rolled_back", "published")
    with Ledger.open_reader(known.spec.ledger_url) as ledger:
        last = ledger.promotions("known")[-1]
    assert (last.bundle_digest, last.by) == (known.bundles[1.0], "canary")
    assert last.reason.startswith(f"stays, because canary {known.bundles[WORSE]} was withdrawn: ")


def test_equal_model_is_promoted(known: Known) -> None:
    run_night(known, 0, admit(known, EQUAL))
    cohort = canaries.trials(known)[0].cohort
    states = []
    for day in range(1, 5):
        night = run_night(known, day)
        states.append(night.canary.state if night.canary else None)
        if states[-1] == "running":
            assert seen_beside(known, day, EQUAL) == cohort
        if states[-1] == "promoted":
            break
    assert states == ["running", "running", "promoted"]
    publication = shown(known)
    assert publication.bundle_digest == known.bundles[EQUAL]
    assert {depot.bundle_digest for depot in publication.depots} == {None}
