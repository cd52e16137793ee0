"""Planners see why a day changed, and can write only from this machine and a page of ours."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from fastapi import FastAPI

from dashboards.ops.app import create_app
from forecaster.config import Spec, load
from forecaster.ledger.publication import Publication, PublishedChange, PublishedDay, PublishedOverride
from forecaster.ledger.store import Ledger
from forecaster.planning.service import list_overrides
from tests.dashboards.seed import NOON, depot, fill, publication
from tests.dashboards.visitor import Get, ask_locally, text
from tests.mutations import CELLS

DAY = depot(0).days[1]  # Wednesday, 18 June
CHANGE = PublishedChange(
    date(2025, 6, 16),
    round(DAY.quantiles[2]) - 12,
    (("calendar", 0), ("restated", -3), ("actuals", 9), ("model", 6), ("calibration", 0), ("override", 0)),
)
WISH = {"depot_id": "BOS-01", "target_date": "2025-06-18", "orders": 200, "reason": "weather", "by": "Ana"}
WHOLE = round(DAY.quantiles[2])


def _with(days: tuple[PublishedDay, ...]) -> Publication:
    """Return a later run's publication of one depot."""
    return replace(publication(1, run_id="night-2"), depots=(replace(depot(0), days=days),))


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: harbor-fleet\ndemand: {source: {kind: csv, path: demand.csv}}\n"
        f"state: .\nledger: sqlite:///{tmp_path / 'ledger.db'}\n",
        "utf-8",
    )
    return load(file)


@pytest.fixture
def app(url: str, spec: Spec) -> FastAPI:
    fill(url, publication(2))
    return create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=spec)


def test_the_depots_page_explains_a_change_and_the_api_has_its_parts(url: str, get: Get) -> None:
    assert "No forecast of these days was published the day before." in text(get("/depot/BOS-01"))
    fill(url, _with(tuple(replace(day, change=CHANGE) if day == DAY else day for day in depot(0).days)))
    page = get("/depot/BOS-01")
    assert "corrected counts −3, actual orders since +9, another model +6." in text(page)
    assert page.text.count('<svg class="parts"') == 1
    change = get("/api/v1/depots/BOS-01").json()["days"][1]["change"]
    assert change["before"] + sum(orders for _, orders in change["parts"]) == WHOLE


def test_a_page_without_a_pipeline_file_is_read_only(get: Get) -> None:
    assert "What if" not in get("/depot/BOS-01").text
    assert get("/overrides").status_code == 404
    assert get("/api/v1/overrides", "POST").status_code == 404


def test_accepts_a_browsers_form_from_our_own_page(app: FastAPI) -> None:
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    answer = ask_locally(app, "POST", "/overrides", data=WISH, headers=headers)
    assert (answer.status_code, answer.headers.get("location")) == (303, "/day/2025-06-18/BOS-01")


def test_stores_an_override_before_the_page_can_show_it(app: FastAPI, url: str) -> None:
    answer = ask_locally(app, "POST", "/api/v1/overrides", json=WISH)
    assert answer.status_code == 201
    assert (
        "from the next publication on, since the planning tool is not available until tonight's run"
        in (answer.json()["said"])
    )
    assert "What if, or override" in ask_locally(app, "GET", "/depot/BOS-01").text
    assert ask_locally(app, "GET", "/api/v1/overrides").json()["overrides"][0]["by"] == "Ana"
    with Ledger.open_reader(url) as ledger:
        [row] = list_overrides(ledger, "harbor-fleet")
    assert (row.orders, row.until) == (200, date(2025, 6, 18))


@pytest.mark.parametrize("body", [b'{"note": "\\ud800"}', b"[" * 5000])
def test_rejects_invalid_json_and_unicode_with_a_sentence(app: FastAPI, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = ask_locally(app, "POST", "/api/v1/overrides", content=body, headers=headers)
    assert (answer.status_code, answer.json()["detail"][:20]) == (422, "found something else")


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"origin": "http://evil.example"}, "cross-origin request rejected"),
        ({"host": "evil.example:8000"}, "this page is not called"),
        ({"sec-fetch-site": "cross-site"}, "cross-origin request rejected"),
        ({"origin": "null"}, "cross-origin request rejected"),
        ({"x-forwarded-for": "192.0.2.1"}, "this request came through a proxy"),
    ],
)
def test_rejects_writes_from_other_machines_and_sites(
    app: FastAPI, url: str, headers: Mapping[str, str], sentence: str
) -> None:
    answer = ask_locally(app, "POST", "/api/v1/overrides", json=WISH, headers=headers)
    assert answer.status_code == 403
    assert sentence in answer.json()["detail"]
    with Ledger.open_reader(url) as ledger:
        assert list_overrides(ledger, "harbor-fleet") == ()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"orders": "many"}, "orders: found 'many', input should be a valid integer"),
        ({"orders": -3}, "orders: found -3, wanted a whole number"),
        ({"by": ""}, "by: found nothing, wanted the name of the person who decides"),
        ({"reason": "mood"}, "reason: found 'mood', wanted one of local event"),
        ({"target_date": "2025-06-19"}, "BOS-01 is closed on 2025-06-19; wanted an open day"),
        ({"extra": 1}, "extra: found 1, extra inputs are not permitted"),
        ({"orders": True}, "orders: found True, input should be a number"),
        ({"orders": 10**300}, "orders: found a number of many digits, wanted a whole number"),
        ({"target_date": 1750204800}, "target_date: found 1750204800, wanted a day such as 2025-06-18"),
        ({"target_date": "9999-12-31"}, "date: found 9999-12-31, wanted a published day, from"),
        ({"note": "a\0b"}, "note: found 'a\\x00b', wanted letters"),
        ({"by": "\x1b[31m"}, "by: found '\\x1b[31m', wanted letters"),
    ],
)
def test_rejects_an_invalid_override_with_a_sentence(app: FastAPI, wrong: Mapping[str, object], sentence: str) -> None:
    answer = ask_locally(app, "POST", "/api/v1/overrides", json={**WISH, **wrong})
    assert (answer.status_code, sentence in answer.json()["detail"]) == (422, True), answer.text


@pytest.mark.parametrize("name", WISH)
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.exhaustive)])
def test_answers_any_override_content_with_a_sentence(app: FastAPI, name: str, every: int) -> None:
    far = [1e300, -1e300, 2**63, -(2**70), float("nan"), float("inf"), float("-inf")]
    values = [*CELLS, *far, [1], [[[]]] * 9, {"a": [1]}, True, None, 3.5]
    for value in values[[*WISH].index(name) % every :: every]:
        body = json.dumps({**WISH, name: value}).encode()
        answer = ask_locally(
            app, "POST", "/api/v1/overrides", content=body, headers={"content-type": "application/json"}
        )
        assert answer.status_code in (201, 422), value
        sentence = answer.json()["said" if answer.status_code == 201 else "detail"]
        assert 10 < len(sentence) < 400
        assert answer.status_code == 422 or name in ("note", "by", "orders")
        if isinstance(value, str):
            form = ask_locally(app, "POST", "/overrides", data={**WISH, name: value})
            assert form.status_code in (303, 422), value
        withdrawal = ask_locally(app, "POST", "/api/v1/overrides/1/withdrawal", json={"by": "", "note": str(value)})
        assert withdrawal.status_code == 422
    assert ask_locally(app, "GET", "/overrides").status_code == 200


def test_reports_a_what_if_without_saved_inputs(app: FastAPI) -> None:
    answer = ask_locally(app, "GET", "/api/v1/what-if?depot=BOS-01&date=2025-06-18&kind=promo&value=1")
    assert answer.status_code == 409
    assert "the planning tool is not available until tonight's run" in answer.json()["detail"]
    page = ask_locally(app, "GET", "/day/2025-06-18/BOS-01")
    assert (page.status_code, "The planning tool is not available" in page.text) == (200, True)
    assert ask_locally(app, "GET", "/day/2025-06-18/Nowhere").status_code == 404


def test_csv_files_of_overrides_contain_no_formulas(app: FastAPI, url: str) -> None:
    saved = ask_locally(app, "POST", "/api/v1/overrides", json=WISH | {"by": "=1+1", "note": "@storm"})
    assert saved.status_code == 201
    [row] = csv.DictReader(io.StringIO(ask_locally(app, "GET", "/api/v1/overrides?format=csv").text))
    assert (row["depot_id"], row["orders"], row["by"], row["note"]) == ("BOS-01", "200", "'=1+1", "'@storm")
    assert row["withdrawn"] == ""
    worth = ask_locally(app, "GET", "/api/v1/overrides/worth?format=csv")
    assert worth.headers["content-disposition"] == 'attachment; filename="overrides-worth.csv"'
    assert worth.text.splitlines()[0] == "part,of,days,helped,actual,model_error,override_error"
    assert worth.text.splitlines()[1].startswith("all,")


def test_rejects_malformed_forms(app: FastAPI) -> None:
    assert ask_locally(app, "POST", "/overrides", content=b"x" * 20_000).status_code == 422
    assert ask_locally(app, "POST", "/overrides", content=b"\xff").status_code == 422
    assert ask_locally(app, "POST", "/api/v1/overrides", json=[]).status_code == 422


def test_rejects_a_form_whose_last_day_is_before_its_first(app: FastAPI, url: str) -> None:
    answer = ask_locally(app, "POST", "/overrides", data={**WISH, "last": "2025-06-17"})
    assert answer.status_code == 422
    assert "found 2025-06-17, before the first, 2025-06-18; wanted it or a later day" in text(answer)
    with Ledger.open_reader(url) as ledger:
        assert list_overrides(ledger, "harbor-fleet") == ()


def test_a_published_override_is_shown_with_the_models_number(url: str, get: Get) -> None:
    override = PublishedOverride(
        1, 200, DAY.quantiles, "weather", "storm", "<Ana>", datetime(2025, 6, 17, tzinfo=UTC), DAY.target_date
    )
    moved = replace(DAY, quantiles=(150.0, 180.0, 200.0, 220.0, 250.0), override=override)
    fill(url, _with(tuple(moved if day == DAY else day for day in depot(0).days)))
    page = text(get("/depot/BOS-01"))
    assert f"200 orders by <Ana> (weather: storm), until Wed 18 Jun; the model says {WHOLE:,}." in page


def test_a_group_is_saved_in_one_request_and_its_body_is_in_the_schema(app: FastAPI, url: str) -> None:
    group = {"depot_ids": ["BOS-01", "NYC-01"], "first": "2025-06-18", "last": "2025-06-19", "percent": 10}
    group |= {"reason": "weather", "by": "Ana"}
    answer = ask_locally(app, "POST", "/api/v1/overrides/group", json=group)
    assert answer.status_code == 201, answer.text
    saved = answer.json()
    assert [row["target_date"] for row in saved["overrides"]] == ["2025-06-18", "2025-06-18"]
    assert saved["closed"] == 2  # both on the holiday
    assert saved["said"].startswith("overrides 1 to 2: 2 depots on 2025-06-18, ")
    assert "; 2 closed days stay so; from the next publication on" in saved["said"]
    schema = ask_locally(app, "GET", "/api/v1/openapi.json").json()["paths"]
    for path, wanted in (
        ("/api/v1/overrides", {"depot_id", "target_date", "orders", "reason"}),
        ("/api/v1/overrides/group", {"first", "reason"}),
    ):
        body = schema[path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert set(body["required"]) == wanted
        assert body["additionalProperties"] is False


def test_numbers_of_a_saved_override_use_the_readers_format(app: FastAPI) -> None:
    wish = {"depot_id": "BOS-01", "target_date": "2025-06-18", "orders": 1234, "reason": "weather", "by": "Ana"}
    answer = ask_locally(app, "POST", "/api/v1/overrides", json=wish, headers={"Accept-Language": "de"})
    assert " 1.234 " in answer.json()["said"]
    group = {"depot_ids": ["BOS-01", "NYC-01"], "first": "2025-06-18", "orders": 1234, "reason": "weather", "by": "Bo"}
    answer = ask_locally(app, "POST", "/api/v1/overrides/group", json=group, headers={"Accept-Language": "de"})
    assert " 2.468 " in answer.json()["said"]


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"orders": True, "percent": None}, "orders: found True, input should be a number"),
        ({"percent": True}, "percent: found True, input should be a number"),
        ({"orders": 5}, "found both of orders and percent, wanted one of them"),
        ({"percent": None}, "found neither of orders and percent, wanted one of them"),
        ({"first": 20250618}, "first: found 20250618, wanted a day such as 2025-06-18"),
        ({"depot_ids": []}, "found no depot, or both depots and a city; wanted depots or a city"),
        ({"depot_ids": [], "city": "Atlantis"}, "city: found 'Atlantis', wanted one of Boston"),
        ({"depots": ["BOS-01"]}, "depots: found ['BOS-01'], extra inputs are not permitted"),
    ],
)
def test_rejects_an_invalid_group_with_a_sentence(app: FastAPI, wrong: Mapping[str, object], sentence: str) -> None:
    group = {"depot_ids": ["BOS-01"], "first": "2025-06-18", "percent": 10, "reason": "weather", "by": "Ana"} | wrong
    answer = ask_locally(app, "POST", "/api/v1/overrides/group", json=group)
    assert (answer.status_code, answer.json()["detail"][: len(sentence)]) == (422, sentence)


def test_rejects_a_what_if_without_its_number(app: FastAPI) -> None:
    for kind in ("orders", "percent", "promo"):
        answer = ask_locally(app, "GET", f"/api/v1/what-if?depot=BOS-01&date=2025-06-18&kind={kind}")
        assert (answer.status_code, answer.json()["detail"]) == (
            422,
            f"value: found nothing, wanted a number for '{kind}'",
        )


def test_pages_link_to_the_list_of_overrides(app: FastAPI, get: Get) -> None:
    assert '<a class="crumb" href="/overrides">Overrides</a>' in ask_locally(app, "GET", "/depot/BOS-01").text
    assert 'href="/overrides"' not in get("/depot/BOS-01").text  # a page without a pipeline file has no overrides


def test_withdraws_a_group_together(app: FastAPI, url: str) -> None:
    group = {"depot_ids": ["BOS-01", "NYC-01"], "first": "2025-06-18", "last": "2025-06-20", "percent": 10}
    saved = ask_locally(app, "POST", "/api/v1/overrides/group", json=group | {"reason": "weather", "by": "Ana"})
    ids = [override["id"] for override in saved.json()["overrides"]]
    other = ask_locally(app, "POST", "/api/v1/overrides", json=WISH | {"target_date": "2025-06-21", "by": "Bo"})
    answer = ask_locally(app, "POST", f"/overrides/{ids[-1]}/withdrawal", data={"by": "Ana", "together": "true"})
    assert answer.status_code == 303
    with Ledger.open_reader(url) as ledger:
        book = list_overrides(ledger, "harbor-fleet")
    assert {override.id for override in book if override.withdrawn is None} == {other.json()["override"]["id"]}
    assert len(ids) > 2
    again = ask_locally(app, "POST", f"/overrides/{ids[0]}/withdrawal", data={"by": "Ana", "together": "true"})
    assert again.status_code == 422
    assert "was withdrawn on" in text(again)
