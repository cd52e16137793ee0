"""Several pipelines in one process: one front page, and strict separation between their readers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dashboards.ops.access import links
from dashboards.ops.portal.app import Portal, create_portal
from dashboards.ops.portal.front_page import FrontPage
from dashboards.ops.portal.served import PREFIX
from dashboards.ops.reading import overview
from forecaster.config import Access, Spec, load
from forecaster.ledger import access as ledger_access
from forecaster.ledger.publication import Publication, PublishedTotal
from forecaster.ledger.store import Ledger
from tests.dashboards.guests import SECRET, Guest, declared, signed_in
from tests.dashboards.seed import CITIES, NOON, fill, publication
from tests.dashboards.visitor import text

RIGHTS = ("nothing", "city", "viewer", "planner", "admin")
PATHS = (
    "/", "/?sort=city", "/wall", "/accuracy", "/value", "/champion", "/health", "/overrides", "/my-depot",
    "/depot/ALPHA-1", "/depot/BRAVO-1", "/my-depot?depot=BRAVO-1", "/day/2025-06-18/ALPHA-1", "/day/2025-06-18/BRAVO-1",
    "/api/v1/publication", "/api/v1/publication?publication=1", "/api/v1/publication?publication=2", "/api/v1/depots",
    "/api/v1/runs", "/api/v1/me", "/api/v1/overrides", "/api/v1/links", "/api/v1/audit", "/api/v1/publications",
    "/api/v1/what-if?depot=BRAVO-1&date=2025-06-18&kind=closed", "/api/v1/totals", "/api/v1/rosters?format=csv",
    "/gone", "/healthz", "/readyz", "/worker.js", "/static/style.css", "/link/none", "/feed/none/ics", "/sign-in",
)  # fmt: skip
WORDS = {"alpha": ("ALPHA-", "Alpha Fleet"), "bravo": ("BRAVO-", "Bravo Fleet")}


def of(name: str, depots: int = 3, **changes: Any) -> Publication:
    """Return a publication with distinctive depots and title."""
    plain = publication(depots, pipeline=name, run_id=f"night-{name}", title=f"{name.title()} Fleet", **changes)
    named = tuple(replace(d, depot_id=f"{name.upper()}-{i}") for i, d in enumerate(plain.depots, 1))
    days = [day.target_date for day in plain.depots[0].days]
    totals = tuple(
        PublishedTotal(
            city, day, (800.0, 850.0, 900.0, 950.0, 1000.0) if city == "" else (80.0, 90.0, 100.0, 110.0, 120.0)
        )
        for city in ("", *CITIES)
        for day in days
    )
    return replace(plain, depots=named, totals=totals)


def spec_of(folder: Path, name: str, url: str, access: Access | None = None) -> Spec:
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}.yaml"
    file.write_text(f"name: {name}\ndemand: {{source: {{kind: csv, path: demand.csv}}}}\nstate: {name}\n", "utf-8")
    spec = load(file)
    page = spec.page if access is None else spec.page.model_copy(update={"access": access})
    return spec.model_copy(update={"ledger": url, "page": page})


def with_rights(place: int) -> Access:
    """Return the access in which each reader "a-b" has the right at position `place` of their name."""
    names = {right: [f"{a}-{b}" for a in RIGHTS for b in RIGHTS if (a, b)[place] == right] for right in RIGHTS}
    cities = {name: ["*"] for name in names["viewer"] + names["planner"]} | {name: ["Boston"] for name in names["city"]}
    return declared(
        roles={"viewer": names["viewer"] + names["city"], "planner": names["planner"], "admin": names["admin"]},
        cities={"*": []} | cities,
        limits=dict.fromkeys(("reads", "writes", "strangers"), "100000/minute"),
    )


@pytest.fixture(scope="module")
def portal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Portal]:
    """Two pipelines in one ledger, with different readers."""
    folder = tmp_path_factory.mktemp("portal")
    url = f"sqlite:///{folder / 'ledger.db'}"
    fill(url, of("alpha"), of("bravo"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        yield create_portal(
            [spec_of(folder, name, url, with_rights(place)) for place, name in enumerate(WORDS)], clock=lambda: NOON
        )


def ask(portal: Portal, who: str, path: str, **options: Any) -> httpx.Response:
    return signed_in(portal, who)(path, **options)  # type: ignore[arg-type]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    a=st.sampled_from(RIGHTS), b=st.sampled_from(RIGHTS), at=st.sampled_from(tuple(WORDS)), path=st.sampled_from(PATHS)
)
def test_a_reader_of_one_pipeline_sees_nothing_of_another(portal: Portal, a: str, b: str, at: str, path: str) -> None:
    rights = {"alpha": a, "bravo": b}
    for address in ("/", "/api/v1/pipelines", f"{PREFIX}{at}{path}"):
        answer = ask(portal, f"{a}-{b}", address)
        hidden = [
            name for name, right in rights.items() if right == "nothing" or (address[:3] == PREFIX and name != at)
        ]
        asked = path.partition("?")[2] + path  # the error for an unknown address repeats what the reader typed
        for name in hidden:
            assert [word for word in WORDS[name] if word in answer.text and word not in asked] == [], (address, name)
    if rights[at] == "nothing":  # like an address of no pipeline
        nobodys = ask(portal, f"{a}-{b}", f"{PREFIX}charlie{path}")
        assert answer.status_code == nobodys.status_code == 404
        assert answer.text.replace(at, "charlie") == nobodys.text
        assert {**answer.headers, "content-length": ""} == {**nobodys.headers, "content-length": ""}


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST"])
@pytest.mark.parametrize("headers", [{}, {"Accept-Language": "de"}, {"X-Forwarded-User": "nothing-nothing"}])
def test_a_hidden_pipeline_answers_like_a_nonexistent_one(portal: Portal, method: str, headers: dict[str, str]) -> None:
    stranger = Guest(portal, headers)  # type: ignore[arg-type]
    for path in (*PATHS, "", "/?language=es", "/openapi.json", "/api/v1/links/none"):
        hidden, absent = (stranger(f"{PREFIX}{name}{path}", method) for name in ("alpha", "gamma"))
        assert hidden.status_code == absent.status_code, path
        assert hidden.status_code != 429, path
        assert hidden.text.replace("alpha", "gamma") == absent.text, path
        locations = hidden.headers.get("location", "").replace("alpha", "gamma")
        unequal = {"content-length": ""}  # compressed length depends on the name
        assert {**hidden.headers, "location": locations, **unequal} == {"location": "", **absent.headers, **unequal}, (
            path
        )


def test_the_front_page_shows_the_day_in_front_and_depots_that_need_attention(portal: Portal) -> None:
    words = text(ask(portal, "admin-viewer", "/"))
    assert "2 pipelines; none need attention." in words
    alpha, bravo = "Alpha Fleet Boston, New York and Philadelphia", "Bravo Fleet Boston, New York and Philadelphia"
    numbers = "900 orders tomorrow, Wed 18 Jun 80 % range 800–1,000 new model"
    assert f"{alpha} {numbers} No depot of 3 needs attention. {bravo} {numbers}" in words
    assert "none need attention" in text(ask(portal, "admin-viewer", "/p/alpha/"))
    found = text(ask(portal, "admin-viewer", "/?q=bravo"))
    assert "1 pipeline for “bravo”; none need attention. Bravo Fleet" in found
    assert "Alpha Fleet" not in found
    assert "No pipeline matches." in text(ask(portal, "admin-nothing", "/?q=bravo"))
    (row,) = ask(portal, "admin-nothing", "/api/v1/pipelines").json()["rows"]
    assert [row[key] for key in ("name", "address", "state", "low", "median", "high", "depots", "attention")] == [
        "alpha", "/p/alpha/", "fresh", 800.0, 900.0, 1000.0, 3, 0,
    ]  # fmt: skip
    assert (
        ask(portal, "admin-nothing", "/api/v1/pipelines?format=csv").text.splitlines()[1].startswith("alpha,/p/alpha/")
    )


def test_a_late_pipeline_is_listed_first_with_a_warning(portal: Portal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FrontPage, "now", lambda _: NOON + timedelta(days=9))
    words = text(ask(portal, "admin-nothing", "/"))
    assert "1 pipeline; 1 needs attention." in words
    assert "late" in words
    assert "These forecasts are stale." in words


def test_a_reader_of_one_city_sees_only_its_numbers(portal: Portal) -> None:
    words = text(ask(portal, "city-nothing", "/"))
    assert "Boston" in words
    assert [city for city in ("New York", "Philadelphia") if city in words] == []
    assert "100 orders tomorrow, Wed 18 Jun" in words
    assert "No depot of 1 needs attention." in words
    row = ask(portal, "city-nothing", "/api/v1/pipelines").json()["rows"][0]
    assert (row["depots"], row["median"]) == (1, 100.0)


def test_rejects_a_form_of_another_pipeline(portal: Portal) -> None:
    ada = signed_in(portal, "admin-admin")  # type: ignore[arg-type]
    tokens = {name: ada(f"/p/{name}/api/v1/me").json()["csrf"] for name in WORDS}
    link = {"view": "wall", "days": 3}

    def post(at: str, token: str) -> httpx.Response:
        return ada(f"/p/{at}/api/v1/links", "POST", json=link, headers={"X-CSRF-Token": tokens[token]})

    assert post("alpha", "alpha").status_code == 201
    assert post("bravo", "alpha").status_code == 403
    audited = {name: ada(f"/p/{name}/api/v1/audit").json()["rows"] for name in WORDS}
    assert [len(rows) for rows in audited.values()] == [1, 0]


def test_a_link_opens_one_view_of_one_pipeline(portal: Portal) -> None:
    ada, screen = signed_in(portal, "admin-admin"), Guest(portal, address="192.0.2.7")  # type: ignore[arg-type]
    token = ada("/p/bravo/api/v1/me").json()["csrf"]
    body = {"view": "wall", "days": 3}
    address = ada("/p/bravo/api/v1/links", "POST", json=body, headers={"X-CSRF-Token": token}).json()["address"]
    assert address.startswith("https://depots.example/p/bravo/link/")
    entered = screen(address.removeprefix("https://depots.example"))
    assert (entered.status_code, entered.headers["location"]) == (303, "/p/bravo/wall")
    assert "__Host-link-bravo=" in entered.headers["set-cookie"]
    assert screen("/p/bravo/wall").status_code == 200
    assert [screen(path).status_code for path in ("/p/bravo/", "/p/alpha/wall", "/")] == [403, 401, 401]


def test_a_link_of_the_command_line_finds_its_pipeline(portal: Portal) -> None:
    link = links.new("wall", None, 3, pipeline="bravo", by="ada", now=NOON)
    with Ledger.open(portal.served["bravo"].context.url) as ledger, ledger.transaction() as connection:
        ledger_access.make_link(connection, link)
    screen = Guest(portal, address="192.0.2.8")  # type: ignore[arg-type]
    entered = screen(links.address((SECRET,), "", link))
    assert (entered.status_code, entered.headers["location"]) == (303, "/p/bravo/wall")
    assert screen("/link/none").status_code == 404


def test_a_feed_of_the_command_line_finds_its_pipeline(portal: Portal) -> None:
    link = links.new("feed", None, 3, pipeline="bravo", by="ada", now=NOON, depot_id="BRAVO-1")
    with Ledger.open(portal.served["bravo"].context.url) as ledger, ledger.transaction() as connection:
        ledger_access.make_link(connection, link)
    calendar = Guest(portal, address="192.0.2.8")  # type: ignore[arg-type]
    address = links.address((SECRET,), "", link)
    assert calendar(address).headers["location"] == f"/p/bravo{address}"
    book = calendar(f"/p/bravo{address}").text
    assert "SUMMARY:BRAVO-1: " in book
    assert "https://depots.example/p/bravo/depot/BRAVO-1" in book.replace("\r\n ", "")
    assert calendar(f"/p/alpha{address}").status_code == calendar(f"/p/gamma{address}").status_code == 401
    assert calendar("/feed/none/ics").status_code == 404


def test_a_browser_remembers_a_depot_of_each_pipeline(portal: Portal) -> None:
    ada = signed_in(portal, "admin-admin")  # type: ignore[arg-type]
    ada("/p/alpha/my-depot?depot=ALPHA-2")
    assert "ALPHA-2" in ada("/p/alpha/my-depot").text
    assert ada("/p/bravo/my-depot").status_code == 200
    assert "ALPHA-2" not in ada("/p/bravo/my-depot").text


def test_each_pipeline_has_its_api_under_its_prefix(portal: Portal) -> None:
    schema = ask(portal, "admin-admin", "/p/alpha/api/v1/openapi.json").json()
    assert schema["servers"] == [{"url": "/p/alpha"}]
    assert "/api/v1/publication" in schema["paths"]
    assert "/api/v1/publication" not in ask(portal, "admin-admin", "/api/v1/openapi.json").json()["paths"]
    assert ask(portal, "admin-admin", "/p/alpha").headers["location"] == "/p/alpha/"


def test_the_service_worker_and_the_style_sheet_are_public(portal: Portal) -> None:
    page = ask(portal, "admin-admin", "/p/alpha/").text
    style = page.split('rel="stylesheet" href="')[1].split('"')[0]
    assert Guest(portal)(style).status_code == 200  # type: ignore[arg-type]
    assert Guest(portal)("/worker.js").status_code == 200  # type: ignore[arg-type]


def test_an_unavailable_or_damaged_ledger_affects_no_other_pipeline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "REREAD_SECONDS", 0.0)
    url, damaged = f"sqlite:///{tmp_path / 'ledger.db'}", tmp_path / "damaged.db"
    fill(url, of("alpha"))
    damaged.write_bytes(b"SQLite format 3\0" + b"?" * 5000)
    urls = {"bravo": f"sqlite:///{tmp_path / 'away.db'}", "alpha": url, "charlie": f"sqlite:///{damaged}", "delta": url}
    portal = create_portal([spec_of(tmp_path, name, urls[name]) for name in urls], clock=lambda: NOON)
    local = Guest(portal, address="127.0.0.1", base="http://localhost:8000")  # type: ignore[arg-type]
    rows = {row["name"]: row for row in local("/api/v1/pipelines").json()["rows"]}
    assert {name: row["state"] for name, row in rows.items()} == {
        "bravo": "away", "charlie": "away", "delta": "empty", "alpha": "fresh",
    }  # fmt: skip
    assert rows["alpha"]["depots"] == 3
    assert "There is no ledger at" in rows["bravo"]["sentence"]
    assert "4 pipelines; 3 need attention." in text(local("/"))
    assert (local("/").status_code, local("/readyz").text, local("/p/alpha/readyz").status_code) == (
        200,
        "ready\n",
        200,
    )
    assert [local(f"/p/{name}/").status_code for name in urls] == [503, 200, 503, 503]
    fill(urls["bravo"], of("bravo"))
    assert "Bravo Fleet" in text(local("/p/bravo/"))
    with Ledger.open(urls["bravo"]) as ledger:
        for run_id, at in (("night-9", NOON), ("night-8", NOON - timedelta(hours=1))):
            ledger.start_run(run_id, pipeline="bravo", as_of=at, spec_digest="", at=at)
            ledger.finish_run(run_id, "failed" if at == NOON else "no_data", 1, at=at)
    rows = {row["name"]: row for row in local("/api/v1/pipelines").json()["rows"]}
    assert (rows["bravo"]["state"], rows["alpha"]["state"]) == ("failed", "fresh")
    assert (
        "The last run failed. The run that began Tue 17 Jun, 12:00 EDT published nothing." in rows["bravo"]["sentence"]
    )
