"""Past nights for a first look: by the model of now, where it has not seen their days."""

from __future__ import annotations

import json
from datetime import date, timedelta
from typing import Any

import pytest

from forecaster.ledger.store import Ledger
from forecaster.publishing import past_nights
from tests import fleets
from tests.fleets import AS_OF, Fleet

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return fleets.build_fleet(tmp_path_factory.mktemp("fleet"))


def _validated_until(day: date | None, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """The champion's training says up to which day it has looked."""
    real = past_nights.bundles.load

    def load(*arguments: Any) -> Any:
        bundle = real(*arguments)
        training = {**bundle.manifest["training"], **({"validated_until": day.isoformat()} if day else {})}
        bundle.manifest["training"] = training
        return bundle

    monkeypatch.setattr(past_nights.bundles, "load", load)


def _publish(fleet: Fleet, as_of: Any, run_id: str) -> Any:
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        ledger.start_run(run_id, pipeline="small", as_of=as_of, spec_digest=fleet.spec.digest, kind="backfill")
    return past_nights.publish_past(fleet.spec, as_of=as_of, run_id=run_id)


def test_a_morning_that_the_champion_has_not_seen_is_its_own_and_says_so(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    _validated_until((AS_OF - 6 * DAY).date(), fleet, monkeypatch)
    published = _publish(fleet, AS_OF - 5 * DAY, "unseen")
    assert (published.tier, published.bundle_digest, published.cutoff) == ("champion", fleet.bundle.name, "2024-04-04")
    assert published.note.startswith(past_nights.NOTE)
    assert json.loads(published.to_json())["publication_id"] is not None


def test_one_that_it_has_seen_falls_to_the_champion_of_then_or_the_fallback(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    _validated_until((AS_OF - 4 * DAY).date(), fleet, monkeypatch)
    published = _publish(fleet, AS_OF - 4 * DAY, "seen")
    assert published.tier == "fallback"
    assert "no model had been admitted by then" in published.note


def test_a_model_that_does_not_say_what_it_has_seen_counts_as_having_seen_all(fleet: Fleet) -> None:
    assert _publish(fleet, AS_OF - 3 * DAY, "silent").tier == "fallback"


def test_tonight_is_published_once_more_beside_the_morning_before(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    _validated_until((AS_OF - 9 * DAY).date(), fleet, monkeypatch)
    _publish(fleet, AS_OF - DAY, "yesterday")
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        ledger.start_run("again", pipeline="small", as_of=AS_OF, spec_digest=fleet.spec.digest, kind="refresh")
    again = past_nights.publish_again(fleet.spec, as_of=AS_OF, run_id="again", promoted_by="first")
    assert again.tier == "fresh"
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        head = ledger.current("small")
        assert head is not None
        assert (head.run_id, head.as_of) == ("again", AS_OF)
        days = ledger.depots(head.publication_id)[0].days
    assert {day.change.since for day in days if day.change} == {(AS_OF - DAY).date()}
