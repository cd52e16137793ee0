"""A published schedule: its states, and nights and overrides that change it only for more than the premium."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.errors import SpecError
from forecaster.ledger.store import Ledger
from forecaster.planning import schedules, service
from forecaster.planning.schedules import ScheduleChange, WeekState
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import DAY, PROPOSED, THURSDAY, current, day, publish_as_of, publish_nights

STAFFING = """\
staffing:
  orders_per_driver: 10
  cost_short: 38
  cost_idle: 22
  notice_days: 2
  change_premium:
    - {added: 15, removed: 45}
    - {within_hours: 12, added: 25, removed: 75}
"""
MONDAY = THURSDAY - timedelta(days=3)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return publish_nights(tmp_path / "fleet", fleets.counts("ABCD"), staffing=STAFFING)


def publish_week(spec: Spec, first: date = MONDAY, last: date = MONDAY + timedelta(days=6)) -> int:
    assert spec.staffing is not None
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        depots, at = current(spec).depots, datetime.now(UTC)
        return schedules.publish_days(connection, spec.name, depots, (first, last), spec.staffing, by="Ana", at=at)


def changes(spec: Spec) -> list[ScheduleChange]:
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        return schedules.read_changes(connection, spec.name, MONDAY)


def states(spec: Spec) -> list[WeekState]:
    cells = {(depot.depot_id, each.target_date) for depot in current(spec).depots for each in depot.days}
    return schedules.week_states(changes(spec), cells)


def test_a_week_is_a_draft_until_it_is_published_and_then_changed(fleet: Fleet) -> None:
    before = current(fleet.spec)
    assert {state.state for state in states(fleet.spec)} == {"draft"}
    cells = [each for depot in before.depots for each in depot.days if each.target_date >= MONDAY]
    assert publish_week(fleet.spec) == len([each for each in cells if each.target_date < MONDAY + 7 * DAY])
    assert publish_week(fleet.spec) == 0  # what is published keeps its notice
    first = states(fleet.spec)[0]
    assert (first.state, first.by, first.depots, first.changes, first.premium) == ("published", ("Ana",), 4, 0, 0)
    middle = before.levels.index(0.5)
    orders = round(day(before).quantiles[middle])
    service.save(fleet.spec, replace(PROPOSED, orders=orders + 100))  # ten drivers
    after = day(current(fleet.spec))
    assert after.drivers is not None
    was = day(before).drivers
    assert was is not None
    [change] = [each for each in changes(fleet.spec) if each.premium is not None]
    assert (change.depot_id, change.target_date, change.by) == ("A", THURSDAY, "Ana")
    assert (change.before, change.crews) == ({"": was}, {"": after.drivers})
    assert change.premium == (after.drivers - was) * 15
    assert change.saving is not None
    assert change.saving > change.premium
    [changed] = [state for state in states(fleet.spec) if state.state == "changed"]
    assert (changed.monday, changed.changes, changed.premium) == (MONDAY, after.drivers - was, change.premium)


def test_an_override_changes_a_published_crew_only_for_more_than_the_premium(fleet: Fleet) -> None:
    publish_week(fleet.spec)
    published = day(current(fleet.spec))
    middle = current(fleet.spec).levels.index(0.5)
    fewer = round(published.quantiles[middle]) - 30
    service.save(fleet.spec, replace(PROPOSED, orders=fewer))  # three drivers fewer, at 22 each idle and 45 to cancel
    shown = day(current(fleet.spec))
    assert shown.drivers == published.drivers
    assert shown.roster is not None
    assert shown.roster.left is not None
    assert shown.roster.left.drivers < shown.drivers  # type: ignore[operator]
    assert 0 < shown.roster.left.saving < shown.roster.left.change_cost
    assert [each for each in changes(fleet.spec) if each.premium is not None] == []


def test_later_nights_keep_the_schedule_and_record_each_change_with_its_premium(fleet: Fleet) -> None:
    publish_week(fleet.spec)
    told = {(each.depot_id, each.target_date): each.crews[""] for each in changes(fleet.spec)}
    dear = fleet.file.with_name("dear.yaml")
    dear.write_text(fleet.file.read_text("utf-8").replace("cost_short: 38", "cost_short: 380"), "utf-8")
    spec = load(dear)  # under which more drivers are wanted, at far more than a premium
    fleets.fill(spec, fleets.counts("ABCD", 101, 100), fleets.CITIES, now=AS_OF + DAY)
    publish_as_of(spec, AS_OF + DAY)
    after = current(spec)
    shown = {(depot.depot_id, each.target_date): each for depot in after.depots for each in depot.days}
    since = [each for each in changes(spec) if each.premium is not None]
    differing = {cell for cell, crew in told.items() if cell in shown and (shown[cell].drivers or 0) != crew}
    assert differing
    assert {(each.depot_id, each.target_date) for each in since} == differing
    for each in since:
        assert each.by == after.run_id
        assert each.premium is not None
        assert each.saving is not None
        rate = {0: 25, 1: 15, 2: 0}[(each.target_date - (AS_OF + DAY).date()).days]
        more = each.crews[""] - each.before[""]
        assert more > 0
        assert each.premium == more * rate
        assert each.saving > each.premium
    count = len(changes(spec))
    publish_as_of(spec, AS_OF + DAY + timedelta(hours=1))  # again, which changes nothing
    assert len(changes(spec)) == count


def test_a_horizon_that_publishes_nothing_in_time_is_refused_and_the_default_covers_the_notice(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    text = "name: fleet\ndemand: {source: {kind: csv, path: demand.csv}}\n"
    file.write_text(text + STAFFING.replace("notice_days: 2", "notice_days: 14"), "utf-8")
    spec = load(file)
    assert spec.horizon == 15
    file.write_text(text + "horizon: 14\n" + STAFFING.replace("notice_days: 2", "notice_days: 14"), "utf-8")
    with pytest.raises(
        SpecError, match=r"pipeline.yaml:\d+: .*notice_days: found 14, with a horizon of 14 days .*wanted horizon: 15"
    ):
        load(file)
