"""A planner edits a depot's week in a real browser: the answer appears while choosing, and works
without JavaScript."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests import fleets
from tests.e2e.browsing import CHROMIUM, faults, running, too_wide
from tests.e2e.test_schedules import WITH_SPEC
from tests.fleets import AS_OF
from tests.planning.nights import publish_nights
from tests.planning.test_shift_edits import FRIDAY, STAFFING

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    people = "\n".join(["person,depot_id,contract,first,not", f"Ana,A,full-time,{FRIDAY},", "Bo,A,full-time,,late", ""])
    fleet = publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=STAFFING, people=people)
    program = WITH_SPEC.replace("harbor-fleet", fleet.spec.name)
    with running(program, fleet.spec.ledger_url, AS_OF.isoformat(), str(fleet.file)) as base_url:
        yield base_url


def test_shift_edit_is_previewed_saved_and_undone(browser: Browser, address: str) -> None:
    with browser.new_context(locale="en-GB") as context:
        page = context.new_page()
        page.goto(f"{address}depot/A")
        page.get_by_role("link", name="Edit this week").click()
        page.get_by_label("Bo, Thu 11 Apr").select_option("free")
        expect(page.get_by_text("Bo, Thu 11 Apr: free instead of early")).to_be_visible()
    with browser.new_context(java_script_enabled=False, locale="en-GB") as context:
        page = context.new_page()
        page.goto(f"{address}shifts?depot=A")
        page.get_by_label("Bo, Thu 11 Apr").select_option("free")
        page.get_by_role("button", name="Show what changes").click()
        expect(page.get_by_text("Bo, Thu 11 Apr: free instead of early")).to_be_visible()
        page.get_by_label("Your name").fill("Mia")
        page.get_by_role("button", name="Save").click()
        assert page.get_by_label("Bo, Thu 11 Apr").input_value() == "."
        page.get_by_label("Your name").fill("Mia")
        page.get_by_role("button", name="Undo the last edit").click()
        assert page.get_by_label("Bo, Thu 11 Apr").input_value() == "-"
    for language, width in (("en", 320), ("en", 1440), ("de", 390), ("ar", 768)):
        with browser.new_context(viewport={"width": width, "height": 800}) as context:
            page = context.new_page()
            page.goto(f"{address}shifts?depot=A&language={language}")
            assert not too_wide(page), (language, width)
            assert faults(page) == [], (language, width)
