"""Sign-in at a real OpenID provider on loopback: authorization code with PKCE."""

from __future__ import annotations

import json
import time
from base64 import b64decode
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from joserfc.jwk import RSAKey

from dashboards.ops.access import sessions
from dashboards.ops.access.oidc import is_ours
from forecaster.errors import SpecError
from forecaster.ledger import access as ledger_access
from forecaster.ledger import tables
from forecaster.ledger.store import Ledger
from tests.dashboards.access.test_access import routes
from tests.dashboards.guests import HOME, SECRET, Guest, declared, house
from tests.dashboards.provider import CLIENT, Provider, providing
from tests.dashboards.provider import SECRET as GIVEN
from tests.dashboards.seed import NOON, fill, publication


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing(f"{HOME}/sign-in/back") as running:
        yield running


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    address = f"sqlite:///{tmp_path_factory.mktemp('oidc') / 'ledger.db'}"
    fill(address, publication())
    return address


@pytest.fixture(scope="module")
def app(provider: Provider, url: str) -> Iterator[FastAPI]:
    oidc = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret": "${OIDC_SECRET}"}
    roles = {"admin": ["ada@example.com"], "planner": ["group:planners"]}
    access = declared(
        sign_in="oidc", oidc=oidc, proxies=[], roles=roles, cities={}, limits={"strangers": "1000/minute"}
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        patch.setenv("OIDC_SECRET", GIVEN)
        yield house(url, access)


@pytest.fixture
def guest(provider: Provider, app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> Guest:
    """Return somebody who has not signed in."""
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setenv("OIDC_SECRET", GIVEN)
    provider.signs_in, provider.called, provider.audience = {"email": "ada@example.com"}, None, CLIENT
    return Guest(app, address="192.0.2.20")


def sent(guest: Guest, path: str = "/depot/BOS-01?x=1") -> httpx.Response:
    """Go from the page to the provider and back; returns the page's final answer."""
    begun = guest(path)
    assert begun.status_code == 303
    at_provider = guest(begun.headers["location"])
    assert at_provider.status_code == 302, at_provider.text
    back = httpx.get(at_provider.headers["location"])
    return guest(back.headers["location"].removeprefix(HOME))


def test_sign_in_redirects_to_the_requested_page(guest: Guest) -> None:
    landed = sent(guest)
    assert (landed.status_code, landed.headers["location"]) == (303, "/depot/BOS-01?x=1")
    assert guest("/depot/BOS-01").status_code == 200
    me = guest("/api/v1/me").json()
    assert (me["name"], me["role"]) == ("ada@example.com", "admin")
    assert guest.writes("/api/v1/links", json={"view": "network"}).status_code == 201


def test_the_session_cookie_is_hidden_from_scripts_and_other_sites(guest: Guest) -> None:
    cookie = sent(guest).headers["set-cookie"]
    assert cookie.startswith("__Host-session=")
    assert {"path=/", "httponly", "samesite=lax", "secure", "Max-Age=43200"} <= set(cookie.split("; ")[1:])


def test_sign_in_sends_pkce_state_and_nonce(guest: Guest) -> None:
    query = parse_qs(urlsplit(guest("/sign-in").headers["location"]).query)
    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [f"{HOME}/sign-in/back"]
    assert all(query[name] for name in ("state", "nonce", "code_challenge"))


def test_signing_in_adds_five_routes_to_those_of_the_page(guest: Guest, url: str) -> None:
    """Access to the other routes is covered in test_access.py."""
    added = set(routes(guest.app)) - set(routes(house(url, declared())))
    ways = {("GET", "/sign-in"), ("GET", "/sign-in/back"), ("POST", "/sign-out"), ("GET", "/sign-out")}
    assert added == ways | {("GET", "/sessions"), ("POST", "/sessions")}


def test_groups_give_roles(guest: Guest, provider: Provider) -> None:
    provider.signs_in = {"email": "paula@example.com", "groups": ["staff", "planners"]}
    sent(guest)
    assert guest("/api/v1/me").json()["role"] == "planner"
    assert guest("/api/v1/audit").status_code == 403


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"audience": "another page"}, "aud"),
        ({"signs_in": {"name": "Ada"}}, "it did not send your email"),
        *(
            ({"signs_in": {"email": "ada@example.com", "email_verified": value}}, "has not verified")
            for value in (False, "false", "no", 0, 1, None, "", [True])
        ),
        *(
            ({"signs_in": {"email": "ada@example.com", "groups": value}}, "groups: found")
            for value in (5, True, {"planners": True}, [5], [["planners"]], ["planners", " "], [" planners"], [None])
        ),
        *(
            ({"signs_in": {"email": value}}, "email: found")
            for value in (" ada@example.com ", "ada@example.com ", 5, {"value": "ada@example.com"}, ["ada"], "ada\n@x")
        ),
        ({"signs_in": {}, "tells": {"email": "ada@example.com", "email_verified": False}}, "has not verified"),
        (
            {"signs_in": {"email_verified": True}, "tells": {"email": "ada@example.com", "email_verified": False}},
            "has not verified",
        ),
        ({"signs_in": {}, "tells": {"email": "ada@example.com", "sub": "2"}}, "two people"),
        ({"signs_in": {}, "tells": ["ada@example.com"]}, "not a JSON object"),
        ({"signs_in": {}, "tells": 5}, "not a JSON object"),
        ({"key": RSAKey.generate_key(2048, {"kid": "k1"})}, "ad_signature"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_rejects_uncertain_identities(
    guest: Guest, provider: Provider, wrong: dict[str, Any], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent(guest)  # so that the page knows the provider's key
    guest.cookies.clear()
    for name, value in wrong.items():
        monkeypatch.setattr(provider, name, value)
    answer = sent(guest)
    assert answer.status_code == 401
    assert sentence in answer.text
    assert "Traceback" not in answer.text
    assert guest("/api/v1/me").status_code == 401


def test_rejects_a_provider_with_another_issuer_name(guest: Guest, provider: Provider, url: str) -> None:
    provider.called = "https://login.example"
    answer = replace(guest, app=house(url, guest.app.state.access_context.access))("/sign-in")
    assert answer.status_code == 503
    assert "it calls itself &#39;https://login.example&#39;" in answer.text


def test_rejects_an_unsolicited_sign_in_answer(guest: Guest) -> None:
    answer = guest("/sign-in/back?code=stolen&state=made-up")
    assert answer.status_code == 401
    assert guest("/sign-in/back?error=access_denied").status_code == 401


def test_an_expired_session_requires_a_new_sign_in(guest: Guest, url: str) -> None:
    sent(guest)
    later = replace(guest, app=house(url, guest.app.state.access_context.access, NOON + timedelta(hours=13)))
    assert later("/").status_code == 303
    assert later("/api/v1/me").json() == {"detail": "nobody has signed in; sign in at /sign-in"}


def test_signing_out_removes_access(guest: Guest) -> None:
    sent(guest)
    assert guest("/sign-out", "POST", headers={"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert guest("/api/v1/me").status_code == 200
    gone = guest("/sign-out", "POST")
    assert (gone.status_code, gone.headers["location"]) == (303, "/sign-out")
    assert gone.headers["clear-site-data"] == '"cache", "storage"'
    assert "You have signed out" in guest("/sign-out").text
    assert guest("/api/v1/me").status_code == 401


def test_signing_out_ends_every_copy_of_a_session(guest: Guest) -> None:
    sent(guest)
    copy = Guest(guest.app, address="192.0.2.99", cookies=httpx.Cookies(dict(guest.cookies)))
    elsewhere = Guest(house_again(guest), address="192.0.2.99", cookies=httpx.Cookies(dict(guest.cookies)))
    assert [other("/api/v1/me").status_code for other in (copy, elsewhere)] == [200, 200]
    guest("/sign-out", "POST")
    time.sleep(sessions.REREAD_SECONDS)  # the delay of a page in another process
    assert [other("/api/v1/me").status_code for other in (copy, elsewhere)] == [401, 401]


def house_again(guest: Guest, now: datetime = NOON) -> FastAPI:
    context = guest.app.state.access_context
    return house(context.url, context.access, now)


def test_the_cookie_contains_no_name_or_group_and_the_ledger_no_token(guest: Guest, provider: Provider) -> None:
    provider.signs_in = {"email": "paula@example.com", "groups": ["planners"]}
    sent(guest)
    held = json.loads(b64decode(guest.cookies["__Host-session"].split(".")[0]))
    assert list(held) == ["id"]
    with Ledger.open_reader(guest.app.state.access_context.url) as ledger, ledger.transaction() as connection:
        rows = connection.execute(sa.select(tables.sessions)).mappings().all()
    assert held["id"] not in str(rows)
    assert "planners" in str(rows)


def test_groups_are_fetched_again_after_a_quarter_of_the_session(guest: Guest, provider: Provider) -> None:
    provider.signs_in = {"email": "paula@example.com", "groups": ["planners"]}
    sent(guest)
    fresh = replace(guest, app=house_again(guest, NOON + timedelta(hours=2.9)))
    assert fresh("/api/v1/me").json()["role"] == "planner"
    later = replace(guest, app=house_again(guest, NOON + timedelta(hours=3)))
    assert later("/api/v1/me").status_code == 401
    provider.signs_in = {"email": "paula@example.com", "groups": []}
    assert sent(later, "/roster").headers["location"] == "/roster"
    assert later("/api/v1/me").json()["role"] == "viewer"


@pytest.mark.parametrize("verified", [True, "true"])
def test_accepts_a_verified_email(guest: Guest, provider: Provider, verified: object) -> None:
    provider.signs_in = {"email": "ada@example.com", "email_verified": verified}
    sent(guest)
    assert guest("/api/v1/me").status_code == 200


def test_rejects_a_forged_session_cookie(guest: Guest) -> None:
    sent(guest)
    whole = guest.cookies["__Host-session"]
    forged = Guest(guest.app, address=guest.address, cookies=httpx.Cookies({"__Host-session": "x" + whole[1:]}))
    assert forged("/api/v1/me").status_code == 401


def test_reports_an_unreachable_provider(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    oidc = {"issuer": "http://127.0.0.1:1", "client_id": CLIENT}
    guest = Guest(house(url, declared(sign_in="oidc", oidc=oidc)), address="192.0.2.20")
    answer = guest("/sign-in")
    assert answer.status_code == 503
    assert "http://127.0.0.1:1 cannot be asked who you are" in answer.text


def test_a_secret_that_is_missing_or_short_stops_the_page(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAGE_SECRET", raising=False)
    with pytest.raises(SpecError, match="needs the environment variable PAGE_SECRET, which is not set"):
        house(url, declared())
    monkeypatch.setenv("PAGE_SECRET", "short")
    with pytest.raises(SpecError, match=r"page\.access\.secret: \$\{PAGE_SECRET\} holds 5 characters, wanted 32"):
        house(url, declared())


@pytest.mark.parametrize(
    ("path", "ours"),
    [
        ("/depot/A%2FB?x=1", True),
        ("//evil.example", False),
        ("/\\evil.example", False),
        ("https://evil.example", False),
        ("/\r\nSet-Cookie: a=b", False),
        ("", False),
    ],
)
def test_sign_in_never_redirects_to_another_host(path: str, ours: bool) -> None:
    assert is_ours(path) == ours


def test_people_see_their_sessions_and_sign_out_everywhere(
    guest: Guest, provider: Provider, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sessions, "REREAD_SECONDS", 0.0)
    laptop, phone, other = guest, Guest(guest.app, address="192.0.2.21"), Guest(guest.app, address="192.0.2.22")
    assert laptop("/sessions").status_code == 303
    laptop.writes("/sign-out")
    provider.signs_in = {"email": "bob@example.com"}
    sent(other)
    provider.signs_in = {"email": "eve@example.com"}
    for browser in (laptop, phone):
        sent(browser)
    page = phone("/sessions")
    assert page.headers["Cache-Control"] == "no-store"
    assert "Browsers in which eve@example.com is signed in" in page.text
    assert (page.text.count("until Wed"), page.text.count("this browser")) == (2, 1)
    assert phone("/sessions", "POST").status_code == 403  # without a page's token
    out = phone.writes("/sessions")
    assert (out.status_code, out.headers["Location"]) == (303, "/sign-out")
    assert out.headers["Clear-Site-Data"] == '"cache", "storage"'
    assert [browser("/").status_code for browser in (laptop, phone, other)] == [303, 303, 200]


def test_records_successful_and_rejected_sign_ins(
    guest: Guest, provider: Provider, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    provider.signs_in = {"email": "ida@example.com"}
    sent(guest)
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        newest = ledger_access.entries(connection, "harbor-fleet", 1)[0]
    assert (newest.who, newest.role, newest.address) == ("ida@example.com", "viewer", "192.0.2.20")
    assert (newest.method, newest.path, newest.what) == ("GET", "/sign-in/back", "signed in")
    guest.app.state.access_context.warnings._next = 0.0  # as a minute later
    assert guest("/sign-in/back?error=access_denied&error_description=a%0Aforged+line").status_code == 401
    [line] = [record.getMessage() for record in caplog.records if record.name == "forecaster.page"]
    assert line.startswith("sign-in refused from 192.0.2.20: access_denied")
    assert "\n" not in line
