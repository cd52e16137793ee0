"""Settings: admins check the pipeline file, review changes, apply it, start a run, and manage links
and sessions."""

from __future__ import annotations

import html
import json
import os
import re
from base64 import b64encode
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from time import monotonic, sleep

import httpx
import pytest
from fastapi import FastAPI
from itsdangerous import TimestampSigner

from dashboards.ops.access import sessions
from dashboards.ops.portal.app import create_portal
from forecaster.config import Page, Spec, load
from forecaster.errors import SpecError
from forecaster.ledger import access as ledger_access
from forecaster.ledger import lease
from forecaster.ledger.store import Ledger
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.dashboards.seed import NOON, fill, publication
from tests.dashboards.visitor import text
from tests.names import ROOT

TEXT = """\
# Our fleet
name: harbor-fleet
demand: {source: {kind: csv, path: demand.csv}}   # from the tills
state: state
ledger: sqlite:///ledger.db
"""
WRONG = TEXT.replace("state: state", "stat: state\nhorizon: soon")


@pytest.fixture(autouse=True)
def _this_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # for the commands that the page calls


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(TEXT, "utf-8")
    return path


@pytest.fixture
def spec(file: Path) -> Spec:
    spec = load(file)
    fill(spec.ledger_url, publication(3))
    return spec


@pytest.fixture
def app(spec: Spec) -> FastAPI:
    return house(spec.ledger_url, declared(), spec=spec)


@pytest.fixture
def ada(app: FastAPI) -> Guest:
    return signed_in(app, "ada")


def fields(page: httpx.Response) -> dict[str, str]:
    """Return the hidden fields of the file's form."""
    form = page.text.partition('id="file"')[2].partition("</form>")[0]
    return dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', form))


def typed(page: httpx.Response) -> str:
    """Return the content of the text area, as a browser reads it."""
    content = page.text.partition("<textarea")[2].partition(">")[2].partition("</textarea>")[0]
    return html.unescape(content.removeprefix("\n"))


def send(guest: Guest, path: str, text_: str, page: httpx.Response) -> httpx.Response:
    """Send the file's form as a browser does, with CRLF line ends."""
    return guest(path, "POST", data={**fields(page), "text": text_.replace("\n", "\r\n")})


def sentences(url: str) -> list[str]:
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        return [entry.what for entry in ledger_access.entries(connection, "harbor-fleet")]


# --- the file ---------------------------------------------------------------------------------------------------------


def test_checking_a_text_shows_the_commands_messages_and_stores_nothing(ada: Guest, spec: Spec, file: Path) -> None:
    page = ada("/settings")
    assert (typed(page), page.headers["Cache-Control"]) == (TEXT, "no-store")
    answer = send(ada, "/settings/check", WRONG, page)
    assert (answer.status_code, typed(answer)) == (200, WRONG)
    with pytest.raises(SpecError) as refused:
        load(file, WRONG)
    mistakes = [line.removeprefix(f"{file}:").partition(": ") for line in str(refused.value).splitlines()]
    assert [number for number, _, _ in mistakes] == ["4", "5"]
    for number, _, message in mistakes:
        row = next(row for row in answer.text.split("<tr>") if f'class="n">{number}</th>' in row)
        assert html.escape(message, quote=False).replace("'", "&#39;") in row
        assert WRONG.splitlines()[int(number) - 1] in row
    assert "The file is valid." in send(ada, "/settings/check", TEXT, page).text
    assert (file.read_text("utf-8"), sentences(spec.ledger_url)) == (TEXT, [])


def test_checks_are_rate_limited_as_reads(spec: Spec) -> None:
    ada = signed_in(house(spec.ledger_url, declared(limits={"writes": "1/hour"}), spec=spec), "ada")
    page = ada("/settings")
    assert [send(ada, "/settings/check", TEXT, page).status_code for _ in range(3)] == [200] * 3
    assert send(ada, "/settings/changes", TEXT, page).status_code == 200
    assert send(ada, "/settings/changes", TEXT, page).status_code == 429


def test_shows_changes_and_plan_and_then_writes_the_text_unchanged(ada: Guest, spec: Spec, file: Path) -> None:
    file.chmod(0o640)
    new = TEXT.replace("# from the tills", "# from <the> tills & more") + "horizon: 5\n"
    page = ada("/settings")
    assert 'formaction="/settings"' not in page.text
    shown = send(ada, "/settings/changes", new, page)
    seen = html.unescape(re.sub("<[^>]+>", "", shown.text))
    assert "+horizon: 5" in seen
    assert "-demand: {source: {kind: csv, path: demand.csv}}   # from the tills\n+demand" in seen
    assert re.search(r"harbor-fleet, as of .* UTC\nnext night: ", seen)
    assert f"{file.parent}/demand.csv: no such file" in seen
    assert "`forecaster apply pipeline.yaml` deploys exactly this" in seen
    assert (file.read_text("utf-8"), sentences(spec.ledger_url)) == (TEXT, [])
    applied = send(ada, "/settings", new, shown)
    assert (applied.status_code, applied.headers["Location"]) == (303, "/settings#file")
    assert file.read_bytes() == new.encode()
    assert file.stat().st_mode & 0o777 == 0o640
    before, after = (sha256(content.encode()).hexdigest()[:16] for content in (TEXT, new))
    assert sentences(spec.ledger_url) == [f"wrote pipeline.yaml: SHA-256 {before} before, {after} after"]
    assert [path.name for path in file.parent.glob("*pipeline*")] == ["pipeline.yaml"]
    page = ada("/settings")
    assert "This page was started with an earlier pipeline file." in page.text
    assert f"SHA-256 {before} before" in page.text
    assert "Nothing differs from the file on the disk." in send(ada, "/settings/changes", new, page).text


def test_keeps_the_line_ends_of_the_file(ada: Guest, file: Path) -> None:
    file.write_bytes(TEXT.replace("\n", "\r\n").encode())
    shown = send(ada, "/settings/changes", f"{TEXT}horizon: 5", ada("/settings"))
    assert re.findall(r"<(?:ins|del)>(.*?)</", shown.text)[2:] == ["-", "+horizon: 5"]
    assert send(ada, "/settings", f"{TEXT}horizon: 5", shown).status_code == 303
    assert file.read_bytes() == TEXT.replace("\n", "\r\n").encode() + b"horizon: 5"


def test_does_not_overwrite_a_concurrently_changed_file_before_its_changes_are_reviewed(
    ada: Guest, spec: Spec, file: Path
) -> None:
    shown = send(ada, "/settings/changes", TEXT + "horizon: 5\n", ada("/settings"))
    theirs = TEXT + "fleet: theirs\n"
    file.write_text(theirs, "utf-8")
    refused = send(ada, "/settings", TEXT + "horizon: 5\n", shown)
    assert (refused.status_code, typed(refused)) == (409, TEXT + "horizon: 5\n")
    assert "has changed since this page was loaded" in refused.text
    assert 'formaction="/settings"' not in refused.text
    assert (file.read_text("utf-8"), sentences(spec.ledger_url)) == (theirs, [])
    mistaken = send(ada, "/settings/check", WRONG, shown)  # keeps the digest with which the form began
    assert "has changed" in send(ada, "/settings/changes", TEXT, mistaken).text
    again = send(ada, "/settings/changes", TEXT + "horizon: 5\n", refused)
    assert "<del>-fleet: theirs</del>" in again.text
    assert send(ada, "/settings", TEXT + "horizon: 5\n", again).status_code == 303


def test_never_writes_invalid_or_unreviewed_text(ada: Guest, spec: Spec, file: Path) -> None:
    shown = send(ada, "/settings/changes", TEXT + "horizon: 5\n", ada("/settings"))
    for path in ("/settings/changes", "/settings"):
        answer = send(ada, path, WRONG, shown)
        assert (answer.status_code, "unknown key" in answer.text) == (422, True)
    unseen = send(ada, "/settings", TEXT + "horizon: 6\n", shown)
    assert (unseen.status_code, "has changed since its changes were shown" in unseen.text) == (409, True)
    assert (file.read_text("utf-8"), sentences(spec.ledger_url)) == (TEXT, [])


def test_accepts_a_large_file(ada: Guest) -> None:
    large = TEXT + "# staffing\n" * 20_000
    assert "The file is valid." in send(ada, "/settings/check", large, ada("/settings")).text


def test_reports_a_read_only_file_and_offers_no_apply(ada: Guest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # as on a read-only mount; root may write anywhere else
    shown = send(ada, "/settings/changes", TEXT + "horizon: 5\n", ada("/settings"))
    assert "This program may not write the file." in shown.text
    assert "<ins>+horizon: 5</ins>" in shown.text
    assert 'formaction="/settings"' not in shown.text


def test_shows_an_invalid_file_with_its_errors(ada: Guest, file: Path) -> None:
    file.write_bytes(b"name: \xff\n")
    page = ada("/settings")
    assert (page.status_code, "The file is valid." in page.text) == (200, False)
    assert "every day at 03:15" in page.text  # from the served pipeline


# --- runs -------------------------------------------------------------------------------------------------------------


def test_starts_a_run_and_reports_its_end_without_forecasts(spec: Spec, ada: Guest, file: Path) -> None:
    file.write_text(WRONG, "utf-8")
    answer = ada.writes("/settings/run")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/settings#schedule")
    assert "A run is starting." in text(ada("/settings"))
    second = ada.writes("/settings/run")
    assert (second.status_code, "a run is active" in second.text.lower()) == (409, True)
    until = monotonic() + 120
    while "Run now" not in (page := text(ada("/settings"))) and monotonic() < until:
        sleep(0.5)
    assert "The run that this page started ended without forecasts:" in page
    assert "pipeline.yaml:4: unknown key 'stat'" in page
    assert sentences(spec.ledger_url) == ["started a night"]


def test_shows_a_running_run_and_starts_no_second_one(spec: Spec, ada: Guest) -> None:
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        lease.take(connection, "harbor-fleet", "night-2", NOON)
    assert "Run night-2 has been active since 2025-06-17 16:00 UTC" in text(ada("/settings"))
    assert ada.writes("/settings/run").status_code == 409
    assert sentences(spec.ledger_url) == []


# --- who gets in ------------------------------------------------------------------------------------------------------


def test_a_link_is_made_shown_once_and_revoked(app: FastAPI, ada: Guest, spec: Spec) -> None:
    made = ada.writes("/settings/links", data={"view": "network", "city": "Boston", "days": "30"})
    address = re.search(r'<code class="address">https://depots.example(/link/[^<]+)', made.text)
    assert address is not None
    assert Guest(app)(address[1]).status_code == 303
    page = ada("/settings")
    assert address[1] not in page.text
    assert "network · Boston" in text(page)
    number = re.search(r'name="link" value="(\w+)"', page.text)
    assert number is not None
    assert ada.writes("/settings/revoked", data={"link": number[1]}).headers["Location"] == "/settings#links"
    assert "revoked by ada" in ada("/settings").text
    assert Guest(app)(address[1]).status_code == 404
    assert ada.writes("/settings/links", data={"view": "network", "city": "Ulm"}).status_code == 422
    assert [sentence.split()[0] for sentence in sentences(spec.ledger_url)] == ["revoked", "link"]


def test_sessions_are_listed_and_ended(spec: Spec, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "REREAD_SECONDS", 0.0)
    oidc = {"issuer": "https://login.example", "client_id": "depots"}
    app = house(spec.ledger_url, declared(sign_in="oidc", oidc=oidc, proxies=[]), spec=spec)

    def signed_in_at_provider(name: str) -> Guest:
        cookie = app.state.access_context.sessions.begin(name, (), 12, NOON)
        signed = TimestampSigner(SECRET, digest_method=sha256).sign(b64encode(json.dumps(cookie).encode())).decode()
        return Guest(app, cookies=httpx.Cookies({"__Host-session": signed}))

    ada, vic = signed_in_at_provider("ada"), signed_in_at_provider("vic")
    assert vic("/").status_code == 200
    listed = re.findall(r'name="session" value="(\w+)"><button aria-label="Revoke (\w+)"', ada("/settings").text)
    assert [name for _, name in listed] == ["ada", "vic"]
    closing = {"session": listed[1][0]}
    assert ada.writes("/settings/signed-out", data=closing).headers["Location"] == "/settings#links"
    assert vic("/").headers["Location"].startswith("/sign-in")
    assert ada.writes("/settings/signed-out", data=closing).status_code == 404
    assert sentences(spec.ledger_url) == ["signed out vic"]
    with Ledger.open_reader(spec.ledger_url) as ledger, ledger.transaction() as connection:
        assert [row.name for row in ledger_access.sessions(connection, "harbor-fleet", NOON)] == ["ada"]
        assert ledger_access.sessions(connection, "harbor-fleet", NOON + timedelta(hours=12)) == ()
    others = [signed_in_at_provider(name) for name in ("vic", "vic", "bob")]
    assert [guest("/").status_code for guest in others] == [200, 200, 200]
    assert "Sign everybody out" in ada("/settings").text
    assert vic("/settings/all-signed-out", "POST").status_code in (303, 401, 403)
    assert ada.writes("/settings/all-signed-out").headers["Location"] == "/settings#links"
    assert [guest("/").headers["Location"].partition("?")[0] for guest in (ada, *others)] == ["/sign-in"] * 4
    assert sentences(spec.ledger_url)[0] == "signed everybody out: 4 sessions"


# --- where ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/health", "/overrides", "/subscribe?depot=BOS-01"])
def test_only_admins_see_the_menu_entry_even_on_cached_pages(app: FastAPI, path: str) -> None:
    ada, vic = signed_in(app, "ada"), signed_in(app, "vic")
    first, second = ada(path), vic(path)
    assert ['href="/settings"' in answer.text for answer in (first, second, ada(path), vic(path))] == [1, 0, 1, 0]
    if "ETag" in first.headers:
        assert first.headers["ETag"] != second.headers["ETag"]
        assert vic(path, headers={"If-None-Match": first.headers["ETag"]}).status_code == 200


def test_a_page_without_a_pipeline_file_has_no_settings(spec: Spec) -> None:
    ada = signed_in(house(spec.ledger_url, declared()), "ada")
    assert 'href="/settings"' not in ada("/").text
    assert ada("/settings").status_code == 404


def test_each_of_several_pipelines_has_its_own_settings(tmp_path: Path, spec: Spec) -> None:
    other = tmp_path / "other.yaml"
    other.write_text(TEXT.replace("harbor-fleet", "other-fleet"), "utf-8")
    page_section = Page(access=declared())
    specs = [one.model_copy(update={"page": page_section}) for one in (spec, load(other))]
    ada = signed_in(create_portal(specs, clock=lambda: NOON), "ada")  # type: ignore[arg-type]
    page = ada("/p/other-fleet/settings")
    assert (page.status_code, "name: other-fleet" in typed(page)) == (200, True)
    new = typed(page) + "horizon: 5\n"
    shown = send(ada, "/p/other-fleet/settings/changes", new, page)
    assert 'formaction="/p/other-fleet/settings"' in shown.text
    applied = send(ada, "/p/other-fleet/settings", new, shown)
    assert applied.headers["Location"] == "/p/other-fleet/settings#file"
    assert (other.read_text("utf-8"), (tmp_path / "pipeline.yaml").read_text("utf-8")) == (new, TEXT)
