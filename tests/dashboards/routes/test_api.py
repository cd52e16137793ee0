"""The API: every view as JSON and as CSV, current and past, validated against its own schema."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from dataclasses import replace
from datetime import date, timedelta
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from dashboards.ops.app import create_app
from dashboards.ops.views.catalogue import VIEWS
from forecaster.config import load
from forecaster.ledger import accuracy
from forecaster.ledger import value as ledger_value
from forecaster.ledger.accuracy import ALL, FORECAST, NAIVE, Tally
from forecaster.ledger.publication import PublishedRoster, Shortage
from forecaster.ledger.store import Ledger
from tests.dashboards.routes.test_pages import totals
from tests.dashboards.seed import CITIES, NOON, ODD_ID, PUBLISHED, depot, fill, publication, with_plans
from tests.dashboards.views.test_health import THIN, night
from tests.dashboards.visitor import Get, text, visitor

EVERY = list(HealthCheck)
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
NAMES = [view.name for view in VIEWS]
DAYS = [PUBLISHED + timedelta(days=back) for back in (-2, -1, 0)]


def rostered(number: int, depot_id: str | None = None) -> Any:
    """Return a depot that borrows two vans on its first day."""
    plain = depot(number, depot_id)
    plan = PublishedRoster(vans=5, chance_short=0.125, cost=61.5, one_more=70.0, one_fewer=92.0, borrowed=(("X", 2),))
    plan = replace(plan, wanted=6, shortage=Shortage("Boston", 0.88, network=True))
    return replace(plain, days=(replace(plain.days[0], roster=plan), *plain.days[1:]))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Three runs with a publication each, then one that published nothing."""
    address = f"sqlite:///{tmp_path_factory.mktemp('api') / 'ledger.db'}"
    depots = (rostered(0), *(depot(i) for i in range(1, 6)), depot(7, ODD_ID))
    for number, day in enumerate(DAYS, 1):
        night(address, f"night-{number}", THIN, began=day - timedelta(minutes=9))
        first = publication(run_id=f"night-{number}", published_at=day, as_of=day, totals=totals(*CITIES))
        fill(address, with_plans(replace(first, depots=depots, model=f"v{number}")))
    with Ledger.open(address) as ledger:
        ledger.promote("harbor-fleet", run_id="night-3", bundle_digest="b1", by="ada", reason="better", at=PUBLISHED)
        with ledger.transaction() as connection:
            tallies = [
                Tally(date(2025, 6, 2), FORECAST, ALL, "", 40, 4000.0, -60.0, 400.0, 32),
                Tally(date(2025, 6, 2), NAIVE, ALL, "", 40, 0.0, 100.0, 640.0, None),
            ]
            accuracy.replace_weeks(connection, "harbor-fleet", [date(2025, 6, 2)], tallies)
            costs = [
                ledger_value.WayCost(date(2025, 6, 2), "Boston", way, 60.0, 1, 1, 9, 3) for way in ledger_value.WAYS
            ]
            day = ledger_value.ValuedDay(date(2025, 6, 2), "basis", "USD", False, 0, "+0%", [1.0])
            ledger_value.replace_days(connection, "harbor-fleet", [day], costs, keep_from=date(2025, 1, 1))
    return address


@pytest.fixture(scope="module")
def app(url: str, tmp_path_factory: pytest.TempPathFactory) -> FastAPI:
    file = tmp_path_factory.mktemp("spec") / "pipeline.yaml"
    file.write_text(f"name: harbor-fleet\ndemand: {{source: {{kind: csv, path: d.csv}}}}\nledger: {url}\n", "utf-8")
    return create_app(url, pipeline="harbor-fleet", clock=lambda: NOON, spec=load(file))


@pytest.fixture(scope="module")
def get(url: str) -> Get:
    return visitor(url)


def rows(answer: Any) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(answer.content.decode(), newline="")))


# --- views ------------------------------------------------------------------------------------------------------------


def test_every_page_has_its_view(app: FastAPI) -> None:
    """Pages are the routes that are not in the schema and answer GET and HEAD."""
    pages = {
        str(route.path)
        for route in iter_route_contexts(app.routes)
        if {"GET", "HEAD"} <= set(getattr(route.original_route, "methods", None) or ())
        and not str(route.path).startswith("/api/")
    }
    files = {"/runs/{run_id}/report"}  # written by a run
    assert pages == {view.page for view in VIEWS if view.page} | {"/depot/{depot_id:path}"} | files


@pytest.mark.parametrize("name", [name for name in NAMES if name != "publication"])
def test_a_views_csv_has_the_rows_of_its_json(get: Get, name: str) -> None:
    body = get(f"/api/v1/{name}").json()
    expected = body.get("rows", body.get("runs"))
    answer = get(f"/api/v1/{name}?format=csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert answer.headers["content-disposition"] == f'attachment; filename="{name}.csv"'
    assert answer.content.endswith(b"\r\n")
    lines = rows(answer)
    assert len(lines) == len(expected) > 0
    for row, line in zip(expected, lines, strict=True):
        assert list(row) == list(line)
        for column, value in row.items():
            assert read(line[column], value) == value, column


def read(cell: str, like: Any) -> Any:
    """Parse a cell in the form of the corresponding JSON value."""
    if like is None:
        return None if cell == "" else cell
    return cell if isinstance(like, str) else json.loads(cell)


def test_the_whole_publication_as_csv_has_a_row_for_each_depot_and_day(get: Get) -> None:
    lines = rows(get("/api/v1/publication?format=csv"))
    assert len(lines) == 7 * 7
    assert lines[0]["depot_id"] == "BOS-01"
    assert lines == rows(get("/api/v1/depots?format=csv"))


def test_a_depots_csv_has_a_column_for_each_quantile(get: Get) -> None:
    days = get("/api/v1/depots/BOS-01").json()["days"]
    lines = rows(get("/api/v1/depots/BOS-01?format=csv"))
    assert list(lines[0]) == ["target_date", "horizon", "open", "q0.1", "q0.3", "q0.5", "q0.7", "q0.9", "drivers"]
    assert [float(row["q0.5"]) for row in lines] == [day["quantiles"][2] for day in days]


def test_the_network_view_covers_tomorrow(get: Get) -> None:
    network = get("/api/v1/network").json()
    assert network["target_date"] == "2025-06-18"
    assert {row["target_date"] for row in network["rows"]} == {"2025-06-18"}
    assert len(network["rows"]) == 7


def test_rosters_show_cost_of_a_crew_and_lenders_of_vans(get: Get) -> None:
    first = get("/api/v1/rosters").json()["rows"][0]
    assert (first["vans"], first["chance_short"], first["borrowed"]) == (5, 0.125, [["X", 2]])
    assert first["wanted"] == 6
    assert first["why"] == "no van left in Boston; vans for 88\N{NO-BREAK SPACE}% of what the network needs"
    assert rows(get("/api/v1/rosters?format=csv"))[0]["why"] == first["why"]
    assert rows(get("/api/v1/rosters?format=csv"))[0]["borrowed"] == '[["X", 2]]'


def test_csv_is_compressed_tagged_and_revalidated(get: Get) -> None:
    answer = get("/api/v1/depots?format=csv", accept_encoding="gzip")
    assert answer.headers["content-encoding"] == "gzip"
    tag = answer.headers["etag"]
    assert tag != get("/api/v1/depots").headers["etag"]
    again = get("/api/v1/depots?format=csv", if_none_match=tag)
    assert (again.status_code, again.content) == (304, b"")


def test_me_returns_the_requesting_person(get: Get) -> None:
    me = get("/api/v1/me").json()
    assert (me["name"], me["role"], me["cities"]) == ("local", "admin", None)


# --- what was up then -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "model"),
    [
        ("", "v3"),
        ("as_of=2025-06-16T12:00", "v2"),
        ("as_of=2025-06-16T03:23:59", "v1"),  # in the pipeline's time zone; v2 was published at 03:24
        ("as_of=2025-06-16T03:24", "v2"),
        ("as_of=2025-06-16T07:24:00Z", "v2"),
        ("as_of=2025-06-16T09:24+02:00", "v2"),  # an unescaped +
        ("as_of=2025-06-16", "v2"),  # at the end of the day
        ("as_of=2030-01-01", "v3"),
        ("publication=1", "v1"),
        ("publication=3", "v3"),
    ],
)
def test_as_of_and_publication_return_past_forecasts(get: Get, query: str, model: str) -> None:
    assert get(f"/api/v1/publication?{query}").json()["about"]["model"] == model
    assert get(f"/api/v1/depots/BOS-01?{query}").json()["about"]["model"] == model


def test_a_past_publication_reads_as_it_did_then(get: Get) -> None:
    network = get("/api/v1/network?as_of=2025-06-16T12:00").json()
    assert network["target_date"] == "2025-06-17"  # tomorrow, as seen on that day
    assert network["about"]["stale"] is None
    tags = {get(f"/api/v1/network?publication={number}").headers["etag"] for number in (1, 2, 3)}
    assert len(tags) == 3


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        (
            "/api/v1/network?asof=2026-10-27",
            "found the parameter 'asof', wanted one of as_of, publication, format; did you mean 'as_of'?",
        ),
        ("/api/v1/depots/BOS-01?city=Boston", "found the parameter 'city', wanted one of as_of, publication, format"),
        ("/api/v1/runs?format=csv&as_of=2025-06-16", "found the parameter 'as_of', wanted one of format"),
        ("/api/v1/me?name=Ana", "found the parameter 'name', wanted none"),
    ],
)
def test_the_api_refuses_unknown_parameters_and_pages_ignore_them(get: Get, address: str, sentence: str) -> None:
    answer = get(address)
    assert (answer.status_code, answer.json()) == (422, {"detail": sentence})
    for page in ("/", "/health", "/healthz", "/api/v1/executive", "/api/v1/openapi.json"):
        assert get(f"{page}?utm=mail").status_code == get(page).status_code


@pytest.mark.parametrize("query", ["publication=9", "as_of=2025-06-14T12:00", "as_of=1999-01-01"])
def test_names_the_oldest_retained_publication_if_one_is_missing(get: Get, query: str) -> None:
    answer = get(f"/api/v1/depots?{query}")
    assert answer.status_code == 404
    assert (
        "the oldest that is kept is publication 1, published 2025-06-15T03:24-0400; older ones are removed"
        in answer.json()["detail"]
    )


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("as_of=tuesday", "as_of: found 'tuesday', wanted a day such as 2026-10-27 or an instant: 2026-10-27T06:00"),
        ("as_of=0001-01-01T00:00:00", "as_of: found '0001-01-01T00:00:00', wanted a day"),
        ("as_of=2025-06-16&publication=1", "found as_of and publication, wanted only one of them"),
        ("publication=x", "publication: found 'x', wanted a valid integer"),
        ("publication=99999999999999999999", "publication: found '99999999999999999999', wanted less than or equal"),
        ("format=xml", "format: found 'xml', wanted 'json' or 'csv'"),
    ],
)
def test_rejects_invalid_parameters(get: Get, query: str, message: str) -> None:
    answer = get(f"/api/v1/depots?{query}")
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(message)


def test_past_forecasts_are_available_after_a_rollback(tmp_path_factory: pytest.TempPathFactory) -> None:
    ledger_url = f"sqlite:///{tmp_path_factory.mktemp('back') / 'ledger.db'}"
    fill(ledger_url, *(publication(run_id=f"n{i}", published_at=day, model=f"v{i}") for i, day in enumerate(DAYS, 1)))
    with Ledger.open(ledger_url) as ledger:
        ledger.rollback("harbor-fleet")
    get = visitor(ledger_url)
    assert get("/api/v1/publication").json()["about"]["model"] == "v2"
    assert get("/api/v1/publication?as_of=2025-06-18").json()["about"]["model"] == "v3"
    listed = get("/api/v1/publications").json()["rows"]
    assert [(row["model"], row["shown"]) for row in listed] == [("v3", False), ("v2", True), ("v1", False)]


def test_never_substitutes_a_removed_publication(tmp_path_factory: pytest.TempPathFactory) -> None:
    ledger_url = f"sqlite:///{tmp_path_factory.mktemp('gone') / 'ledger.db'}"
    with Ledger.open(ledger_url) as ledger:
        for i, day in enumerate(DAYS, 1):
            ledger.start_run(f"n{i}", pipeline="harbor-fleet", as_of=day, spec_digest="5pec")
            ledger.publish(publication(run_id=f"n{i}", published_at=day), keep=2)
        assert [head.publication_id for head in ledger.publications("harbor-fleet")] == [3, 2]
    answer = visitor(ledger_url)("/api/v1/depots?as_of=2025-06-15T12:00")
    assert "what was up on Sun 15 Jun, 12:00 EDT, is not kept; the oldest that is kept is publication 2" in answer.text


# --- never blank ------------------------------------------------------------------------------------------------------


def test_after_a_failed_run_the_last_forecasts_stay_with_a_notice(tmp_path_factory: pytest.TempPathFactory) -> None:
    ledger_url = f"sqlite:///{tmp_path_factory.mktemp('failed') / 'ledger.db'}"
    fill(ledger_url, publication())
    night(ledger_url, "night-2", began=NOON - timedelta(hours=1), outcome="failed", message="the source was not there")
    get = visitor(ledger_url)
    sentence = "The run that began Tue 17 Jun, 11:00 EDT published nothing."
    whose = " These forecasts are of Tue 17 Jun, 03:24 EDT."
    for path in ("/", "/depot/BOS-01", "/wall", "/champion"):
        assert f"The last run failed. {sentence}{whose} What happened" in text(get(path))
    tag = get("/").headers["etag"]
    assert get("/api/v1/network").json()["about"]["fruitless"] == sentence
    night(ledger_url, "night-3", began=NOON, outcome="published")
    assert "The last run failed" not in text(get("/", if_none_match=tag))


def test_days_after_a_failed_run_a_single_notice_explains_it(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    ledger_url = f"sqlite:///{tmp_path_factory.mktemp('stale') / 'ledger.db'}"
    fill(ledger_url, publication())
    later = NOON + timedelta(days=3)
    night(ledger_url, "night-2", THIN, began=later - timedelta(hours=9), outcome="failed")
    answer = visitor(ledger_url, later)("/")
    assert answer.text.count('<p class="stale" role="status"><') == 1
    page = text(answer)
    sentence = "The run that began Fri 20 Jun, 03:00 EDT published nothing. The newest reading is of Mon 16 Jun."
    assert f"Stale, and the last run failed. {sentence} The last night quarantined its whole batch" in page
    assert "it was trained in the night to Tue 17 Jun and admitted." in page
    assert "this night" not in page


def test_reports_a_locked_ledger(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path_factory.mktemp("locked") / "ledger.db"
    fill(f"sqlite:///{file}", publication())
    monkeypatch.setattr("forecaster.ledger.connect.WAIT_SECONDS", 0.01)
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("pragma journal_mode=delete")
        other.execute("begin exclusive")
        get = visitor(f"sqlite:///{file}")
        for path in ("/", "/api/v1/depots", "/readyz"):
            answer = get(path)
            assert answer.status_code == 503
            assert "another program has been writing to it" in answer.text
            assert "Traceback" not in answer.text
        other.execute("rollback")
    assert get("/").status_code == 200


# --- the schema -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def api(app: FastAPI) -> Any:
    async def at_home(scope: Any, receive: Any, send: Any) -> None:
        """Simulate a local request: the test client has no address."""
        if scope["type"] == "http":
            others = [header for header in scope["headers"] if header[0] != b"host"]
            scope = {**scope, "client": ("127.0.0.1", 1), "headers": [*others, (b"host", b"127.0.0.1:8000")]}
        await app(scope, receive, send)

    return schemathesis.openapi.from_asgi("/api/v1/openapi.json", at_home)


def test_the_api_conforms_to_its_schema(api: Any) -> None:
    paths = []
    for result in api.get_all_operations():
        operation = result.ok()

        @settings(max_examples=8, suppress_health_check=EVERY)
        @given(case=operation.as_strategy())
        def hold(case: Any) -> None:
            case.call_and_validate(checks=CHECKS)

        hold()
        paths.append(operation.path)
    assert {f"/api/v1/{name}" for name in (*NAMES, "what-if", "overrides", "overrides/worth")} < set(paths)
