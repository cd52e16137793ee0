"""Two secrets are valid at a time, and the newest signs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from itsdangerous import URLSafeSerializer, URLSafeTimedSerializer
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from dashboards.ops.access import csrf, links
from dashboards.ops.access.signatures import SignedSessions
from dashboards.ops.app import session_options
from dashboards.ops.portal.served import refuse_several_doors
from forecaster.config import Access, load
from forecaster.errors import SpecError
from tests.dashboards.guests import HOME, SECRET, Guest, declared, hang_up, house
from tests.dashboards.seed import fill, publication

SHA256 = {"digest_method": hashlib.sha256}
FORMER, FIRST = "the former secret, which is long enough", "the secret before, which is long enough"


@pytest.fixture(autouse=True)
def secrets() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"PAGE_SECRET": SECRET, "FORMER_PAGE_SECRET": FORMER, "FIRST_PAGE_SECRET": FIRST}.items():
            patch.setenv(name, value)
        yield


@pytest.fixture
def url(tmp_path: Path) -> str:
    fill(address := f"sqlite:///{tmp_path / 'ledger.db'}", publication())
    return address


def rotated(**changes: str) -> Access:
    return declared(former_secret="${FORMER_PAGE_SECRET}", **changes)


@pytest.mark.parametrize(("secret", "opens"), [(SECRET, True), (FORMER, True), (FIRST, False)])
def test_links_and_calendars_stay_valid_while_their_secret_is_declared(url: str, secret: str, opens: bool) -> None:
    app = house(url, rotated())
    for view, address in {"network": "/link/{}", "feed": "/feed/{}/ics"}.items():
        link, _ = hang_up(url, view=view)
        token = URLSafeSerializer(secret, salt="link", signer_kwargs=SHA256).dumps(link.link_id)
        assert (Guest(app)(address.format(token)).status_code in (200, 303)) == opens


def test_only_the_newest_secret_signs_with_sha_256(url: str) -> None:
    context = house(url, rotated()).state.access_context
    link, _ = hang_up(url)
    token = links.address(context.keys, HOME, link).removeprefix(f"{HOME}/link/")
    signer = URLSafeSerializer(SECRET, salt="link", signer_kwargs=SHA256)
    assert signer.loads(token) == link.link_id


@pytest.mark.parametrize(("secret", "status"), [(SECRET, 201), (FORMER, 201), (FIRST, 403)])
def test_an_open_form_stays_valid_after_a_change_of_secrets(url: str, secret: str, status: int) -> None:
    ada = Guest(house(url, rotated()), {"X-Forwarded-User": "ada"})
    token = URLSafeTimedSerializer(secret, salt="csrf", signer_kwargs=SHA256).dumps(["header", "ada"])
    answer = ada("/api/v1/links", "POST", json={"view": "network"}, headers={csrf.HEADER: token})
    assert answer.status_code == status


def test_a_session_stays_valid_while_its_secret_is_declared(url: str) -> None:
    async def visits(request: Request) -> PlainTextResponse:
        request.session["visits"] = request.session.get("visits", 0) + 1
        return PlainTextResponse(str(request.session["visits"]))

    def page(access: Access) -> TestClient:
        app = Starlette(routes=[Route("/", visits)])
        app.add_middleware(SignedSessions, **session_options(house(url, access).state.access_context))
        return TestClient(app, base_url=HOME)

    before = page(declared(secret="${FORMER_PAGE_SECRET}"))
    assert before.get("/").text == "1"
    after, much_later = page(rotated()), page(declared())
    for client in (after, much_later):
        client.cookies = before.cookies
    assert (after.get("/").text, much_later.get("/").text) == ("2", "1")


def test_validates_the_former_secret_like_the_current_one(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORMER_PAGE_SECRET", "short")
    with pytest.raises(SpecError, match=r"page\.access\.former_secret: \$\{FORMER_PAGE_SECRET\} holds 5 characters"):
        house(url, rotated())
    with pytest.raises(ValueError, match="former_secret signs nothing; wanted `secret`"):
        Access(former_secret="${FORMER_PAGE_SECRET}")
    with pytest.raises(ValueError, match="found a secret in the file"):
        declared(former_secret=FORMER)
    specs = []
    for name, further in {"one": "", "two": ", former_secret: '${FORMER_PAGE_SECRET}'"}.items():
        file = tmp_path / f"{name}.yaml"
        access = f"{{sign_in: header, url: '{HOME}', proxies: [10.0.0.5], secret: '${{PAGE_SECRET}}'{further}}}"
        source = "{source: {kind: csv, path: demand.csv}}"
        file.write_text(f"name: {name}\ndemand: {source}\npage: {{access: {access}}}\n", "utf-8")
        specs.append(load(file))
    with pytest.raises(SpecError, match=r"page\.access\.former_secret: found another in two than in one"):
        refuse_several_doors(specs)
