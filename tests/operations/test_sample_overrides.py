"""Planners' numbers of the sample: every other morning, deterministic, and labeled as made up."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.ledger.store import Ledger
from forecaster.operations import sample_overrides
from forecaster.planning import service
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import publish_as_of


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    built = fleets.build_fleet(tmp_path)
    publish_as_of(built.spec, AS_OF)
    return built


def test_sample_override_is_for_the_day_after_tomorrow_and_labeled(fleet: Fleet) -> None:
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        published = ledger.current("small")
        assert published is not None
        number = published.publication_id
    even = AS_OF if AS_OF.date().toordinal() % 2 == 0 else AS_OF + timedelta(days=1)
    sample_overrides.override_one_day(fleet.spec, even + timedelta(days=1), number)
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        assert service.list_overrides(ledger, "small") == ()  # not on this morning
    sample_overrides.override_one_day(fleet.spec, even, number)
    sample_overrides.override_one_day(fleet.spec, even, number)
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        overrides = service.list_overrides(ledger, "small")
        head = ledger.current("small")
        assert head is not None
        shown = {
            (depot.depot_id, day.target_date): day.override
            for depot in ledger.depots(head.publication_id)
            for day in depot.days
            if day.override
        }
    first = overrides[0]
    assert (first.target_date, first.by, first.at) == (
        even.date() + timedelta(days=2),
        "the sample",
        even + timedelta(hours=5),
    )
    assert first.note == "Made up, so that the sample has a planner's number to show."
    assert first.reason in fleet.spec.overrides.reasons
    assert (first.depot_id, first.target_date) in shown


def test_only_the_sample_pipeline_counts_as_sample(fleet: Fleet) -> None:
    assert not sample_overrides.is_sample(fleet.spec)
    assert sample_overrides.is_sample(load(Path(__file__).parents[2] / "data" / "harbor_fleet" / "pipeline.yaml"))
