"""A published schedule: its states, and runs and overrides that change it only for more than the
premium."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from forecaster.cli.app import app
from forecaster.config import Spec, load
from forecaster.errors import NoSuchRow, SpecError
from forecaster.ledger.store import Ledger
from forecaster.planning import schedules, service
from forecaster.planning.refresh import BindingCrews
from forecaster.planning.scenario import Supposition
from forecaster.planning.schedules import ScheduleChange, WeekState
from forecaster.planning.what_if import Questions
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
runner = CliRunner()
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


def test_week_goes_from_draft_to_published_to_changed(fleet: Fleet) -> None:
    before = current(fleet.spec)
    assert {state.state for state in states(fleet.spec)} == {"draft"}
    cells = [each for depot in before.depots for each in depot.days if each.target_date >= MONDAY]
    assert publish_week(fleet.spec) == len([each for each in cells if each.target_date < MONDAY + 7 * DAY])
    assert publish_week(fleet.spec) == 0  # published days keep their notice
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


def test_override_changes_a_published_crew_only_above_the_premium(fleet: Fleet) -> None:
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


def test_later_runs_record_each_change_of_the_schedule_with_its_premium(fleet: Fleet) -> None:
    publish_week(fleet.spec)
    told = {(each.depot_id, each.target_date): each.crews[""] for each in changes(fleet.spec)}
    dear = fleet.file.with_name("dear.yaml")
    dear.write_text(fleet.file.read_text("utf-8").replace("cost_short: 38", "cost_short: 380"), "utf-8")
    spec = load(dear)  # more drivers are wanted, at far more than a premium
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
    publish_as_of(spec, AS_OF + DAY + timedelta(hours=1))  # repeated: changes nothing
    assert len(changes(spec)) == count


def test_rejects_horizons_shorter_than_the_notice_which_the_default_covers(tmp_path: Path) -> None:
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


def test_what_if_answers_with_the_crew_of_the_equivalent_override(fleet: Fleet) -> None:
    publish_week(fleet.spec)
    publication = current(fleet.spec)
    told = {(each.depot_id, each.target_date): each.crews for each in changes(fleet.spec)}
    orders = round(day(publication).quantiles[publication.levels.index(0.5)]) - 30
    supposed = Supposition("A", THURSDAY, "orders", orders)
    answer = Questions.of(fleet.spec.paths.folder, publication, told=BindingCrews(told)).ask(supposed)
    assert answer.after.drivers == day(publication).drivers
    free = Questions.of(fleet.spec.paths.folder, publication).ask(supposed)
    assert free.after.drivers is not None
    assert answer.after.drivers is not None
    assert free.after.drivers < answer.after.drivers
    service.save(fleet.spec, replace(PROPOSED, orders=orders))
    assert day(current(fleet.spec)).drivers == answer.after.drivers


def test_schedule_command_publishes_a_week_and_shows_states_and_changes(fleet: Fleet) -> None:
    file, week = str(fleet.file), THURSDAY.isoformat()
    shown = runner.invoke(app, ["schedule", file])
    assert shown.stdout.splitlines() == [f"{MONDAY}  draft"]
    answer = runner.invoke(app, ["schedule", file, "--publish", week, "--by", "Ana"])
    assert answer.exit_code == 0
    assert answer.stderr == f"published 12 depot-days of the week of {MONDAY}\n"
    assert "by Ana, to 4 depots" in answer.stdout
    more = round(day(current(fleet.spec)).quantiles[1]) + 100
    service.save(fleet.spec, replace(PROPOSED, orders=more))
    content = json.loads(runner.invoke(app, ["schedule", file, "--json"]).stdout)
    [state] = content["weeks"]
    [change] = [each for each in content["changes"] if each["premium"] is not None]
    assert (state["state"], state["premium"]) == ("changed", change["premium"])
    last = runner.invoke(app, ["schedule", file]).stdout.splitlines()[-1]
    assert f"{THURSDAY}  A  from {change['before']['']} to {change['crews']['']}: saves" in last
    assert f"premium {change['premium']:.2f}" in last
    with pytest.raises(NoSuchRow, match=r"found no depot with a day from 2030-01-07 to 2030-01-13"):
        runner.invoke(app, ["schedule", file, "--publish", "2030-01-08"], catch_exceptions=False)


def test_run_reports_published_shifts_that_differ_from_the_declared_ones(fleet: Fleet) -> None:
    publish_week(fleet.spec)
    shifts = "  shifts: [{name: early, start: 06:00, end: 14:00, share: 1}]\n"
    fleet.file.write_text(fleet.file.read_text("utf-8") + shifts, "utf-8")
    publish_as_of(load(fleet.file), AS_OF)
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        [run] = ledger.runs(limit=1)
    assert "has the shifts whole day, and staffing.shifts declares early: the crews of these days change" in str(run)
