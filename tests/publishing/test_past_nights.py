"""Past nights for a first look: by the current model, if it has not seen their days."""

from __future__ import annotations

import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest

from forecaster.lake import Lake
from forecaster.ledger import records
from forecaster.ledger.store import Ledger
from forecaster.publishing import past_nights
from forecaster.publishing.predict import predict
from tests import fleets
from tests.fleets import AS_OF, Fleet

DAY = timedelta(days=1)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Fleet:
    return fleets.build_fleet(tmp_path_factory.mktemp("fleet"))


def _validated_until(day: date | None, fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the last day of the champion's validation."""
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


def test_unseen_morning_is_forecast_by_the_current_champion(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    _validated_until((AS_OF - 6 * DAY).date(), fleet, monkeypatch)
    published = _publish(fleet, AS_OF - 5 * DAY, "unseen")
    assert (published.tier, published.bundle_digest, published.cutoff) == ("champion", fleet.bundle.name, "2024-04-04")
    assert published.note.startswith(past_nights.NOTE)
    assert json.loads(published.to_json())["publication_id"] is not None


def test_seen_morning_is_forecast_by_the_champion_of_that_date_or_the_fallback(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    _validated_until((AS_OF - 4 * DAY).date(), fleet, monkeypatch)
    published = _publish(fleet, AS_OF - 4 * DAY, "seen")
    assert published.tier == "fallback"
    assert "no model had been admitted by then" in published.note


def test_model_without_validation_date_counts_as_having_seen_all_days(fleet: Fleet) -> None:
    assert _publish(fleet, AS_OF - 3 * DAY, "silent").tier == "fallback"


def test_current_forecast_is_republished_and_compared_with_the_morning_before(
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


def test_past_morning_is_kept_behind_the_shown_publication(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    _validated_until((AS_OF - 9 * DAY).date(), fleet, monkeypatch)
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        ledger.start_run("tonight", pipeline="small", as_of=AS_OF, spec_digest=fleet.spec.digest, kind="refresh")
    tonight = past_nights.publish_again(fleet.spec, as_of=AS_OF, run_id="tonight", promoted_by="first")
    published = _publish(fleet, AS_OF - 6 * DAY, "behind")
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        head = ledger.current("small")
        assert head is not None
        assert (head.publication_id, head.run_id) == (tonight.publication_id, "tonight")
        assert published.publication_id in [kept.publication_id for kept in ledger.publications("small")]


def test_history_from_one_file_is_replayed_and_labeled(tmp_path: Path) -> None:
    """With a file as written by `init --from`, nothing was known on the mornings before its
    arrival."""
    fleet = fleets.build_fleet(tmp_path, recorded="arrival")
    with Ledger.open(fleet.spec.ledger_url) as ledger:
        ledger.start_run("tonight", pipeline="small", as_of=AS_OF, spec_digest=fleet.spec.digest, kind="refresh")
    tonight = past_nights.publish_again(fleet.spec, as_of=AS_OF, run_id="tonight", promoted_by="first")
    published = _publish(fleet, AS_OF - 5 * DAY, "replayed")
    assert published.cutoff == "2024-04-04"
    assert past_nights.REPLAYED in published.note
    rows = Lake(fleet.spec.lake_url).read("forecasts").to_pylist()
    assert {row["run_id"] for row in rows} == {"tonight", "replayed"}
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        head = records.head(connection, "small")
        assert head is not None
        assert head.publication_id == tonight.publication_id
        kept = records.of_run(connection, "replayed")
        assert kept is not None
        assert kept.note is not None
        assert "treated as known on the morning after its day" in kept.note


def test_earlier_prediction_stays_behind_the_shown_one_unless_replacing(tmp_path: Path) -> None:
    fleet = fleets.build_fleet(tmp_path)
    week_ago = AS_OF - 7 * DAY
    arguments = {"bundle": None, "run_id": None, "note": None}

    def shown() -> int | None:
        with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
            head = ledger.current(fleet.spec.name)
            return head and head.publication_id

    today = predict(fleet.spec, as_of=AS_OF, **arguments)
    behind = predict(fleet.spec, as_of=week_ago, **arguments)
    assert shown() == today.publication_id != behind.publication_id
    assert behind.remark is not None
    assert "Publication 1 stays on the page, because its date, 2024-04-10 08:00" in behind.remark
    assert Lake(fleet.spec.lake_url).read("forecasts").num_rows == 2 * len(behind.forecast.open.ravel())
    again = predict(fleet.spec, as_of=AS_OF, **arguments)  # as of the same time, with later data
    assert (shown(), again.remark) == (again.publication_id, None)
    replacing = predict(fleet.spec, as_of=week_ago, replace_newer=True, **arguments)
    assert (shown(), replacing.remark) == (replacing.publication_id, None)
