"""Canaries in the ledger: one at a time, and the ways in which one ends."""

from __future__ import annotations

from datetime import timedelta
from typing import get_args

import pytest
import sqlalchemy as sa

from forecaster.core.forecast import CanaryTrial, TrialState
from forecaster.errors import LedgerError
from forecaster.ledger import tables
from forecaster.ledger.store import GATE, Ledger
from forecaster.ledger.trials import canaries
from tests.ledger.publications import NIGHT, start

PIPELINE = "harbor-fleet"


@pytest.fixture
def running(ledger: Ledger) -> CanaryTrial:
    """Champion `b0`, and canary `b1` next to it."""
    ledger.promote(PIPELINE, run_id="night-1", bundle_digest="b0", by=GATE, reason="first", model_version="1", at=NIGHT)
    start(ledger, "night-2", hours=24)
    return begin(ledger)


def begin(ledger: Ledger, bundle: str = "b1") -> CanaryTrial:
    at = NIGHT + timedelta(hours=24)
    with ledger.transaction() as connection:
        return canaries.start(connection, PIPELINE, run_id="night-2", bundle_digest=bundle, cohort=("S2", "S1"), now=at)


def current(ledger: Ledger) -> CanaryTrial | None:
    with ledger.transaction() as connection:
        return canaries.running(connection, PIPELINE)


def newest(ledger: Ledger) -> CanaryTrial:
    with ledger.transaction() as connection:
        return canaries.history(connection, PIPELINE)[0]


def test_canary_runs_next_to_the_champion(ledger: Ledger, running: CanaryTrial) -> None:
    assert current(ledger) == running
    assert (running.champion_digest, running.cohort) == ("b0", frozenset({"S1", "S2"}))
    assert (running.state, running.nights, running.days, running.judged) == ("running", 0, 0, None)
    with ledger.transaction() as connection:
        canaries.keep_judgement(connection, running, {"days": 2, "low": None}, 2)
    kept = newest(ledger)
    assert (kept.nights, kept.days) == (2, 2)


def test_start_requires_another_champion_and_no_running_canary(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="wanted another champion"):
        begin(ledger)
    ledger.promote(PIPELINE, run_id="night-1", bundle_digest="b0", by=GATE, reason="first", at=NIGHT)
    start(ledger, "night-2", hours=24)
    with pytest.raises(LedgerError, match="wanted another champion"):
        begin(ledger, "b0")
    begin(ledger)
    with pytest.raises(LedgerError, match="b2 is no canary: b1 runs since"):
        begin(ledger, "b2")


def test_database_enforces_one_running_canary(ledger: Ledger, running: CanaryTrial) -> None:
    row = {"pipeline": PIPELINE, "run_id": "night-2", "bundle_digest": "b2", "champion_digest": "b0", "nights": 0}
    row |= {"since": running.since, "cohort": [], "state": "running"}
    with pytest.raises(LedgerError, match=r"(?i)unique"), ledger.transaction() as connection:
        connection.execute(tables.canaries.insert().values(**row))
    with ledger.transaction() as connection:
        connection.execute(tables.canaries.insert().values(**row | {"state": "stopped"}))


def test_promoted_canary_keeps_its_run_and_version(ledger: Ledger, running: CanaryTrial) -> None:
    ledger.name_versions(PIPELINE, {"night-2": "2"})
    with ledger.transaction() as connection:
        trial = canaries.running(connection, PIPELINE)
        assert trial is not None
        promotion = canaries.promote(connection, trial, reason="no worse", now=NIGHT)
    assert (promotion.bundle_digest, promotion.run_id, promotion.model_version) == ("b1", "night-2", "2")
    assert (promotion.by, promotion.previous_digest) == ("canary", "b0")
    assert ledger.champion(PIPELINE) == promotion
    assert (newest(ledger).state, current(ledger)) == ("promoted", None)


def test_rollback_confirms_the_champion(ledger: Ledger, running: CanaryTrial) -> None:
    with ledger.transaction() as connection:
        canaries.take_back(connection, running, reason="6 % worse", now=NIGHT)
        assert canaries.was_taken_back(connection, PIPELINE, "b1") is not None
        assert canaries.was_taken_back(connection, PIPELINE, "b2") is None
    champion = ledger.champion(PIPELINE)
    assert champion is not None
    assert (champion.bundle_digest, champion.by, champion.model_version) == ("b0", "canary", "1")
    assert champion.reason == "stays, because canary b1 was withdrawn: 6 % worse"
    assert newest(ledger).state == "rolled_back"


def test_ended_canary_cannot_be_promoted(ledger: Ledger, running: CanaryTrial) -> None:
    with ledger.transaction() as connection:
        canaries.end(connection, running, "stopped", by="Ana", reason="not now", now=NIGHT)
    with pytest.raises(LedgerError, match="does not run any more"), ledger.transaction() as connection:
        canaries.promote(connection, running, reason="no worse", now=NIGHT)
    assert [promotion.bundle_digest for promotion in ledger.promotions(PIPELINE)] == ["b0"]


def test_interrupted_rollback_changes_nothing(ledger: Ledger, running: CanaryTrial) -> None:
    def killed() -> None:
        with ledger.transaction() as connection:
            canaries.take_back(connection, running, reason="worse", now=NIGHT)
            raise RuntimeError("killed")

    with pytest.raises(RuntimeError, match="killed"):
        killed()
    assert current(ledger) == running
    assert len(ledger.promotions(PIPELINE)) == 1


@pytest.mark.parametrize(
    ("bundle", "state", "reason"),
    [("b1", "promoted", "because"), ("b2", "superseded", "b2 was promoted: because")],
)
def test_manual_promotion_ends_the_canary(
    ledger: Ledger, running: CanaryTrial, bundle: str, state: str, reason: str
) -> None:
    ledger.promote(PIPELINE, run_id="night-2", bundle_digest=bundle, by="Ana", reason="because")
    ended = newest(ledger)
    assert (ended.state, ended.by, ended.reason) == (state, "Ana", reason)
    assert ended.ended_at is not None


def test_confirming_the_champion_keeps_the_canary_running(ledger: Ledger, running: CanaryTrial) -> None:
    ledger.promote(PIPELINE, run_id="night-2", bundle_digest="b0", by="Ana", reason="again")
    assert current(ledger) == running


def test_run_of_a_canary_is_not_deleted(ledger: Ledger, running: CanaryTrial) -> None:
    ledger.finish_run("night-2", "published", 0, at=NIGHT)
    assert ledger.forget_runs(PIPELINE, before=NIGHT + timedelta(days=400), keep="none") == 0
    assert "night-2" in {run.run_id for run in ledger.runs(PIPELINE)}


def test_states_match_the_documentation() -> None:
    assert get_args(TrialState) == ("running", "promoted", "rolled_back", "stopped", "superseded")
    assert isinstance(tables.canaries, sa.Table)
