"""One sign-in holds for all pipelines, and each pipeline decides the role."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from dashboards.ops.access import sessions
from dashboards.ops.portal.app import Portal, create_portal
from tests.dashboards.guests import HOME, SECRET, Guest, declared
from tests.dashboards.portal.test_app import of, spec_of
from tests.dashboards.provider import CLIENT, Provider, providing
from tests.dashboards.provider import SECRET as GIVEN
from tests.dashboards.seed import NOON, fill


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing(f"{HOME}/sign-in/back") as running:
        yield running


@pytest.fixture
def portal(provider: Provider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Portal:
    """Return a portal where Ada is admin of alpha, viewer of bravo, and may see nothing of charlie;
    the first ledger is unavailable."""
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setenv("OIDC_SECRET", GIVEN)
    oidc = {"issuer": provider.issuer, "client_id": CLIENT, "client_secret": "${OIDC_SECRET}"}
    roles = {
        "away": {"viewer": ["*"]},
        "alpha": {"admin": ["ada@example.com"]},
        "bravo": {"viewer": ["group:staff"]},
        "charlie": {"viewer": ["bob@example.com"]},
    }
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, of("alpha"), of("bravo"), of("charlie"))
    (tmp_path / "file").touch()
    urls = dict.fromkeys(roles, url) | {"away": f"sqlite:///{tmp_path / 'file' / 'ledger.db'}"}
    specs = [
        spec_of(tmp_path, name, urls[name], declared(sign_in="oidc", oidc=oidc, proxies=[], roles=of_name, cities={}))
        for name, of_name in roles.items()
    ]
    return create_portal(specs, clock=lambda: NOON)


def test_one_sign_in_holds_for_all_pipelines_with_separate_roles(
    portal: Portal, provider: Provider, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider.signs_in = {"email": "ada@example.com", "groups": ["staff"]}
    guest = Guest(portal, address="192.0.2.20")  # type: ignore[arg-type]
    begun = guest("/p/bravo/roster?city=Boston")
    assert begun.headers["location"] == "/sign-in?next=%2Fp%2Fbravo%2Froster%3Fcity%3DBoston"
    assert guest("/p/nobodys/").headers["location"].startswith("/sign-in?next=")
    at_provider = guest(begun.headers["location"])
    back = httpx.get(at_provider.headers["location"]).headers["location"].removeprefix(HOME)
    assert guest(back).headers["location"] == "/p/bravo/roster?city=Boston"
    assert {name: guest(f"/p/{name}/api/v1/me").json().get("role") for name in ("alpha", "bravo", "charlie")} == {
        "alpha": "admin", "bravo": "viewer", "charlie": None,
    }  # fmt: skip
    rows = guest("/api/v1/pipelines").json()["rows"]
    assert [(row["name"], row["state"]) for row in rows] == [("away", "away"), ("alpha", "fresh"), ("bravo", "fresh")]
    page = guest("/p/alpha/").text
    assert '<form class="crumb" method="post" action="/sign-out">' in page
    listed = guest("/sessions")
    assert "ada@example.com" in listed.text
    [token] = re.findall(r'name="csrf" value="([^"]+)"', listed.text)
    again = Guest(portal, address="192.0.2.20", cookies=httpx.Cookies(guest.cookies))  # type: ignore[arg-type]
    assert again("/sessions", "POST", data={"csrf": token}).headers["location"] == "/sign-out"
    monkeypatch.setattr(sessions, "REREAD_SECONDS", 0.0)
    assert guest("/p/alpha/").status_code == 303
    assert guest("/sign-out", "POST").status_code == 303
    assert [guest(path).status_code for path in ("/", "/p/alpha/", "/p/bravo/")] == [303, 303, 303]
