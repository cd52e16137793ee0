"""A planner edits the week of a depot on the page: what the edits would do, saving them, undo, and who may."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from fastapi import FastAPI

from dashboards.ops.app import create_app
from forecaster.ledger import access as ledger_access
from forecaster.ledger.store import Ledger
from tests import fleets
from tests.dashboards.visitor import ask_locally
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import THURSDAY, publish_nights
from tests.planning.test_shift_edits import FRIDAY, STAFFING, shift_of

CHOICES = re.compile(r'<select name="([^"]+)" aria-label="([^"]+)">(.*?)</select>', re.DOTALL)
CHOSEN = re.compile(r'<option value="([^"]*)" selected>([^<]*)<')


@pytest.fixture
def fleet(tmp_path: Path) -> Fleet:
    named = [f"Ana,A,full-time,{FRIDAY},", "Bo,A,full-time,,late"]
    people = "\n".join(["person,depot_id,contract,first,not", *named, ""])
    return publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=STAFFING, people=people)


@pytest.fixture
def app(fleet: Fleet) -> FastAPI:
    return create_app(fleet.spec.ledger_url, pipeline=fleet.spec.name, clock=lambda: AS_OF, spec=fleet.spec)


def form(app: FastAPI, **changes: str) -> dict[str, str]:
    """The fields of the page as it is shown, with some choices changed, by their labels."""
    shown = ask_locally(app, "GET", "/shifts?depot=A").text
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', shown))
    fields = {name: CHOSEN.findall(options)[0][0] for name, _, options in CHOICES.findall(shown)}
    names = {label: name for name, label, _ in CHOICES.findall(shown)}
    return {**hidden, **fields, "by": "Mia", **{names[label]: value for label, value in changes.items()}}


def chosen(app: FastAPI, label: str) -> tuple[str, str]:
    shown = ask_locally(app, "GET", "/shifts?depot=A").text
    [options] = [options for _, each, options in CHOICES.findall(shown) if each == label]
    value, text = CHOSEN.findall(options)[0]
    return value, text


BO = "Bo, Thu 11 Apr"


def test_an_edit_is_shown_saved_and_undone(app: FastAPI, fleet: Fleet) -> None:
    link = '<a href="/shifts?depot=A">Edit this week</a>'
    assert link in ask_locally(app, "GET", "/depot/A").text
    assert chosen(app, BO) == ("-", "E")
    answer = ask_locally(app, "POST", "/shifts", data=form(app, **{BO: "."}))
    assert answer.status_code == 200
    assert "Bo, Thu 11 Apr: free instead of early" in answer.text
    assert re.search(r"The (expected cost of the )?week (stays|costs)", answer.text)
    assert shift_of(fleet.spec, "Bo") == "early"
    saved = ask_locally(app, "POST", "/shifts/edits", data=form(app, **{BO: "."}))
    assert (saved.status_code, saved.headers["location"]) == (303, "/shifts?depot=A&first=2024-04-10")
    assert shift_of(fleet.spec, "Bo") == ""
    assert chosen(app, BO) == (".", "free")
    assert ask_locally(app, "POST", "/shifts/undo", data=form(app)).status_code == 303
    assert chosen(app, BO) == ("-", "E")
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        audit = [row.what for row in reversed(ledger_access.entries(connection, fleet.spec.name))]
    assert len(audit) == 2
    assert all(what.startswith("edited the week of A: ") for what in audit)


def test_a_swap_is_two_choices_of_one_form(app: FastAPI, fleet: Fleet) -> None:
    early, late = (
        next(f"full-time {n}" for n in range(1, 10) if shift_of(fleet.spec, f"full-time {n}") == shift)
        for shift in ("early", "late")
    )
    changes = {f"{early}, Thu 11 Apr": "late", f"{late}, Thu 11 Apr": "early"}
    assert ask_locally(app, "POST", "/shifts/edits", data=form(app, **changes)).status_code == 303
    assert (shift_of(fleet.spec, early), shift_of(fleet.spec, late)) == ("late", "early")


def test_a_forbidden_edit_is_refused_beside_the_choices(app: FastAPI, fleet: Fleet) -> None:
    sent = form(app, **{"Ana, Fri 12 Apr": "early"})
    for address in ("/shifts", "/shifts/edits"):
        answer = ask_locally(app, "POST", address, data=sent)
        assert answer.status_code == 422
        assert "Ana on 2024-04-12: found early, which a day off forbids (full-time)" in answer.text
        assert '<option value="early" selected>E</option>' in answer.text
    stale = ask_locally(app, "POST", "/shifts/edits", data={**form(app, **{BO: "."}), "publication": "1"})
    assert "another publication is shown meanwhile" in stale.text
    assert shift_of(fleet.spec, "Bo") == "early"


def test_an_open_shift_leads_to_those_who_could_take_it(app: FastAPI, fleet: Fleet) -> None:
    everybody = {f"full-time {n}, Thu 11 Apr": "." for n in range(1, 10)}
    ask_locally(app, "POST", "/shifts/edits", data=form(app, **everybody))
    shown = ask_locally(app, "GET", "/shifts?depot=A").text
    [address] = re.findall(r'href="(/shifts\?depot=A[^"]*day=2024-04-11[^"]*shift=late#candidates)"', shown)
    ranked = ask_locally(app, "GET", address.replace("&amp;", "&").partition("#")[0]).text
    assert re.search(r"<li>full-time \d: the week costs \d+ less</li>", ranked)


def test_edits_come_as_json_too(app: FastAPI, fleet: Fleet) -> None:
    edits = {"depot_id": "A", "edits": [{"person": "Bo", "target_date": str(THURSDAY), "shift": ""}], "by": "Mia"}
    tried = ask_locally(app, "POST", "/api/v1/shifts/edits", json=edits)
    assert tried.status_code == 200
    moves = {move["person"]: (move["before"], move["after"]) for move in tried.json()["moves"]}
    assert moves["Bo"] == ("early", "")
    assert shift_of(fleet.spec, "Bo") == "early"
    saved = ask_locally(app, "POST", "/api/v1/shifts/edits", json={**edits, "save": True})
    assert saved.json() == tried.json()
    assert shift_of(fleet.spec, "Bo") == ""
    late = {**edits, "edits": [{**edits["edits"][0], "shift": "late"}]}
    refused = ask_locally(app, "POST", "/api/v1/shifts/edits", json=late)
    assert (refused.status_code, "Bo on 2024-04-11: found late, which" in refused.text) == (422, True)
    assert ask_locally(app, "POST", "/api/v1/shifts/edits", json={**edits, "depot_id": "Z"}).status_code == 404
    assert ask_locally(app, "POST", "/api/v1/shifts/edits", json={"depot_id": "A", "edits": []}).status_code == 422


def test_a_depot_without_people_has_no_such_page(app: FastAPI, fleet: Fleet) -> None:
    assert ask_locally(app, "GET", "/shifts?depot=Z").status_code == 404
    assert str(THURSDAY) in ask_locally(app, "GET", "/shifts?depot=B").text


def test_who_had_weekend_and_late_shifts_is_shown_where_they_are_spread(tmp_path: Path, app: FastAPI) -> None:
    title = "Weekend and late shifts, and declined wishes, of the last eight weeks"
    assert title not in ask_locally(app, "GET", "/depot/A").text
    staffing = STAFFING.replace("staffing: {", "staffing: {spread_weight: 5, ")
    spread = publish_nights(
        tmp_path / "spread", fleets.counts("AB"), staffing=staffing, people="person,depot_id,contract,first,not\n"
    )
    page = create_app(spread.spec.ledger_url, pipeline=spread.spec.name, clock=lambda: AS_OF, spec=spread.spec)
    shown = ask_locally(page, "GET", "/depot/A").text
    assert title in shown
    number = r'<td class="n">(\d)</td>'
    rows = re.findall(rf'<tr><th scope="row">full-time \d</th>{number}{number}<td class="n">0</td></tr>', shown)
    assert sum(int(late) for _, late in rows) > 0  # the first night's late shifts
