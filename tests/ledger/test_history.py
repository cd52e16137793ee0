"""Runs and promotions as looked up later."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest

from forecaster.core.knowledge import Finding
from forecaster.errors import LedgerError
from forecaster.ledger.store import Ledger
from tests.ledger.publications import NIGHT, start


def test_run_row_records_start_notes_and_end(ledger: Ledger) -> None:
    (run,) = ledger.runs("harbor-fleet")
    assert (run.outcome, run.finished_at, run.timings, run.findings) == ("running", None, {}, ())
    late = Finding("late_days", "warn", 2, "demand.csv: 2 readings came late")
    ledger.note("night-1", timings={"ingest": 1.5}, findings=[late], lake_versions={"depots": 1})
    ledger.note("night-1", timings={"train": 60}, findings=[late], verdict={"admitted": True}, bundle_digest="b0")
    ledger.finish_run("night-1", "published", 0, "64 depots", "fresh", at=NIGHT + timedelta(minutes=9))
    (run,) = ledger.runs()
    assert run.timings == {"ingest": 1.5, "train": 60.0}
    assert run.lake_versions == {"demand": 3, "depots": 1}
    assert [finding["message"] for finding in run.findings] == [late.message]
    assert (run.outcome, run.exit_code, run.tier, run.bundle_digest) == ("published", 0, "fresh", "b0")
    assert (run.message, run.verdict) == ("64 depots", {"admitted": True})
    assert run.finished_at == NIGHT + timedelta(minutes=9)


def test_runs_are_listed_newest_first(ledger: Ledger) -> None:
    start(ledger, "night-2", hours=24)
    start(ledger, "night-3", hours=48)
    assert [run.run_id for run in ledger.runs("harbor-fleet", limit=2)] == ["night-3", "night-2"]
    assert ledger.runs("other") == ()


def test_rejects_duplicate_and_unknown_run_ids_and_unknown_outcomes(ledger: Ledger) -> None:
    with pytest.raises(LedgerError, match="'night-1' is in the ledger already"):
        start(ledger, "night-1")
    with pytest.raises(LedgerError, match="'night-9' is not in the ledger"):
        ledger.note("night-9", timings={"ingest": 1})
    with pytest.raises(LedgerError, match="outcome is 'over'"):
        ledger.finish_run("night-1", "over", 0)  # type: ignore[arg-type]


def test_instants_of_any_zone_are_read_back_in_utc(ledger: Ledger) -> None:
    early = datetime(2025, 6, 19, 3, 15, tzinfo=timezone(timedelta(hours=-4)))
    ledger.start_run("night-2", pipeline="harbor-fleet", as_of=early, spec_digest="5pec", at=early)
    run = ledger.runs(limit=1)[0]
    assert run.as_of.isoformat() == "2025-06-19T07:15:00+00:00"


def test_expected_timings_are_the_median_of_the_last_fourteen_finished_runs(ledger: Ledger) -> None:
    assert ledger.expected_timings("harbor-fleet") == {}
    for night in range(2, 22):  # 20 finished runs; the last 14 took 8 … 21 seconds
        start(ledger, f"night-{night}", hours=night)
        ledger.note(f"night-{night}", timings={"train": night, **({"export": 2.0} if night == 20 else {})})
        ledger.finish_run(f"night-{night}", "published", 0, at=NIGHT + timedelta(hours=night, minutes=5))
    ledger.note("night-1", timings={"train": 999})  # still running
    assert ledger.expected_timings("harbor-fleet") == {"train": 14.5, "export": 2.0}


def test_promotion_names_the_previous_champion(ledger: Ledger) -> None:
    assert ledger.champion("harbor-fleet") is None
    ledger.promote("harbor-fleet", run_id="night-1", bundle_digest="b0", by="gate", reason="first model", at=NIGHT)
    second = ledger.promote(
        "harbor-fleet", run_id="night-1", bundle_digest="b1", by="gate", reason="better", model_version="2"
    )
    assert second.previous_digest == "b0"
    assert ledger.champion("harbor-fleet") == second
    assert ledger.champion("other") is None
