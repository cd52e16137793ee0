"""A person is forgotten: no state file contains the name, and other people keep theirs."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.config import Spec
from forecaster.ledger import access, plan_rows
from forecaster.ledger.access import AuditEntry, Link
from forecaster.ledger.store import Ledger
from forecaster.planning.people import person_days, shift_edits
from forecaster.planning.people.person_days import PersonDay
from forecaster.planning.people.shift_edits import ShiftEdit
from tests import fleets
from tests.calls import Call
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import DAY, THURSDAY, current, publish_as_of, publish_nights
from tests.planning.test_shift_edits import STAFFING

NAME = "Zoë Quatremain-Odd"


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    people = f"person,depot_id,contract,first,not\n{NAME},A,full-time,,\nBo,A,full-time,,late\n{NAME},B,full-time,,\n"
    return publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=STAFFING, people=people)


def hold_the_name(spec: Spec, until: datetime) -> None:
    link = Link("4f1c", spec.name, "person", None, until - DAY, "vic", until, depot_id="A", person=NAME)
    entry = AuditEntry(
        until, spec.name, "vic", "planner", "::1", "POST", "/week", f"moved {NAME} of A, {NAME}son stays"
    )
    answer = PersonDay("A", THURSDAY, NAME, "early", "declined", NAME, until)
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        access.make_link(connection, link)
        access.note(connection, entry)
        person_days.write(connection, spec.name, [answer])


def holders(folder: Path, name: str = NAME) -> set[str]:
    """State files that contain the name, as text or in JSON."""
    words = (name.encode(), name.encode("ascii", "backslashreplace").replace(b"\\xeb", b"\\u00eb"))
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.name for path in files if any(word in path.read_bytes() for word in words)}


def test_forget_removes_a_person_everywhere_and_names_remaining_copies(call: Call, fleet: Fleet) -> None:
    spec = fleet.spec
    hold_the_name(spec, datetime(2024, 6, 1, tzinfo=UTC))
    assert holders(spec.paths.folder) in ({"ledger.db"}, {"ledger.db", "ledger.db-wal"})
    code, out, _ = call("forget", fleet.file, NAME, "--depot", "A")
    assert code == 0
    assert f"removed '{NAME}' from plans of the week (2), days set or answered (1), links (1), sentences of" in out
    assert "the people table of your own" in out
    assert "backups: until you delete them" in out
    names = {plan.depot_id: [who.name for who in plan.positions][:3] for plan in current(spec).plans[:2]}
    assert names == {"A": ["full-time, 1", "Bo", "full-time 1"], "B": [NAME, "full-time 1", "full-time 2"]}
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert access.links(connection, spec.name) == ()
        sentences = [entry.what for entry in access.entries(connection, spec.name)]
    assert sentences == ["forgot a person of A", f"moved [a person who is forgotten] of A, {NAME}son stays"]
    assert call("forget", fleet.file, NAME, "--depot", "A")[0] == 2
    shift_edits.save(spec, "A", [ShiftEdit("Bo", THURSDAY, "")], by="vic")  # the week is replanned without them
    assert [who.name for who in current(spec).plans[0].positions][:2] == ["Bo", "full-time 1"]


def test_no_state_file_contains_the_forgotten_name(call: Call, fleet: Fleet) -> None:
    hold_the_name(fleet.spec, datetime(2024, 6, 1, tzinfo=UTC))
    publish_as_of(fleet.spec, AS_OF)
    for depot in "AB":
        assert call("forget", fleet.file, NAME, "--depot", depot)[0] == 0
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        connection.exec_driver_sql("pragma secure_delete=on")
        connection.exec_driver_sql("delete from audit")  # its sentence contains a longer name
    assert holders(fleet.spec.paths.folder) == set()


def test_people_table_reintroduces_a_forgotten_person(call: Call, fleet: Fleet) -> None:
    assert call("forget", fleet.file, NAME, "--depot", "A")[0] == 0
    publish_as_of(fleet.spec, AS_OF)
    assert current(fleet.spec).plans[0].positions[0].name == NAME


def test_retention_also_deletes_old_answers_and_expired_links(fleet: Fleet) -> None:
    hold_the_name(fleet.spec, datetime(2024, 6, 1, tzinfo=UTC))
    with Ledger.open(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        for before, days, links in ((date(2024, 4, 11), 1, 1), (date(2024, 4, 12), 0, 1), (date(2024, 6, 2), 0, 0)):
            plan_rows.forget_names(connection, fleet.spec.name, datetime(*before.timetuple()[:3], tzinfo=UTC))
            rows = person_days.read_answers(connection, fleet.spec.name, THURSDAY - timedelta(days=9), "A")
            assert (len(rows), len(access.links(connection, fleet.spec.name))) == (days, links)
