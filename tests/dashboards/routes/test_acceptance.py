"""Planners accept published crews of their visible depots, and each change is audited."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from dashboards.ops.app import create_app
from forecaster.config import Spec, load
from forecaster.ledger import access as ledger_access
from forecaster.ledger.store import Ledger
from forecaster.planning.accepted_crews import read_accepted
from tests import fleets
from tests.dashboards.guests import SECRET, declared, house, signed_in
from tests.dashboards.seed import NOON, depot, fill, publication
from tests.dashboards.visitor import ask_locally
from tests.fleets import AS_OF
from tests.planning.nights import THURSDAY, current, day, publish_nights
from tests.planning.test_crew_settings import STAFFING

DAY = depot(0).days[1]  # Wednesday, 18 June
CREW = {"depot_id": "BOS-01", "target_date": "2025-06-18", "drivers": str(DAY.drivers)}
CELL = {"depot_id": "BOS-01", "target_date": "2025-06-18"}


@pytest.fixture
def spec(tmp_path: Path, url: str) -> Spec:
    file = tmp_path / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n", "utf-8")
    fill(url, publication(3))
    return load(file)


@pytest.fixture
def app(url: str, spec: Spec) -> FastAPI:
    return create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)


def accepted(url: str) -> tuple[dict[tuple[str, date], int], list[str]]:
    """Return the accepted crews, and the sentences of the audit, oldest first."""
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        rows = ledger_access.entries(connection, "harbor-fleet")
        return read_accepted(connection, "harbor-fleet", DAY.target_date), [row.what for row in reversed(rows)]


def test_accepting_and_withdrawing_a_crew_redirect_to_the_day(app: FastAPI, url: str) -> None:
    for _ in range(2):
        answer = ask_locally(app, "POST", "/accepted", data=CREW)
        assert (answer.status_code, answer.headers.get("location")) == (303, "/day/2025-06-18/BOS-01")
    said = [f"accepted a crew of {DAY.drivers} for BOS-01 on 2025-06-18"]
    assert accepted(url) == ({("BOS-01", DAY.target_date): DAY.drivers}, said)
    answer = ask_locally(app, "POST", "/accepted/withdrawal", data=CELL)
    assert (answer.status_code, answer.headers.get("location")) == (303, "/day/2025-06-18/BOS-01")
    assert accepted(url) == ({}, [*said, "withdrew the acceptance of BOS-01 on 2025-06-18"])
    assert ask_locally(app, "POST", "/accepted/withdrawal", data=CELL).status_code == 422


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"drivers": "99"}, f"found 99, wanted the published crew of BOS-01 on 2025-06-18, which is {DAY.drivers}"),
        ({"target_date": "2025-06-19"}, "wanted the published crew of BOS-01 on 2025-06-19, which is –"),
        ({"target_date": "2026-06-19"}, "wanted the published crew of BOS-01 on 2026-06-19, which is –"),
        ({"drivers": "many"}, "found 'many', input should be a valid integer"),
        ({"by": "\x1b[31m"}, "found '\\x1b[31m', wanted letters"),
        ({"extra": "1"}, "found '1', extra inputs are not permitted"),
    ],
)
def test_rejects_unpublished_crews(app: FastAPI, url: str, wrong: Mapping[str, Any], sentence: str) -> None:
    answer = ask_locally(app, "POST", "/accepted", data={**CREW, **wrong}, headers={"accept": "application/json"})
    assert (answer.status_code, sentence in answer.text.replace("&#39;", "'")) == (422, True), answer.text
    assert accepted(url) == ({}, [])


def test_rejects_an_unknown_depot(app: FastAPI) -> None:
    assert ask_locally(app, "POST", "/accepted", data={**CREW, "depot_id": "X"}).status_code == 404


def test_planners_accept_only_in_their_city_and_readers_nowhere(
    url: str, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    app = house(url, declared(roles={"planner": ["paula"]}, cities={"paula": ["New York"], "vic": ["*"]}), spec=spec)
    paula, vic = signed_in(app, "paula"), signed_in(app, "vic")
    crew = depot(1).days[1].drivers
    assert vic.writes("/accepted", data=CREW).status_code == 403
    for path, body in (("/accepted", CREW), ("/accepted/withdrawal", CELL)):
        assert paula.writes(path, data=body).status_code == 404  # as if the depot did not exist
    assert paula("/accepted", "POST", data=CREW).status_code == 403  # without a token of our pages
    assert accepted(url) == ({}, [])
    own = {"depot_id": "NYC-01", "target_date": "2025-06-18", "drivers": str(crew), "by": "somebody else"}
    assert paula.writes("/accepted", data=own).status_code == 303
    assert accepted(url)[0] == {("NYC-01", DAY.target_date): crew}
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        [row] = ledger_access.entries(connection, "harbor-fleet")
    assert (row.who, row.role, row.path) == ("paula", "planner", "/accepted")


def test_a_page_without_a_pipeline_file_accepts_nothing(url: str, spec: Spec) -> None:
    reading = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON)
    assert ask_locally(reading, "POST", "/accepted", data=CREW).status_code == 404


def test_the_form_also_sets_another_crew_and_resets_it(tmp_path: Path) -> None:
    fleet = publish_nights(tmp_path / "fleet", fleets.counts("ABCD"), staffing=STAFFING)
    app = create_app(fleet.spec.ledger_url, pipeline=fleet.spec.name, clock=lambda: AS_OF, spec=fleet.spec)
    address, cell = f"/day/{THURSDAY}/A", {"depot_id": "A", "target_date": THURSDAY.isoformat()}
    crew = day(current(fleet.spec)).drivers
    assert crew is not None
    assert f'name="crew." type="number" min="0" max="10000" value="{crew}"' in ask_locally(app, "GET", address).text
    form = {**cell, "drivers": str(crew), "by": "Ana", "crew.": str(crew + 2), "set": "1"}
    answer = ask_locally(app, "POST", "/accepted", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, address)
    shown = ask_locally(app, "GET", address).text
    assert "A planner set this crew." in shown
    assert f"set to {crew + 2} by a planner: {crew} would save" in shown
    # the crew that the planner saw has changed
    assert ask_locally(app, "POST", "/accepted", data=form).status_code == 422
    assert ask_locally(app, "POST", "/accepted/withdrawal", data=cell).status_code == 303
    assert day(current(fleet.spec)).drivers == crew
    # a crew is set even without the name of its button
    assert ask_locally(app, "POST", "/accepted", data={**form, "crew.": str(crew + 1), "set": ""}).status_code == 303
    assert day(current(fleet.spec)).drivers == crew + 1
    assert ask_locally(app, "POST", "/accepted/withdrawal", data=cell).status_code == 303
    many = ask_locally(app, "POST", "/accepted", data={**form, "crew.": "41"})
    assert (many.status_code, "wanted from 1 to 40 as staffing.crew allows" in many.text) == (422, True)
    with Ledger.open_reader(fleet.spec.ledger_url) as ledger, ledger.transaction() as connection:
        audit = [row.what for row in reversed(ledger_access.entries(connection, fleet.spec.name))]
    assert audit == [
        f"set the crew of A on {THURSDAY} to {crew + 2}",
        f"withdrew the acceptance of A on {THURSDAY}",
        f"set the crew of A on {THURSDAY} to {crew + 1}",
        f"withdrew the acceptance of A on {THURSDAY}",
    ]
