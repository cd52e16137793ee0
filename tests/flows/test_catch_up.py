"""Past dates and missed nights: as of each date, into the archive, without changing the page."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from flows import catch_up, lines, start, steps
from flows.night import Night
from forecaster.config import load
from forecaster.errors import SpecError, TrainingError
from forecaster.lake import Lake
from forecaster.ledger.store import Ledger
from tests.flows.tiny import LAST, NIGHT, pipeline


@pytest.fixture(scope="module")
def after_a_refresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = pipeline(tmp_path_factory.mktemp("fleet"))
    night = Night.begin(str(file), NIGHT, kind="refresh")
    night.run(lambda: lines.predict_only(night, steps))
    return file.parent


@pytest.fixture
def file(after_a_refresh: Path, tmp_path: Path) -> Path:
    """Return a pipeline with its readings in the lake and its last run on the page."""
    shutil.copytree(after_a_refresh, tmp_path, dirs_exist_ok=True)
    return tmp_path / "pipeline.yaml"


def cutoffs(file: Path) -> dict[str, set[str]]:
    """Return the archived cutoffs of each run."""
    cutoffs_of: dict[str, set[str]] = {}
    for row in Lake(load(file).lake_url).read("forecasts", columns=["run_id", "cutoff"]).to_pylist():
        cutoffs_of.setdefault(row["run_id"], set()).add(str(row["cutoff"]))
    return cutoffs_of


def test_past_dates_are_forecast_oldest_first_with_their_data_and_only_once(file: Path) -> None:
    first, last = LAST - timedelta(days=2), LAST
    backfilled = catch_up.backfill_dates(str(file), str(first), str(last), steps, trains=False, again=False)
    assert [night.as_of.date() for night in backfilled] == [first, first + timedelta(days=1), last]
    archived = cutoffs(file)
    assert [archived[night.run_id] for night in backfilled] == [
        {str(night.as_of.date() - timedelta(days=1))} for night in backfilled
    ]
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        head = ledger.current("tiny")
        runs = {run.run_id: run for run in ledger.runs()}
    assert head is not None
    assert head.publication_id == 1  # the page is unchanged
    assert {(runs[night.run_id].kind, runs[night.run_id].tier) for night in backfilled} == {("backfill", "fallback")}
    assert catch_up.backfill_dates(str(file), str(first), str(last), steps, trains=False, again=False) == []
    assert len(catch_up.backfill_dates(str(file), str(last), str(last), steps, trains=False, again=True)) == 1


def test_the_command_reports_skipped_dates(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert start.backfill(file, load(file), LAST - timedelta(days=1), LAST, plain=True) == 3
    assert "nights to forecast: 2\n" in capsys.readouterr().err
    assert start.backfill(file, load(file), LAST - timedelta(days=1), LAST, plain=True) == 0
    message = "nights to forecast: 0; 2 have forecasts already, which --again makes anew\n"
    assert capsys.readouterr().err == message


@pytest.mark.parametrize("admitted", [True, False, None])
def test_with_training_a_past_date_gets_its_own_model_if_the_gate_admits_it(
    tmp_path: Path, admitted: bool | None
) -> None:
    """Uses a line with stages that do nothing, and no promotion. None: no model could be made."""

    def train(*_: Any) -> str:
        if admitted is None:
            raise TrainingError("it diverged")
        return "candidate"

    def archive(night: Night, exported: Any) -> None:
        archived.append((night.as_of.date(), exported))
        night.exit_code = 0

    archived: list[tuple[date, Any]] = []
    stages = {
        "panel": lambda *_: (None, None),
        "backtest": lambda *_: ("candidate", {}),
        "export": lambda *_: "a bundle",
    }
    gate = {"gate": lambda *_: SimpleNamespace(admitted=admitted)}
    by = SimpleNamespace(**stages, **gate, train=train, archive=archive)
    first = LAST - timedelta(days=1)
    backfilled = catch_up.backfill_dates(str(pipeline(tmp_path)), str(first), str(LAST), by, trains=True, again=False)
    assert archived == [(day, "a bundle" if admitted else None) for day in (first, LAST)]
    message = "no model could be made as of that date: it diverged" if admitted is None else None
    assert [night.message for night in backfilled] == [message, message]


def test_reports_a_date_before_the_data_and_continues(file: Path) -> None:
    backfilled = catch_up.backfill_dates(str(file), "2025-12-31", "2026-01-03", steps, trains=False, again=False)
    assert [night.outcome for night in backfilled][:2] == ["no_data", "no_data"]
    assert backfilled[-1].outcome == "degraded"


def test_past_dates_wait_for_another_run(file: Path) -> None:
    other = Night.begin(str(file))
    backfilled = catch_up.backfill_dates(
        str(file), str(LAST - timedelta(days=1)), str(LAST), steps, trains=False, again=False
    )
    assert [night.outcome for night in backfilled] == ["busy"]
    assert other.outcome == "running"


def test_rejects_days_without_a_scheduled_night(file: Path) -> None:
    ahead = date.today() + timedelta(days=30)
    with pytest.raises(SpecError, match="no night is scheduled"):
        catch_up.backfill_dates(str(file), str(ahead), str(ahead), steps, trains=False, again=False)


def test_after_an_outage_missed_nights_are_made_up_for_newest_first_and_capped(tmp_path: Path) -> None:
    file = pipeline(tmp_path, "schedule: {catch_up: 3}\n")
    spec, now = load(file), datetime.now(UTC)
    night = Night.begin(str(file), NIGHT, kind="refresh")
    night.run(lambda: lines.predict_only(night, steps))
    with Ledger.open(spec.ledger_url) as ledger:
        long_ago = now - timedelta(days=10)
        ledger.start_run("long-ago", pipeline="tiny", as_of=long_ago, spec_digest=spec.digest)
        ledger.finish_run("long-ago", "published", 0)
    due = catch_up.missing_nights(str(file))
    assert len(due) == 4
    caught_up = catch_up.catch_up_missed(str(file), steps)
    instants = [past_night.as_of for past_night in caught_up]
    assert instants == due[1:]
    assert instants == sorted(instants, reverse=True)
    assert catch_up.missing_nights(str(file)) == due[:1]  # tonight's own is run, not made up for


def test_a_night_begun_early_is_due_and_as_of_its_scheduled_instant(tmp_path: Path) -> None:
    ahead = (datetime.now(UTC) + timedelta(seconds=59)).replace(second=0, microsecond=0)
    file = pipeline(tmp_path, f"schedule: {{cron: '{ahead.minute} {ahead.hour} * * *'}}\n")
    assert catch_up.missing_nights(str(file))[0] == ahead
    night = Night.begin(str(file))
    assert night.as_of >= ahead
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        assert ledger.run(night.run_id).night == ahead


def test_publishes_earlier_nights_and_then_the_current_one_again(file: Path) -> None:
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        before = ledger.runs("tiny")
    night = Night.begin(str(file), NIGHT, kind="refresh")
    night.run(lambda: lines.predict_only(night, steps))
    past = catch_up.publish_past_nights(night, 3)
    days = [LAST - timedelta(days=ago) for ago in (2, 1, 0)]
    assert [run.as_of.date() for run in past] == [*days, NIGHT.date()]
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        kinds = [(run.kind, run.as_of.date()) for run in reversed(ledger.runs("tiny"))][len(before) + 1 :]
        head = ledger.current("tiny")
        assert head is not None
        change = ledger.depots(head.publication_id)[0].days[0].change
    assert kinds == [*(("backfill", day) for day in days), ("backfill", NIGHT.date())]
    assert (head.run_id, head.as_of) == (past[-1].run_id, NIGHT)
    assert change is not None
    assert change.since == LAST  # the morning before, with which its number is compared
    assert catch_up.publish_past_nights(night, 3) == []
