"""A person answers shifts on a phone, without JavaScript, in each language."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from dashboards.ops.access import links
from forecaster.core.language import LANGUAGES
from forecaster.ledger import access
from forecaster.ledger.store import Ledger
from tests import fleets
from tests.dashboards.guests import SECRET
from tests.e2e.browsing import CHROMIUM, faults, running, too_wide
from tests.fleets import AS_OF
from tests.planning.nights import publish_nights
from tests.planning.test_shift_edits import FRIDAY, STAFFING

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]
SERVER = """
import socket, sys, uvicorn
from datetime import datetime
from dashboards.ops.app import create_app
from forecaster.config import load
from forecaster.config.access import Access
listener = socket.create_server(("127.0.0.1", 0))
home = f"http://127.0.0.1:{listener.getsockname()[1]}"
spec, now = load(sys.argv[1]), datetime.fromisoformat(sys.argv[2])
people = {"sign_in": "header", "url": home, "proxies": ["10.0.0.5"], "secret": "${PAGE_SECRET}", "roles": {}}
app = create_app(spec.ledger_url, pipeline=spec.name, clock=lambda: now, access=Access(**people), spec=spec)
print(f"{home}/", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"""


@pytest.fixture
def address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Address of Bo's link."""
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    people = "\n".join(["person,depot_id,contract,first,not", f"Ana,A,full-time,{FRIDAY},", "Bo,A,full-time,,late", ""])
    spec = publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=STAFFING, people=people).spec
    link = access.Link("4f1c", spec.name, "person", None, AS_OF, "vic", AS_OF.replace(year=2025), None, None, "A", "Bo")
    with Ledger.open(spec.ledger_url) as ledger, ledger.transaction() as connection:
        access.make_link(connection, link)
    with running(SERVER, str(tmp_path / "fleet" / "pipeline.yaml"), AS_OF.isoformat()) as base_url:
        yield links.address((SECRET,), base_url.rstrip("/"), link)


def test_person_answers_shifts_on_a_phone_without_javascript(browser: Browser, address: str) -> None:
    phone = {"viewport": {"width": 390, "height": 844}, "locale": "en-GB"}
    with browser.new_context(java_script_enabled=False, **phone) as context:
        page = context.new_page()
        page.goto(address)
        thursday = page.get_by_role("form", name="Thu 11 Apr")
        thursday.get_by_role("button", name="Confirm").click()
        expect(thursday).to_contain_text("early 06:00–14:00 · Confirmed")
        thursday.get_by_role("button", name="Decline").click()
        expect(thursday).to_contain_text("You cannot work on this day.")
        thursday.get_by_role("button", name="Withdraw answer").click()
        expect(thursday).to_contain_text("No shift")  # somebody else has the shift by now
        with page.expect_download() as download:
            page.get_by_role("link", name="Calendar").click()
        assert "SUMMARY" in download.value.path().read_text("utf-8")


def test_my_week_is_accessible_in_each_language_and_width(browser: Browser, address: str) -> None:
    words = {"en": "My week", "de": "Meine Woche", "es": "Mi semana", "ar": "أسبوعي"}
    for language, width, colours in (
        ("en", 390, "dark"),
        ("de", 390, "light"),
        ("es", 320, "light"),
        ("ar", 390, "dark"),
    ):
        with browser.new_context(viewport={"width": width, "height": 844}, color_scheme=colours) as context:
            page = context.new_page()
            page.goto(address)
            page.get_by_role("navigation").get_by_role("link", name=LANGUAGES[language], exact=True).click()
            expect(page.get_by_role("heading", level=1)).to_have_text(words[language])
            assert not too_wide(page), (language, width)
            assert faults(page) == [], (language, width)
