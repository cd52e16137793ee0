"""A planner publishes a week on the page, and everyone sees its state; without a notice period
there is no such page."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from fastapi import FastAPI

from dashboards.ops.app import create_app
from forecaster.config import Spec, load
from forecaster.ledger import access as ledger_access
from forecaster.ledger.store import Ledger
from forecaster.planning import schedules
from tests.dashboards.guests import SECRET, declared, house, signed_in
from tests.dashboards.seed import NOON, fill, publication
from tests.dashboards.visitor import ask_locally

STAFFING = "staffing: {orders_per_driver: 45, cost_short: 38, cost_idle: 22, currency: USD"
NOTICE = f"{STAFFING}, notice_days: 6, change_premium: [{{added: 15, removed: 45}}]}}\n"
MONDAY = date(2025, 6, 16)


def declare(folder: Path, url: str, staffing: str) -> Spec:
    file = folder / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n{staffing}", "utf-8")
    return load(file)


@pytest.fixture
def spec(tmp_path: Path, url: str) -> Spec:
    fill(url, publication(3))
    return declare(tmp_path, url, NOTICE)


@pytest.fixture
def app(url: str, spec: Spec) -> FastAPI:
    return create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)


def form(url: str, **changes: str) -> dict[str, str]:
    with Ledger.open_reader(url) as ledger:
        head = ledger.current("harbor-fleet")
        assert head is not None
    return {"week": MONDAY.isoformat(), "publication": str(head.publication_id), "by": "Ana", **changes}


def audited(url: str) -> list[str]:
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        return [row.what for row in reversed(ledger_access.entries(connection, "harbor-fleet"))]


def test_a_week_is_published_once_and_every_page_shows_it(app: FastAPI, url: str) -> None:
    assert "Mon 23 Jun: draft" in ask_locally(app, "GET", "/").text
    before = ask_locally(app, "GET", "/api/v1/schedule").json()
    assert [week["state"] for week in before["weeks"]] == ["draft", "draft"]
    for _ in range(2):
        answer = ask_locally(app, "POST", "/schedule", data=form(url))
        assert (answer.status_code, answer.headers.get("location")) == (303, "/schedule")
    assert audited(url) == ["published the week of 2025-06-16: 18 depot-days"]
    weeks = ask_locally(app, "GET", "/api/v1/schedule").json()["weeks"]
    assert [(week["state"], week["days"], week["drafts"], week["depots"]) for week in weeks] == [
        ("published", 18, 0, 3),
        ("draft", 0, 3, 0),
    ]
    for address in ("/", "/schedule"):
        assert "by Ana, to 3 depots" in ask_locally(app, "GET", address).text
    assert "Nothing has changed since it was published." in ask_locally(app, "GET", "/schedule").text


def test_a_change_is_shown_with_its_saving_and_premium(app: FastAPI, url: str, spec: Spec) -> None:
    ask_locally(app, "POST", "/schedule", data=form(url))
    assert spec.staffing is not None
    with Ledger.open_reader(url) as reader:
        head = reader.current("harbor-fleet")
        assert head is not None
        shown = reader.whole(head)
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        depot, at = shown.depots[0], datetime.now(UTC)
        day = depot.days[1]
        assert day.drivers is not None
        more = replace(day, drivers=day.drivers + 2)
        changed = replace(depot, days=(depot.days[0], more, *depot.days[2:]))
        after = replace(shown, depots=(changed, *shown.depots[1:]))
        assert schedules.record_changes(connection, after, spec.staffing, noticed=NOON, at=at) == 1
    page = ask_locally(app, "GET", "/schedule").text
    assert f"from {day.drivers} to {day.drivers + 2} drivers: saves" in page
    assert "premium $30.00" in page
    assert "2 changes since, premiums $30.00" in ask_locally(app, "GET", "/").text


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"publication": "99"}, "nother publication is shown meanwhile"),
        ({"week": "2025-06-17"}, "ound 2025-06-17, wanted one of 2025-06-16, 2025-06-23"),
        ({"week": "2025-06-09"}, "ound 2025-06-09, wanted one of 2025-06-16, 2025-06-23"),
        ({"week": "next"}, "wanted a day such as 2025-06-18"),
        ({"by": "\x1b[31m"}, "wanted letters"),
    ],
)
def test_rejects_invalid_forms(app: FastAPI, url: str, wrong: dict[str, str], sentence: str) -> None:
    answer = ask_locally(app, "POST", "/schedule", data=form(url, **wrong))
    assert (answer.status_code, sentence in answer.text) == (422, True), answer.text
    assert audited(url) == []


def test_planners_publish_only_their_own_cities_and_readers_nothing(
    url: str, spec: Spec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    app = house(url, declared(roles={"planner": ["paula"]}, cities={"paula": ["New York"], "vic": ["*"]}), spec=spec)
    paula, vic = signed_in(app, "paula"), signed_in(app, "vic")
    body = {name: value for name, value in form(url).items() if name != "by"}
    assert vic.writes("/schedule", data=body).status_code == 403
    assert "<button" not in vic("/schedule").text.partition("<main")[2].partition("</main")[0]
    assert paula("/schedule", "POST", data=body).status_code == 403  # without a form's token
    assert paula.writes("/schedule", data=body).status_code == 303
    [week, _] = vic("/api/v1/schedule").json()["weeks"]
    assert 0 < week["days"] < 18


def test_a_fleet_without_a_notice_period_has_no_schedule_page(url: str, tmp_path: Path) -> None:
    fill(url, publication(3))
    spec = declare(tmp_path, url, STAFFING + "}\n")
    app = create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)
    assert ask_locally(app, "GET", "/schedule").status_code == 404
    assert "/schedule" not in ask_locally(app, "GET", "/").text
    assert "/api/v1/schedule" not in ask_locally(app, "GET", "/api/v1/openapi.json").text
