"""Nightly runs that plan people: each builds on the one before, and an override replans the
affected depots."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.ledger import plan_rows
from forecaster.ledger.store import Ledger
from forecaster.ledger.week_plan import WeekPlan
from forecaster.planning import service
from tests import fleets
from tests.dashboards.visitor import text, visitor
from tests.fleets import AS_OF
from tests.planning.nights import PROPOSED, THURSDAY, current, day, publish_nights

STAFFING = (
    "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22, change_cost: 57, "
    "people_table: {source: {kind: csv, path: people.csv}, columns: {off_from: first, off_to: last}}, "
    "people: [{name: full-time, per_depot: 11}], shifts: [{name: early, start: 06:00, end: 14:00, share: 0.6}, "
    "{name: late, start: 14:00, end: 22:00, share: 0.4}]}\n"
)


@pytest.fixture(scope="module")
def nights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pipeline file of a fleet that plans people, with two published nights."""
    folder = tmp_path_factory.mktemp("people")
    named = [f"Ana,A,full-time,{THURSDAY},{THURSDAY}", "Bo,B,full-time,,", "Secret Sam,A,half-time,,"]
    people = "\n".join(["person,depot_id,contract,first,last", *named, ""])
    return publish_nights(folder, fleets.counts("ABCD"), staffing=STAFFING, people=people).file


def plans(file: Path) -> dict[str, WeekPlan]:
    return {plan.depot_id: plan for plan in current(load(file)).plans}


def test_crew_of_a_day_is_the_sum_of_its_planned_shifts(nights: Path) -> None:
    publication = current(load(nights))
    for depot in publication.depots:
        plan = plans(nights)[depot.depot_id]
        for published in depot.days:
            assert published.roster is not None
            crews = dict(published.roster.shifts)
            assert sum(crews.values()) == published.drivers
            assert {c.shift: c.wanted for c in plan.shifts if c.date == published.target_date} == crews


def test_second_run_knows_the_shifts_planned_by_the_first(nights: Path) -> None:
    publication = current(load(nights))
    yesterday = publication.cutoff
    for plan in publication.plans:
        assert any(duty.date == yesterday for person in plan.positions for duty in person.before)
        assert all(duty.date <= yesterday for person in plan.positions for duty in person.before)


def test_override_replans_only_its_depot(nights: Path) -> None:
    spec = load(nights)
    before = plans(nights)
    saved = service.save(spec, PROPOSED)
    after = plans(nights)
    assert (saved.revised.trouble, saved.revised.remark) == (None, None)
    roster = day(current(spec)).roster
    assert roster is not None
    wanted = {cover.shift: cover.wanted for cover in after["A"].shifts if cover.date == THURSDAY}
    assert wanted == dict(roster.shifts) == {"early": 6, "late": 4}
    assert {depot: plan for depot, plan in after.items() if depot != "A"} == {
        depot: plan for depot, plan in before.items() if depot != "A"
    }
    published = {duty.since for person in before["A"].positions for duty in person.duties}
    changed = [duty for person in after["A"].positions for duty in person.duties if duty.since not in published]
    assert any(duty.date == THURSDAY for duty in changed)
    service.withdraw(spec, saved.override.id, by="Ana")
    assert {c.shift: c.wanted for c in plans(nights)["A"].shifts} == {c.shift: c.wanted for c in before["A"].shifts}
    assert all(duty.since.utcoffset() == timedelta(0) for duty in changed)


def test_small_override_leaves_shifts_and_people_unchanged(nights: Path) -> None:
    spec, published = load(nights), day(current(load(nights)), "B")
    before = plans(nights)["B"]
    orders = round(published.quantiles[current(spec).levels.index(0.5)]) + 4  # less than half a driver
    service.save(spec, replace(PROPOSED, depot_id="B", orders=orders))
    shown = day(current(spec), "B")
    assert shown.roster is not None
    assert published.roster is not None
    assert shown.roster.shifts == published.roster.shifts
    assert shown.roster.left is not None
    assert dict(shown.roster.left.shifts) != dict(shown.roster.shifts)
    after = plans(nights)["B"]
    assert [(person.name, person.duties) for person in after.positions] == [
        (person.name, person.duties) for person in before.positions
    ]


def test_named_people_keep_their_days_off_when_an_override_replans(nights: Path) -> None:
    spec = load(nights)
    saved = service.save(spec, PROPOSED)
    ana = plans(nights)["A"].positions[0]
    assert (ana.name, ana.days_off) == ("Ana", (THURSDAY,))
    assert ana.duties
    assert THURSDAY not in {duty.date for duty in ana.duties}
    assert plans(nights)["B"].positions[0].name == "Bo"
    service.withdraw(spec, saved.override.id, by="Ana")


def test_rejected_row_of_people_is_a_finding_without_the_name(nights: Path) -> None:
    spec = load(nights)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        run = ledger.runs()[0]
    [finding] = [finding for finding in run.findings if finding["rule"] == "person_form"]
    assert "people.csv:4: column 'contract': found 'half-time'" in finding["message"]
    assert "Sam" not in str(run)


def test_names_are_removed_after_their_retention(nights: Path) -> None:
    spec = load(nights)

    def forget(before: datetime) -> int:
        with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
            return plan_rows.forget_names(connection, spec.name, before)

    assert forget(AS_OF) == 2  # of the night before
    assert plans(nights)["A"].positions[0].name == "Ana"
    assert forget(AS_OF + timedelta(days=60)) == 2
    assert forget(AS_OF + timedelta(days=60)) == 0
    assert plans(nights)["A"].positions[0].name == "full-time, 1"


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, with two people per depot for crews of six and more."""
    folder, staffing = tmp_path_factory.mktemp("few"), STAFFING.replace("per_depot: 11", "per_depot: 2")
    head = "person,depot_id,contract,first,last\n"
    return publish_nights(folder, fleets.counts("ABCD"), staffing=staffing, people=head).file


def _coming(plan: WeekPlan) -> tuple[int, int]:
    """Attending drivers on Thursday by the plan, and missing ones."""
    covers = [cover for cover in plan.shifts if cover.date == THURSDAY]
    planned = sum(cover.planned for cover in covers)
    return planned, sum(cover.wanted for cover in covers) - planned


def test_page_wall_and_api_show_attending_drivers(few: Path) -> None:
    """Checked after publication, after an override, and after its withdrawal."""
    spec = load(few)
    for step in ("night", "override", "withdrawal"):
        if step == "override":
            saved = service.save(spec, PROPOSED)
        elif step == "withdrawal":
            service.withdraw(spec, saved.override.id, by="Ana")
        coming, missing = _coming(plans(few)["A"])
        published = day(current(spec))
        assert published.roster is not None
        assert (published.drivers, published.roster.missing_drivers) == (coming, missing), step
        assert missing > 0
        assert published.roster.chance_short > 0.9
        get = visitor(spec.ledger_url, AS_OF, spec.name)
        cause = f"{missing} of {coming + missing} drivers missing: the plan of the week has nobody for them"
        page = text(get("/depot/A"))
        assert cause in page
        assert "more than 99 chances in 100 of being short" in page
        assert "less than 1 chance in 100" not in page
        rows = [row for row in get("/api/v1/rosters").json()["rows"] if row["depot_id"] == "A"]
        [row] = [row for row in rows if row["target_date"] == str(THURSDAY)]
        assert (row["drivers"], row["why"].split(";")[0]) == (coming, cause.split(";")[0])
        assert f"left at {coming} " not in row["why"]  # it states the crew that stays, not its attendance
        for cover in (cover for cover in plans(few)["A"].shifts if cover.date == THURSDAY):
            assert f">{cover.planned}/{cover.wanted}<" in get("/depot/A").text
        tomorrow = {depot.depot_id: depot.days[1].drivers for depot in current(spec).depots}
        assert f"{sum(number or 0 for number in tomorrow.values())} driver" in text(get("/wall"))
