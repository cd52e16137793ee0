"""Links of wall screens: made, opened, listed and revoked; each opens one view, for reading."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from fastapi import FastAPI

from dashboards.ops.access import links
from forecaster.ledger import access as ledger_access
from forecaster.ledger.store import Ledger
from tests.calls import Call
from tests.dashboards.guests import HOME, SECRET, Guest, declared, hang_up, house
from tests.dashboards.seed import NOON, fill, publication, with_plans
from tests.dashboards.visitor import text

PIPELINE = """
name: harbor-fleet
demand: {source: {kind: csv, path: demand.csv}}
ledger: sqlite:///ledger.db
page: {access: {sign_in: header, url: "https://depots.example", proxies: [10.0.0.5], secret: "${PAGE_SECRET}"}}
"""


@pytest.fixture(scope="module", autouse=True)
def secret() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        yield


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pipeline = tmp_path_factory.mktemp("links") / "pipeline.yaml"
    pipeline.write_text(PIPELINE, "utf-8")
    fill(f"sqlite:///{pipeline.parent / 'ledger.db'}", publication())
    return pipeline


@pytest.fixture(scope="module")
def url(file: Path) -> str:
    return f"sqlite:///{file.parent / 'ledger.db'}"


@pytest.fixture(scope="module")
def app(url: str) -> FastAPI:
    return house(url, declared())


def test_a_screen_opens_its_link_once_and_keeps_access_to_its_view(app: FastAPI, url: str) -> None:
    screen = Guest(app, address="192.0.2.30")
    entered = screen(hang_up(url, city="Boston")[1])
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = entered.headers["set-cookie"]
    assert cookie.startswith("__Host-link=")
    assert {"HttpOnly", "SameSite=lax", "Secure", "Path=/", "Max-Age=7776000"} <= set(cookie.split("; "))
    page = text(screen("/"))
    assert "BOS-01" in page
    assert "NYC-01" not in page
    assert screen("/api/v1/network").status_code == 200
    assert {screen(path).status_code for path in ("/health", "/depot/BOS-01", "/api/v1/depots", "/api/v1/me")} == {403}


def test_only_links_to_plans_show_names_of_people(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, with_plans(publication(), named=True))
    app = house(url, declared())
    crews, plans = Guest(app), Guest(app)
    crews(hang_up(url, view="rosters")[1])
    plans(hang_up(url, view="shifts")[1])
    assert "Ana of BOS-01" in plans("/roster?format=csv").text
    assert (crews("/").status_code, crews("/roster").status_code, crews("/roster?format=csv").status_code) == (
        200,
        403,
        403,
    )
    assert (plans("/").status_code, plans("/roster").status_code, plans("/depot/BOS-01").status_code) == (403, 422, 403)


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_a_link_is_read_only(app: FastAPI, url: str, method: str) -> None:
    screen = Guest(app)
    screen(hang_up(url)[1])
    answer = screen("/api/v1/network", method)
    assert (answer.status_code, answer.json()["detail"]) == (403, "this link allows reading one view only")


def test_a_revoked_link_is_dead_from_the_next_request(app: FastAPI, url: str) -> None:
    link, address = hang_up(url)
    screen = Guest(app)
    screen(address)
    assert screen("/").status_code == 200
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        ledger_access.revoke(connection, "harbor-fleet", link.link_id, by="ada", at=NOON)
    assert screen("/").status_code == 401
    again = Guest(app)(address)
    assert again.status_code == 404
    assert "is no longer valid" in again.text


def test_a_link_expires(url: str) -> None:
    _, address = hang_up(url)
    day_90 = house(url, declared(), NOON + timedelta(days=90) - timedelta(seconds=1))
    assert Guest(day_90)(address).status_code == 303
    assert Guest(house(url, declared(), NOON + timedelta(days=90)))(address).status_code == 404


def test_rejects_forged_signatures(app: FastAPI, url: str) -> None:
    link, address = hang_up(url)
    payload, _, signature = address.removeprefix(f"{HOME}/link/").partition(".")
    forged = links.address(("another key, which is also long enough",), HOME, link).removeprefix(f"{HOME}/link/")
    for token in (link.link_id, payload, f"x{payload}.{signature}", forged, "%00", "x" * 5000):
        assert Guest(app)(f"/link/{token}").status_code == 404


def test_the_command_makes_lists_and_revokes_links(call: Call, file: Path, app: FastAPI) -> None:
    code, out, err = call("link", file, "--view", "network", "--city", "Boston", "--days", "3", "--by", "ada")
    assert (code, err) == (0, "")
    assert re.fullmatch(rf"{HOME}/link/\S+\n", out)
    listed = call("links", file)[1]
    [line] = [
        line for line in listed.splitlines() if line.endswith("made by ada") and "Boston" in line and "2026" in line
    ]
    link_id = line.split()[0]
    assert f"{link_id}  network, Boston  until " in line
    code, out, _ = call("links", file, "--revoke", link_id, "--by", "bob")
    assert (code, " by bob, made by ada" in out) == (0, True)
    assert (
        call("links", file, "--revoke", link_id, "--by", "carol")[1] == out
    )  # the repetition changes nothing and is not audited
    assert call("links", file, "--revoke", "none")[::2] == (
        2,
        "forecaster: there is no link 'none'; `forecaster links FILE` lists them\n",
    )
    lines = call("audit", file)[1].splitlines()
    assert [line.split("  ")[-1] for line in lines[:2]] == [
        f"revoked link {link_id}",
        next(line for line in lines if f"link {link_id} to network" in line).split("  ")[-1],
    ]
    assert "(command, " in lines[0]
    assert '"role": "command"' in call("audit", file, "--json")[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--days", "401"], "--days: found 401, wanted 400 at most"),
        (
            ["--view", "nets"],
            "--view: found 'nets', wanted one of publication, network, wall, rosters, shifts, runs, champions, "
            "accuracy, value, feed, infer, person",
        ),
        (
            ["--city", "Bostn"],
            "--city: found 'Bostn', wanted a city of what is published: Boston, New York, Philadelphia",
        ),
    ],
)
def test_rejects_a_link_that_would_open_nothing(call: Call, file: Path, arguments: list[str], message: str) -> None:
    assert call("link", file, *arguments)[::2] == (2, f"forecaster: {message}\n")


def test_rejects_a_link_to_a_page_without_sign_in(call: Call, tmp_path: Path) -> None:
    file = tmp_path / "pipeline.yaml"
    file.write_text(PIPELINE.split("page:")[0], "utf-8")
    assert "a link needs page.access with sign_in, url and secret" in call("link", file)[2]


def test_escapes_control_characters_in_audit_output(call: Call, file: Path, url: str) -> None:
    entry = ledger_access.AuditEntry(NOON, "harbor-fleet", "eve", "planner", "::1", "POST", "/x", "\x1b[2Jgone")
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        ledger_access.note(connection, entry)
    assert r"\x1b[2Jgone" in call("audit", file)[1]
