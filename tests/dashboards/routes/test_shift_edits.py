"""A planner edits a depot's week on the page: preview, saving, undo, and permissions."""

from __future__ import annotations

import io
import re
from datetime import date
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from python_calamine import CalamineWorkbook

from dashboards.ops.app import create_app
from dashboards.ops.views.board.board_upload import day_of
from dashboards.ops.views.shifts.week_upload import changed_shifts
from forecaster.ledger import access as ledger_access
from forecaster.ledger.store import Ledger
from tests import fleets
from tests.dashboards.routes.test_week_file import LIBREOFFICE, through_libreoffice, workbook
from tests.dashboards.visitor import ask_locally, text
from tests.fleets import AS_OF, Fleet
from tests.planning.nights import THURSDAY, publish_nights
from tests.planning.test_shift_edits import FRIDAY, STAFFING, plan, shift_of

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
    """Return the fields of the shown page, with some choices changed, by their labels."""
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


def test_an_edit_is_previewed_saved_and_undone(app: FastAPI, fleet: Fleet) -> None:
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


def test_a_forbidden_edit_is_rejected_next_to_the_choices(app: FastAPI, fleet: Fleet) -> None:
    sent = form(app, **{"Ana, Fri 12 Apr": "early"})
    for address in ("/shifts", "/shifts/edits"):
        answer = ask_locally(app, "POST", address, data=sent)
        assert answer.status_code == 422
        assert "Ana on 2024-04-12: found early, which a day off forbids (full-time)" in answer.text
        assert '<option value="early" selected>E</option>' in answer.text
    stale = ask_locally(app, "POST", "/shifts/edits", data={**form(app, **{BO: "."}), "publication": "1"})
    assert "another publication is shown meanwhile" in stale.text
    assert shift_of(fleet.spec, "Bo") == "early"


def test_an_open_shift_links_to_its_candidates(app: FastAPI, fleet: Fleet) -> None:
    everybody = {f"full-time {n}, Thu 11 Apr": "." for n in range(1, 10)}
    ask_locally(app, "POST", "/shifts/edits", data=form(app, **everybody))
    shown = ask_locally(app, "GET", "/shifts?depot=A").text
    [address] = re.findall(r'href="(/shifts\?depot=A[^"]*day=2024-04-11[^"]*shift=late#candidates)"', shown)
    ranked = ask_locally(app, "GET", address.replace("&amp;", "&").partition("#")[0]).text
    assert re.search(r"<li>full-time \d: the week costs \d+ less</li>", ranked)


def test_accepts_edits_as_json(app: FastAPI, fleet: Fleet) -> None:
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


def week_sheets(app: FastAPI) -> dict[str, list[list[Any]]]:
    answer = ask_locally(app, "GET", "/roster?depot=A&format=xlsx")
    book = CalamineWorkbook.from_filelike(io.BytesIO(answer.content))
    return {name: book.get_sheet_by_name(name).to_python() for name in book.sheet_names}


def sent_file(app: FastAPI, content: bytes, depot: str = "A") -> httpx.Response:
    return ask_locally(app, "POST", "/shifts/file", data={"depot": depot}, files={"file": ("week.xlsx", content)})


def cell_of(sheets: dict[str, list[list[Any]]], person: str, on: date) -> tuple[int, int]:
    """Return line and column of a person's day on the sheet of the week."""
    rows = sheets["Week"]
    line = next(line for line, row in enumerate(rows) if row[1] == person)
    return line, next(column for column, cell in enumerate(rows[0]) if isinstance(cell, date) and day_of(cell) == on)


def test_shifts_changed_in_the_workbook_are_read_and_saved(app: FastAPI, fleet: Fleet) -> None:
    sheets = week_sheets(app)
    assert "The file changes nothing." in sent_file(app, workbook(sheets)).text
    line, column = cell_of(sheets, "Bo", THURSDAY)
    sheets["Week"][line][column] = ""
    shown = sent_file(app, workbook(sheets))
    assert shown.status_code == 200
    assert "Bo, Thu 11 Apr: free instead of early" in text(shown)
    assert shift_of(fleet.spec, "Bo") == "early"
    hidden = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', shown.text))
    chosen_fields = {name: CHOSEN.findall(options)[0][0] for name, _, options in CHOICES.findall(shown.text)}
    assert {name.partition(".")[2] for name in chosen_fields} == {str(THURSDAY)}
    saved = ask_locally(app, "POST", "/shifts/edits", data={**hidden, **chosen_fields, "by": "Mia"})
    assert saved.status_code == 303
    assert shift_of(fleet.spec, "Bo") == ""


def test_names_invalid_cells_and_shows_no_others(app: FastAPI) -> None:
    sheets = week_sheets(app)
    line, column = cell_of(sheets, "Bo", THURSDAY)
    sheets["Week"][line][column] = "night"
    sheets["Week"][line + 1][1] = "Nobody"
    answer = sent_file(app, workbook(sheets))
    assert answer.status_code == 422
    place = f"Week!{chr(65 + column)}{line + 1}"
    assert f"{place}: found 'night', wanted one of early, late, or nothing" in text(answer)
    assert f"Week!B{line + 2}: found 'Nobody', wanted a person of the plan, once" in text(answer)
    assert "wanted changes of people of B alone" in text(sent_file(app, changed_week(app), "B"))
    assert sent_file(app, b"no workbook").status_code == 422
    assert sent_file(app, workbook({"Week": [["depot"]]})).status_code == 422
    assert (
        sent_file(app, workbook({"Week": [["depot"]], "Published": [["A", "Bo", "soon", "early"]]})).status_code == 422
    )


def test_names_changed_cells_that_are_no_shift_of_a_person(app: FastAPI) -> None:
    sheets = week_sheets(app)
    rows = sheets["Week"]
    line, column = cell_of(sheets, "Bo", THURSDAY)
    rows[line][column] = ""
    drivers, last = next(line for line, row in enumerate(rows) if row[1] == "late: planned of wanted"), len(rows[0])
    rows[drivers][column] = "2 of 50"
    for row in rows:
        row.append("")
    rows[line][last] = "called in sick"
    answer = sent_file(app, workbook(sheets))
    assert answer.status_code == 422
    place, beside = f"Week!{chr(65 + column)}{drivers + 1}", f"Week!{chr(65 + last)}{line + 1}"
    assert f"{place}: found '2 of 50', wanted changes of people of A alone" in text(answer)
    assert f"{beside}: found 'called in sick', wanted nothing, as the column has no day" in text(answer)


def changed_week(app: FastAPI) -> bytes:
    sheets = week_sheets(app)
    line, column = cell_of(sheets, "Bo", THURSDAY)
    sheets["Week"][line][column] = "off"
    return workbook(sheets)


@pytest.mark.skipif(LIBREOFFICE is None, reason="LibreOffice is not installed (Debian: libreoffice-calc)")
def test_reads_every_shift_correctly_after_libreoffice(app: FastAPI, fleet: Fleet, tmp_path: Path) -> None:
    sheets, wanted = week_sheets(app), dict[tuple[str, date], str]()
    people = [who for who in plan(fleet.spec).positions if who.name != "Ana"]
    days = [day_of(cell) for cell in sheets["Week"][0][2:]]
    for place, (who, on) in enumerate(product(people, days)):
        line, column = cell_of(sheets, who.name, on)
        before = str(sheets["Week"][line][column])
        typed = [shift for shift in ("early", "late", "") if shift != before][place % 2]
        sheets["Week"][line][column], wanted[who.name, on] = typed, typed
    edits = changed_shifts(through_libreoffice(workbook(sheets), tmp_path), plan(fleet.spec), ["early", "late"])
    assert {(edit.person, edit.target_date): edit.shift for edit in edits} == wanted
    assert len(wanted) >= 24


def test_a_depot_without_people_has_no_edit_page(app: FastAPI, fleet: Fleet) -> None:
    assert ask_locally(app, "GET", "/shifts?depot=Z").status_code == 404
    assert str(THURSDAY) in ask_locally(app, "GET", "/shifts?depot=B").text


def test_shows_weekend_and_late_shifts_per_person_if_burdens_are_balanced(tmp_path: Path, app: FastAPI) -> None:
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
    assert sum(int(late) for _, late in rows) > 0  # late shifts of the first run
