"""Crews set by hand: shown at once, kept by overrides, what-ifs and later runs, and released again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest

from forecaster.config import Spec, load
from forecaster.errors import DeskError, OverrideError
from forecaster.ledger import tables
from forecaster.ledger.publication import PublishedDay
from forecaster.ledger.store import Ledger
from forecaster.planning import accepted_crews, crew_settings, refresh, service
from forecaster.planning.scenario import Supposition
from forecaster.planning.what_if import Questions
from tests import fleets
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import PROPOSED, THURSDAY, current, day, publish_as_of, publish_nights

STAFFING = "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22, crew: {min: 1, max: 40}}\n"
SHIFTS = (
    "staffing: {orders_per_driver: 10, cost_short: 38, cost_idle: 22, shifts: [{name: early, start: 06:00, end: 14:00, "
    "share: 0.6}, {name: late, start: 14:00, end: 22:00, share: 0.4}]}\n"
)
CELL = ("A", THURSDAY)


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    return publish_nights(tmp_path / "fleet", fleets.counts("ABCD"), staffing=STAFFING)


def drivers(spec: Spec, depot_id: str = "A") -> int:
    crew = day(current(spec), depot_id).drivers
    assert crew is not None
    return crew


def set_to(spec: Spec, crew: int | Mapping[str, int]) -> PublishedDay:
    crew_settings.set_crew(spec, CELL, {"": crew} if isinstance(crew, int) else crew, by="Ana")
    return day(current(spec))


def test_crew_set_by_hand_is_shown_with_its_cost_and_the_possible_saving(fleet: Fleet) -> None:
    before, others = day(current(fleet.spec)), drivers(fleet.spec, "B")
    assert before.drivers is not None
    assert before.roster is not None
    after = set_to(fleet.spec, before.drivers + 3)
    assert after.roster is not None
    assert after.roster.left is not None
    assert (after.drivers, after.roster.by_hand) == (before.drivers + 3, True)
    assert after.roster.cost > before.roster.cost
    assert (after.roster.left.drivers, after.roster.left.by_hand) == (before.drivers, True)
    assert after.roster.left.saving == pytest.approx(after.roster.cost - before.roster.cost)
    assert drivers(fleet.spec, "B") == others
    crew_settings.leave_crew(fleet.spec, CELL)
    assert day(current(fleet.spec)) == before


def test_overrides_what_ifs_and_later_runs_keep_a_crew_set_by_hand(fleet: Fleet) -> None:
    crew = drivers(fleet.spec) + 3
    set_to(fleet.spec, crew)
    service.save(fleet.spec, replace(PROPOSED, orders=400))
    assert drivers(fleet.spec) == crew
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        told = refresh.told_crews(connection, fleet.spec.name, fleet.spec.staffing, THURSDAY)
    questions = Questions.of(fleet.spec.paths.folder, current(fleet.spec), told=told)
    assert questions.ask(Supposition("A", THURSDAY, "orders", 10)).after.drivers == crew
    publish_as_of(fleet.spec, AS_OF)
    assert drivers(fleet.spec) == crew
    shown = day(current(fleet.spec)).roster
    assert shown is not None
    assert shown.by_hand


def test_crews_of_single_shifts_can_be_set(tmp_path: Path) -> None:
    spec = publish_nights(tmp_path / "shifts", fleets.counts("ABCD"), staffing=SHIFTS).spec
    after = set_to(spec, {"early": 2, "late": 9})
    assert after.roster is not None
    assert (after.drivers, dict(after.roster.shifts)) == (11, {"early": 2, "late": 9})
    with pytest.raises(OverrideError, match="shift: found night, wanted one of early, late"):
        set_to(spec, {"night": 2})


def test_missing_vans_also_limit_a_crew_set_by_hand(tmp_path: Path) -> None:
    vans = STAFFING.replace("crew:", "vans: {total: 30}, crew:")
    spec = publish_nights(tmp_path / "vans", fleets.counts("ABCD"), staffing=vans).spec
    after = set_to(spec, 38)
    assert after.roster is not None
    assert after.drivers is not None
    assert after.drivers < 38
    assert after.roster.shortage is not None


@pytest.mark.parametrize(
    ("cell", "crew", "why"),
    [
        (CELL, 41, "drivers: found 41, wanted from 1 to 40 as staffing.crew allows"),
        (CELL, 0, "drivers: found 0, wanted from 1 to 40"),
        (("Z", THURSDAY), 3, "Z on 2024-04-11: wanted an open day ahead that is published with a crew"),
        (("A", date(2024, 4, 9)), 3, "A on 2024-04-09: wanted an open day ahead"),
    ],
)
def test_rejected_crew_changes_nothing(fleet: Fleet, cell: tuple[str, date], crew: int, why: str) -> None:
    before = current(load(fleet.file))
    with pytest.raises(OverrideError, match=why):
        crew_settings.set_crew(fleet.spec, cell, {"": crew}, by="Ana")
    assert current(fleet.spec) == before


def test_nothing_is_written_without_the_saved_inputs(fleet: Fleet) -> None:
    for file in fleet.spec.paths.saved_inputs.iterdir():
        file.unlink()
    with pytest.raises(DeskError):
        set_to(fleet.spec, 9)
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert accepted_crews.read_set(connection, fleet.spec.name, THURSDAY) == {}


def test_run_reports_set_crews_of_shifts_that_are_not_declared(fleet: Fleet) -> None:
    set_to(fleet.spec, drivers(fleet.spec) + 3)
    fleet.file.write_text(fleet.file.read_text("utf-8").replace(STAFFING, SHIFTS), "utf-8")
    publish_as_of(load(fleet.file), AS_OF)
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        [run] = ledger.runs(limit=1)
    reported = (
        "the crews set by hand for 1 depot-day have the shifts whole day, and staffing.shifts declares early, late"
    )
    assert reported in str(run)
    after = day(current(fleet.spec))
    assert after.roster is not None
    assert not after.roster.by_hand


def test_run_reports_decisions_at_depots_that_are_not_forecast(fleet: Fleet) -> None:
    set_to(fleet.spec, drivers(fleet.spec) + 3)
    service.save(fleet.spec, replace(PROPOSED, depot_id="B"))
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        for table in (tables.overrides, tables.accepted_crews):
            connection.execute(table.update().values(depot_id=table.c.depot_id + "-old"))
    publish_as_of(fleet.spec, AS_OF)
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger:
        [run] = ledger.runs(limit=1)
    assert "orders and crews set for days ahead at A-old, B-old have no effect" in str(run)
