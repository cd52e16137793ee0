"""Access matrix: every route for every kind of person. A route missing from the table fails."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from dashboards.ops.server import serve
from forecaster.config import Calendar, Page, Spec, load
from forecaster.core.knowledge import Finding
from forecaster.errors import SpecError
from forecaster.ledger import access as ledger_access
from forecaster.ledger import lease
from forecaster.ledger.store import Ledger
from tests.dashboards.guests import PROXY, SECRET, Guest, declared, hang_up, house, signed_in
from tests.dashboards.routes.test_pages import totals
from tests.dashboards.seed import CITIES, NOON, depot, fill, publication, remember
from tests.dashboards.views.test_health import night
from tests.dashboards.visitor import text

WHO = ("nobody", "viewer", "planner", "admin", "link", "foreign")  # foreign: sees Boston only
EVERYONE = (200, 200, 200, 200, 200, 200)
SIGNED_IN = (401, 200, 200, 200, 403, 200)
A_LINK_TOO = (401, 200, 200, 200, 200, 200)
WRONG = (401, 403, 422, 422, 403, 403)  # planners read the reason
ADMINS = (401, 403, 403, 200, 403, 403)
NYC = "/depot/NYC-01", "/api/v1/depots/NYC-01"
ASKED = "depot=NYC-01&date=2025-06-18"
WISH = {"depot_id": "NYC-01", "target_date": "2025-06-18", "orders": 200, "reason": "weather"}
CREW = {"depot_id": "NYC-01", "target_date": "2025-06-18", "drivers": depot(1).days[1].drivers}
GROUP = {"depot_ids": ["NYC-01"], "first": "2025-06-18", "orders": 200, "reason": "weather"}
SETTINGS = {f"/settings{path}": 422 for path in ("", "/changes", "/links")}
SETTINGS |= {"/settings/check": 200, "/settings/run": 409, "/settings/all-signed-out": 303}
SETTINGS |= {f"/settings/{what}": 404 for what in ("notification", "revoked", "signed-out")}

# route → the request, and the status for each of WHO
TABLE: Mapping[tuple[str, str], tuple[str, tuple[int, ...]]] = {
    ("GET", "/static"): ("/static/style.css", EVERYONE),
    ("GET", "/healthz"): ("/healthz", EVERYONE),
    ("GET", "/readyz"): ("/readyz", EVERYONE),
    ("GET", "/link/{token}"): ("/link/made-up", (404,) * 6),
    ("GET", "/feed/{token}/rss"): ("/feed/made-up/rss", (404,) * 6),
    ("GET", "/feed/{token}/ics"): ("/feed/made-up/ics", (404,) * 6),
    ("GET", "/subscribe"): ("/subscribe?depot=NYC-01", (401, 200, 200, 200, 403, 404)),
    ("POST", "/subscribe"): ("/subscribe?depot=NYC-01", (401, 403, 403, 200, 403, 403)),
    ("GET", "/"): ("/", A_LINK_TOO),
    ("GET", "/depot/{depot_id:path}"): (NYC[0], (401, 200, 200, 200, 403, 404)),
    ("GET", "/my-depot"): ("/my-depot?depot=NYC-01", (401, 200, 200, 200, 403, 404)),
    ("GET", "/health"): ("/health", SIGNED_IN),
    ("GET", "/roster"): ("/roster", (401, 422, 422, 422, 403, 422)),
    ("GET", "/wall"): ("/wall", SIGNED_IN),
    ("GET", "/accuracy"): ("/accuracy", SIGNED_IN),
    ("GET", "/value"): ("/value", SIGNED_IN),
    ("GET", "/champion"): ("/champion", SIGNED_IN),
    ("GET", "/runs/{run_id}/report"): ("/runs/night-0/report", (401, 404, 404, 404, 403, 403)),  # it has none
    ("GET", "/worker.js"): ("/worker.js", EVERYONE),
    ("GET", "/day/{day}/{depot_id:path}"): ("/day/2025-06-18/NYC-01", (401, 200, 200, 200, 403, 404)),
    ("GET", "/overrides"): ("/overrides", SIGNED_IN),
    ("POST", "/overrides"): ("/overrides", (401, 403, 303, 303, 403, 403)),
    ("POST", "/overrides/{number}/withdrawal"): ("/overrides/999/withdrawal", WRONG),
    ("POST", "/accepted"): ("/accepted", (401, 403, 303, 303, 403, 403)),
    ("POST", "/accepted/withdrawal"): ("/accepted/withdrawal", (401, 403, 303, 422, 403, 403)),
    ("GET", "/week-file"): ("/week-file", (401, 403, 200, 200, 403, 403)),
    ("POST", "/week-file"): ("/week-file", WRONG),
    ("POST", "/week-file/overrides"): ("/week-file/overrides", WRONG),
    ("GET", "/api/v1/what-if"): (f"/api/v1/what-if?{ASKED}&kind=orders&value=5", (401, 409, 409, 409, 403, 404)),
    ("GET", "/api/v1/overrides"): ("/api/v1/overrides", SIGNED_IN),
    ("GET", "/api/v1/overrides/worth"): ("/api/v1/overrides/worth", SIGNED_IN),
    ("POST", "/api/v1/overrides"): ("/api/v1/overrides", (401, 403, 201, 201, 403, 403)),
    ("POST", "/api/v1/overrides/group"): ("/api/v1/overrides/group", (401, 403, 201, 201, 403, 403)),
    ("POST", "/api/v1/overrides/{number}/withdrawal"): ("/api/v1/overrides/999/withdrawal", WRONG),
    ("GET", "/api/v1/openapi.json"): ("/api/v1/openapi.json", SIGNED_IN),
    ("GET", "/api/v1/publication"): ("/api/v1/publication", A_LINK_TOO),
    ("GET", "/api/v1/network"): ("/api/v1/network", A_LINK_TOO),
    ("GET", "/api/v1/depots"): ("/api/v1/depots", SIGNED_IN),
    ("GET", "/api/v1/depots/{depot_id:path}"): (NYC[1], (401, 200, 200, 200, 403, 404)),
    ("GET", "/api/v1/shifts"): ("/api/v1/shifts", SIGNED_IN),
    ("GET", "/api/v1/levels"): ("/api/v1/levels", SIGNED_IN),
    ("GET", "/api/v1/totals"): ("/api/v1/totals", SIGNED_IN),
    ("GET", "/api/v1/rosters"): ("/api/v1/rosters", A_LINK_TOO),
    ("GET", "/api/v1/publications"): ("/api/v1/publications", SIGNED_IN),
    ("GET", "/api/v1/runs"): ("/api/v1/runs", SIGNED_IN),
    ("GET", "/api/v1/champions"): ("/api/v1/champions", SIGNED_IN),
    ("GET", "/api/v1/wall"): ("/api/v1/wall", SIGNED_IN),
    ("GET", "/api/v1/accuracy"): ("/api/v1/accuracy", SIGNED_IN),
    ("GET", "/api/v1/value"): ("/api/v1/value", SIGNED_IN),
    ("GET", "/api/v1/me"): ("/api/v1/me", SIGNED_IN),
    ("GET", "/api/v1/links"): ("/api/v1/links", ADMINS),
    ("POST", "/api/v1/links"): ("/api/v1/links", (401, 403, 403, 201, 403, 403)),
    ("DELETE", "/api/v1/links/{link_id}"): ("/api/v1/links/none", (401, 403, 403, 404, 403, 403)),
    ("GET", "/api/v1/audit"): ("/api/v1/audit", ADMINS),
    ("GET", "/settings"): ("/settings", ADMINS),
    **{("POST", path): (path, (401, 403, 403, status, 403, 403)) for path, status in SETTINGS.items()},
}
BODIES: Mapping[tuple[str, str], Mapping[str, object]] = {
    ("POST", "/api/v1/links"): {"view": "network"},
    ("POST", "/overrides"): WISH,
    ("POST", "/api/v1/overrides"): WISH,
    ("POST", "/api/v1/overrides/group"): GROUP,
    ("POST", "/overrides/{number}/withdrawal"): {},
    **{("POST", path): {} for path in ("/week-file", "/week-file/overrides")},
    ("POST", "/accepted"): CREW,
    ("POST", "/accepted/withdrawal"): {"depot_id": "NYC-01", "target_date": "2025-06-18"},
    ("POST", "/api/v1/overrides/{number}/withdrawal"): {},
}


@pytest.fixture(scope="module", autouse=True)
def secret() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        yield


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Six depots in three cities with totals, and a run with findings in one of them."""
    address = f"sqlite:///{tmp_path_factory.mktemp('access') / 'ledger.db'}"
    fill(address, publication(totals=totals(*CITIES), note="NYC-01 is new"))
    night(address, "night-0", Finding("late", "warn", 40, "demand.csv:9: depot NYC-01: 9 days late"), message="PHL-01")
    remember(address)
    with Ledger.open(address) as ledger, ledger.transaction() as connection:
        lease.take(connection, "harbor-fleet", "night-1", NOON)
    return address


@pytest.fixture(scope="module")
def planned(url: str) -> Spec:
    file = Path(url.removeprefix("sqlite:///")).parent / "pipeline.yaml"
    file.write_text(
        f"name: harbor-fleet\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\nstate: .\nledger: {url}\n", "utf-8"
    )
    return load(file)


@pytest.fixture(scope="module")
def app(url: str, planned: Spec) -> FastAPI:
    return house(url, declared(limits={"writes": "1000/minute", "strangers": "1000/minute"}), spec=planned)


@pytest.fixture(scope="module")
def guests(app: FastAPI, url: str) -> dict[str, Guest]:
    screen = Guest(app)
    assert screen(hang_up(url)[1]).status_code == 303
    return {
        "nobody": Guest(app),
        "viewer": signed_in(app, "vic"),
        "planner": signed_in(app, "paula", "staff, planners"),
        "admin": signed_in(app, "ada"),
        "link": screen,
        "foreign": signed_in(app, "bob"),
    }


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    for route in iter_route_contexts(app.routes):
        methods = set(getattr(route.original_route, "methods", None) or {"GET"}) - {"HEAD"}
        yield from ((method, str(route.path)) for method in methods)


def test_the_table_names_every_route_and_no_other(app: FastAPI) -> None:
    assert sorted(routes(app)) == sorted(TABLE)


@pytest.mark.parametrize("route", TABLE, ids=" ".join)
def test_each_route_answers_each_person_with_the_expected_status(
    guests: dict[str, Guest], route: tuple[str, str]
) -> None:
    path, expected = TABLE[route]
    method, body = route[0], BODIES.get(route)
    statuses = []
    for who in WHO:
        ask = guests[who] if method == "GET" or who in ("nobody", "link") else guests[who].writes
        statuses.append(ask(path, method, json=body).status_code)
    assert dict(zip(WHO, statuses, strict=True)) == dict(zip(WHO, expected, strict=True))


@pytest.mark.parametrize("route", [route for route in TABLE if route[0] != "GET"], ids=" ".join)
def test_rejects_writes_without_a_token_or_from_another_site(guests: dict[str, Guest], route: tuple[str, str]) -> None:
    (method, _), (path, _), admin = route, TABLE[route], guests["admin"]
    write = {"method": method, "json": BODIES.get(route)}
    assert "load it again" in admin(path, **write).text
    token = {"X-CSRF-Token": admin("/api/v1/me").json()["csrf"]}
    for foreign in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        answer = admin(path, headers=token | foreign, **write)
        assert (answer.status_code, "cross-origin request" in answer.text.lower()) == (403, True)
    borrowed = {"X-CSRF-Token": guests["viewer"]("/api/v1/me").json()["csrf"]}
    assert "somebody else" in admin(path, headers=borrowed, **write).text


def test_each_write_leaves_one_audit_row_with_person_action_and_address(app: FastAPI, url: str) -> None:
    admin = signed_in(app, "ada")
    before = len(admin("/api/v1/audit").json()["rows"])
    link = admin.writes(
        "/api/v1/links", json={"view": "network", "city": "Boston"}, headers={"X-Forwarded-For": "1.1.1.1, 192.0.2.7"}
    ).json()["link"]
    for _ in range(2):  # the repetition changes nothing and is not audited
        admin.writes(f"/api/v1/links/{link['link_id']}", "DELETE")
    rows = admin("/api/v1/audit").json()["rows"]
    assert len(rows) == before + 2
    row = {name: rows[1][name] for name in ("who", "role", "address", "method", "path", "what")}
    assert row == {
        "who": "ada",
        "role": "admin",
        "address": "192.0.2.7",
        "method": "POST",
        "path": "/api/v1/links",
        "what": f"link {link['link_id']} to network, Boston alone, until 2025-09-15 16:00 UTC",
    }
    assert rows[0]["what"].startswith(f"revoked link {link['link_id']}")


def test_the_middleware_audits_a_write_that_its_route_did_not_audit(url: str) -> None:
    app = house(url, declared())

    @app.put("/forgetful")
    def forgetful() -> str:
        return "written"

    assert signed_in(app, "ada")("/forgetful", "PUT").status_code == 200
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        [row] = ledger_access.entries(connection, "harbor-fleet", 1)
    assert (row.who, row.method, row.path, row.what) == ("ada", "PUT", "/forgetful", "")


# --- cities -----------------------------------------------------------------------------------------------------------


def test_a_reader_of_one_city_finds_no_other_city_in_any_view(guests: dict[str, Guest], app: FastAPI) -> None:
    foreign, admin = guests["foreign"], guests["admin"]
    paths = {TABLE[route][0] for route in routes(app) if route[0] == "GET"}
    readable = [path for path in sorted(paths) if foreign(path).status_code == 200]
    csvs = [f"{path}?format=csv" for path in readable if path.startswith("/api/v1/") and "openapi" not in path]
    hidden = ("NYC-", "PHL-", "New York", "Philadelphia")
    assert len(readable) > 10
    for path in [*readable, *csvs]:
        body = foreign(path).text.replace("America/New_York", "")
        assert [word for word in hidden if word in body] == [], path
    for path in ("/", "/?sort=city", "/api/v1/publication", "/api/v1/runs"):
        assert "NYC-01" in admin(path).text
    assert "BOS-01" in foreign("/").text


def test_a_reader_of_one_city_sees_only_its_accuracy(guests: dict[str, Guest]) -> None:
    rows = guests["foreign"]("/api/v1/accuracy").json()["rows"]
    assert {(row["part"], row["label"]) for row in rows} == {("city", "Boston"), ("depot", "BOS-01")}
    assert {"all", "horizon"} <= {row["part"] for row in guests["viewer"]("/api/v1/accuracy").json()["rows"]}
    assert "10.0 %" in text(guests["foreign"]("/accuracy"))  # 400 of 4,000 orders


def test_a_planner_of_one_city_writes_only_there_and_under_their_own_name(url: str, planned: Spec) -> None:
    access = declared(roles={"planner": ["paula"]}, cities={"paula": ["Boston"]})
    paula = signed_in(house(url, access, spec=planned), "paula")
    answer = paula.writes("/api/v1/overrides", json={**WISH, "depot_id": "BOS-01", "by": "somebody else"})
    assert (answer.status_code, answer.json()["override"]["by"]) == (201, "paula")
    assert paula.writes("/api/v1/overrides", json=WISH).status_code == 404  # as if the depot did not exist
    admin = signed_in(house(url, declared(), spec=planned), "ada")
    other = admin.writes("/api/v1/overrides", json={**WISH, "orders": 201}).json()["override"]["id"]
    assert paula.writes(f"/api/v1/overrides/{other}/withdrawal", json={}).status_code == 422
    assert {row["depot_id"] for row in paula("/api/v1/overrides").json()["overrides"]} == {"BOS-01"}
    assert admin("/api/v1/audit").json()["rows"][0]["what"].startswith(f"override {other}: NYC-01 on 2025-06-18 is 201")


def test_rejects_a_link_for_an_unknown_city(url: str) -> None:
    answer = signed_in(house(url, declared()), "ada").writes("/api/v1/links", json={"view": "wall", "city": "Bostn"})
    sentence = "city: found 'Bostn', wanted a city of what is published: Boston, New York, Philadelphia"
    assert (answer.status_code, answer.json()["detail"]) == (422, sentence)


def test_a_reader_of_one_city_sees_its_total_and_not_the_networks(guests: dict[str, Guest]) -> None:
    rows = guests["foreign"]("/api/v1/totals").json()["rows"]
    assert ({row["city"] for row in rows}, len(rows)) == ({"Boston"}, 7)
    assert {row["city"] for row in guests["viewer"]("/api/v1/totals").json()["rows"]} == {None, *CITIES}
    assert "1,345" in text(guests["viewer"]("/"))  # the network's
    page = text(guests["foreign"]("/"))
    assert "Orders expected tomorrow, Wed 18 Jun 500 80 % range 450–550" in page
    assert "1,345" not in page


def test_a_reader_of_depots_without_a_city_does_not_see_the_networks_total(url: str) -> None:
    vic = signed_in(house(url, declared(cities={"vic": [""]})), "vic")
    assert vic("/api/v1/totals").json()["rows"] == []


def test_a_reader_of_some_cities_sees_each_but_no_sum(app: FastAPI, guests: dict[str, Guest]) -> None:
    two = app.state.access_context.access.model_copy(update={"cities": {"ann": ("Boston", "New York")}})
    ann = signed_in(house(app.state.access_context.url, two), "ann")
    page = text(ann("/"))
    assert "Orders expected tomorrow, Wed 18 Jun Boston 500 New York 500" in page
    assert "Your cities together have no range" in page
    assert "Network" not in page
    assert "1,000" not in page
    assert "Philadelphia" not in page
    assert "1,000" not in text(ann("/wall"))
    assert "Boston 500 450–550" in text(ann("/wall"))


def test_caches_do_not_share_pages_between_readers(guests: dict[str, Guest]) -> None:
    whole = guests["admin"]("/").headers["etag"]
    answer = guests["foreign"]("/", headers={"If-None-Match": whole})
    assert answer.status_code == 200
    assert answer.headers["etag"] != whole
    assert answer.headers["cache-control"] == "private, no-cache"
    assert "Cookie" in answer.headers["vary"]


def test_only_readers_of_all_cities_see_a_depot_without_a_city(tmp_path_factory: pytest.TempPathFactory) -> None:
    url = f"sqlite:///{tmp_path_factory.mktemp('homeless') / 'ledger.db'}"
    fill(url, replace(publication(), depots=(replace(depot(0), attributes={}), depot(3))))
    app = house(url, declared())
    assert signed_in(app, "bob")("/api/v1/depots/BOS-01").status_code == 404
    assert signed_in(app, "bob")("/api/v1/depots/BOS-02").status_code == 200
    assert signed_in(app, "ada")("/api/v1/depots/BOS-01").status_code == 200


def test_explains_a_missing_role_or_city(app: FastAPI, url: str) -> None:
    assert "may see no city" in signed_in(app, "carl")("/api/v1/me").json()["detail"]
    strict = house(url, declared(roles={"viewer": ["vic"]}))
    answer = signed_in(strict, "carl")("/")
    assert (answer.status_code, "has no role here" in answer.text) == (403, True)


# --- where a request comes from ---------------------------------------------------------------------------------------


def test_trusts_headers_only_from_a_declared_proxy(app: FastAPI, caplog: pytest.LogCaptureFixture) -> None:
    liar = Guest(app, {"X-Forwarded-User": "ada"}, address="10.0.0.6")
    answer = liar("/api/v1/audit")
    assert (answer.status_code, answer.json()) == (
        403,
        {"detail": "only a declared proxy may send X-Forwarded-User"},
    )
    assert "refused: 10.0.0.6 sends X-Forwarded-User" in caplog.text
    mapped = Guest(app, {"X-Forwarded-User": "ada"}, address=f"::ffff:{PROXY}")
    assert mapped("/api/v1/audit").status_code == 200


def test_rejects_a_repeated_header(app: FastAPI) -> None:
    guest = Guest(app)
    twice = {b"X-Forwarded-User": b"ada", b"x-forwarded-user": b"vic"}
    answer = guest("/", headers=twice)
    assert answer.status_code == 400


def test_a_person_named_like_a_group_does_not_get_its_role(app: FastAPI) -> None:
    assert signed_in(app, "planners")("/api/v1/me").status_code == 403
    assert signed_in(app, "group:planners")("/api/v1/me").status_code == 403


@pytest.mark.parametrize("name", ["Zoë Ångström", "o'brien@example.com", '"><script>alert(1)</script>', "🚚" * 60])
def test_accepts_any_name_unchanged_and_harmlessly(url: str, name: str) -> None:
    app = house(url, declared(cities={}))
    guest = Guest(app, {b"X-Forwarded-User": name.encode()})  # type: ignore[dict-item]
    assert guest("/api/v1/me").json()["name"] == name


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"base": "http://evil.example"}, "this page is not called"),
        ({"headers": {"Host": "evil_host.example"}}, "this page is not called"),
        ({"headers": {"Host": "localhost@evil.example"}}, "this page is not called"),
        ({"address": "192.0.2.9"}, "serves only its own machine"),
        ({"headers": {"X-Forwarded-For": "192.0.2.9"}}, "this request came through a proxy"),
    ],
)
def test_without_sign_in_only_this_machine_has_access(url: str, changes: dict[str, object], sentence: str) -> None:
    app = house(url, declared(sign_in="none"))
    this_machine = {"address": "127.0.0.1", "base": "http://localhost:8000"}
    assert Guest(app, **this_machine)("/api/v1/me").json()["role"] == "admin"  # type: ignore[arg-type]
    answer = Guest(app, **(this_machine | changes))("/api/v1/me")  # type: ignore[arg-type]
    assert answer.status_code == 403
    assert sentence in answer.json()["detail"]


def test_a_page_without_sign_in_listens_only_on_this_machine(url: str) -> None:
    spec = SimpleNamespace(
        name="harbor-fleet", ledger_url=url, page=Page(), calendar=Calendar(), staffing=None, file=None
    )
    for host in ("0.0.0.0", "192.0.2.1", "::", "depots.example"):
        with pytest.raises(SpecError, match=f"--host: found {host}, which others can reach"):
            serve(spec, host=host, port=0)  # type: ignore[arg-type]


def test_readiness_shows_no_details_to_unauthenticated_clients(tmp_path_factory: pytest.TempPathFactory) -> None:
    app = house(f"sqlite:///{tmp_path_factory.mktemp('none') / 'secret-place.db'}", declared())
    answer = Guest(app)("/readyz")
    assert (answer.status_code, answer.text) == (503, "not ready\n")
    assert "secret-place" in signed_in(app, "ada")("/readyz").text
