"""The ledger determines the missing nights, whatever a scheduler has planned."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from forecaster.config import Spec
from forecaster.errors import SpecError
from forecaster.ledger import run_start, tables
from forecaster.ledger.records import Kind, Outcome
from forecaster.ledger.store import Ledger
from forecaster.monitoring import slo
from forecaster.operations import due_nights

NOW = datetime(2026, 6, 20, 13, 0, tzinfo=UTC)  # 09:00 in New York


def spec(timezone: str = "America/New_York", **schedule: Any) -> Spec:
    source = {"source": {"kind": "csv", "path": "demand.csv"}}
    return Spec.model_validate({"name": "fleet", "timezone": timezone, "demand": source, "schedule": schedule})


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as opened:
        yield opened


def night(day: int, hour: int = 3, minute: int = 15) -> datetime:
    """Instant of June 2026 in New York, four hours behind UTC."""
    return datetime(2026, 6, day, 4, tzinfo=UTC) + timedelta(hours=hour, minutes=minute)


def ran(ledger: Ledger, as_of: datetime, outcome: Outcome = "published", kind: Kind = "night") -> None:
    name = f"{as_of.isoformat()}-{kind}-{outcome}"
    ledger.start_run(name, pipeline="fleet", as_of=as_of, spec_digest="5pec", kind=kind)
    ledger.finish_run(name, outcome, 0)


def test_before_the_first_run_only_the_last_night_is_due(ledger: Ledger) -> None:
    assert due_nights.missed_nights(spec(), ledger, NOW) == [night(20)]


def test_published_night_is_not_due_again(ledger: Ledger) -> None:
    ran(ledger, night(20))
    assert due_nights.missed_nights(spec(), ledger, NOW) == []


def test_missed_nights_are_listed_newest_first_up_to_catch_up(ledger: Ledger) -> None:
    ran(ledger, night(10))
    assert due_nights.missed_nights(spec(), ledger, NOW) == [night(day) for day in range(20, 12, -1)]
    assert due_nights.missed_nights(spec(catch_up=2), ledger, NOW) == [night(20), night(19), night(18)]
    assert due_nights.missed_nights(spec(catch_up=0), ledger, NOW) == [night(20)]


def test_shorter_outage_is_caught_up_completely(ledger: Ledger) -> None:
    ran(ledger, night(17))
    assert due_nights.missed_nights(spec(), ledger, NOW) == [night(20), night(19), night(18)]


def test_late_or_manual_run_counts_but_not_one_of_the_day_before(ledger: Ledger) -> None:
    ran(ledger, night(19, 22))
    assert due_nights.missed_nights(spec(), ledger, NOW) == [night(20)]
    ran(ledger, night(20, 8, 59))
    assert due_nights.missed_nights(spec(), ledger, NOW) == []


def test_run_as_of_a_future_day_does_not_count_for_earlier_nights(ledger: Ledger) -> None:
    ran(ledger, night(21))
    assert due_nights.missed_nights(spec(), ledger, NOW) == [night(20)]
    ran(ledger, night(20))
    assert due_nights.missed_nights(spec(), ledger, NOW) == []


@pytest.mark.parametrize("outcome", ["failed", "no_data", "busy"])
def test_a_night_without_forecasts_is_still_due(ledger: Ledger, outcome: Outcome) -> None:
    ran(ledger, night(20), outcome)
    assert due_nights.missed_nights(spec(), ledger, NOW) == [night(20)]


def test_backfilled_night_is_not_due_and_a_refresh_does_not_count(ledger: Ledger) -> None:
    ran(ledger, night(18))
    ran(ledger, night(19), kind="backfill")
    ran(ledger, night(20, 8), kind="refresh")
    assert due_nights.missed_nights(spec(), ledger, NOW) == [night(20)]


def test_weekday_schedule_has_nights_only_on_its_weekdays(ledger: Ledger) -> None:
    ran(ledger, night(15))  # a Monday
    assert due_nights.missed_nights(spec(cron="15 3 * * 1,4"), ledger, NOW) == [night(18)]  # a Thursday


def test_night_is_due_exactly_at_its_scheduled_instant(ledger: Ledger) -> None:
    assert due_nights.missed_nights(spec(), ledger, night(20)) == [night(20)]
    assert due_nights.missed_nights(spec(), ledger, night(20) - timedelta(minutes=2)) == [night(19)]


@pytest.mark.parametrize(
    ("timezone", "schedule", "message"),
    [
        ("Europe/Berlin", {"cron": "30 2 * * *"}, "schedule.cron is '30 2 * * *', and 02:30 does not exist on "),
        ("America/New_York", {"cron": "30 1 * * *"}, "schedule.cron is '30 1 * * *', and 01:30 comes twice on "),
        (
            "Europe/London",
            {"refresh": "30 1 * * 1-5"},
            "schedule.refresh is '30 1 * * 1-5', and 01:30 does not exist on ",
        ),
        ("Europe/London", {"maintain": "0 1 * * 0"}, "schedule.maintain is '0 1 * * 0', and 01:00 does not exist on "),
    ],
)
def test_rejects_schedules_at_hours_of_clock_changes(timezone: str, schedule: dict[str, str], message: str) -> None:
    with pytest.raises(SpecError, match=re.escape(message)) as refused:
        due_nights.refuse_changing_hour(spec(timezone, **schedule), "fleet.yaml")
    assert str(refused.value).startswith("fleet.yaml: ")
    assert timezone in str(refused.value)


@pytest.mark.parametrize("timezone", ["America/New_York", "Europe/Berlin", "Europe/London", "Asia/Tokyo", "UTC"])
def test_quarter_past_three_is_accepted_in_all_zones(timezone: str) -> None:
    due_nights.refuse_changing_hour(spec(timezone, refresh="0 8 * * *"), "fleet.yaml")


def test_next_night_is_in_local_time() -> None:
    pipeline = spec()
    assert due_nights.next_night(pipeline.schedule.cron, pipeline.zone, NOW) == night(21)


# Identity of a night across clock changes and edits of the schedule.


def begun_at(ledger: Ledger, pipeline: Spec, instant: datetime) -> datetime:
    """Begin a run at an instant under the given schedule; return the scheduled instant of its
    night."""
    scheduled = due_nights.night_of(pipeline, instant)
    name = f"{instant.isoformat()}"
    begin = {"run_id": name, "kind": "night", "as_of": instant, "night": scheduled, "now": instant}
    run_start.begin(ledger, pipeline, **begin)
    ledger.finish_run(name, "published", 0, at=instant + timedelta(minutes=5))
    with ledger.transaction() as connection:
        connection.execute(tables.lease.delete())
    return scheduled


@pytest.mark.parametrize("offset", [timedelta(seconds=-0.5), timedelta(seconds=-30), timedelta(minutes=10)])
@pytest.mark.parametrize("first", [datetime(2026, 3, 5, tzinfo=UTC), datetime(2026, 10, 29, tzinfo=UTC)])
def test_early_or_late_run_keeps_its_night_across_clock_changes(
    ledger: Ledger, first: datetime, offset: timedelta
) -> None:
    pipeline = spec()
    instant = due_nights.next_night(pipeline.schedule.cron, pipeline.zone, first)
    for _ in range(6):
        assert due_nights.missed_nights(pipeline, ledger, instant + offset) == [instant]
        assert begun_at(ledger, pipeline, instant + offset) == instant
        for later in (timedelta(minutes=11), timedelta(hours=12)):
            assert due_nights.missed_nights(pipeline, ledger, instant + later) == []
        standing = slo.standings(pipeline, ledger, instant + timedelta(hours=12))[0]
        assert (standing.key, standing.state) == ("S1", "kept")
        instant = due_nights.next_night(pipeline.schedule.cron, pipeline.zone, instant)


@pytest.mark.parametrize("cron", ["30 4 * * *", "15 2 * * *", "30 23 * * *", "0 0 * * *"])
def test_edited_schedule_keeps_earlier_nights_published_and_on_time(ledger: Ledger, cron: str) -> None:
    for day in range(14, 21):
        begun_at(ledger, spec(), night(day) + timedelta(minutes=1))
    edited = spec(cron=cron)
    assert due_nights.missed_nights(edited, ledger, NOW) == []
    assert slo.standings(edited, ledger, NOW)[0].state == "kept"
    tomorrow = due_nights.next_night(cron, edited.zone, NOW)
    assert due_nights.missed_nights(edited, ledger, tomorrow) == [tomorrow]


def test_manual_run_counts_for_a_night_only_shortly_after_it(ledger: Ledger) -> None:
    begun_at(ledger, spec(), night(20, 1))
    assert due_nights.missed_nights(spec(), ledger, NOW) == [night(20)]
    begun_at(ledger, spec(), night(20, 3, 25))
    assert due_nights.missed_nights(spec(), ledger, NOW) == []
