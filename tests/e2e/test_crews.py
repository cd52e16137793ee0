"""A planner sets a crew on a day's page in a real browser, without JavaScript."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests import fleets
from tests.e2e.browsing import CHROMIUM, faults, running, too_wide
from tests.e2e.test_schedules import WITH_SPEC
from tests.fleets import AS_OF
from tests.planning.nights import THURSDAY, current, day, publish_nights
from tests.planning.test_crew_settings import STAFFING

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]


def test_enter_in_the_field_of_a_crew_sets_that_crew(browser: Browser, tmp_path: Path) -> None:
    fleet = publish_nights(tmp_path / "fleet", fleets.counts("AB"), staffing=STAFFING)
    crew = day(current(fleet.spec)).drivers
    assert crew is not None
    program = WITH_SPEC.replace("harbor-fleet", fleet.spec.name)
    with running(program, fleet.spec.ledger_url, AS_OF.isoformat(), str(fleet.file)) as base_url:
        address = f"{base_url}day/{THURSDAY}/A"
        for language, width in (("en", 390), ("de", 1440), ("ar", 768)):
            with browser.new_context(viewport={"width": width, "height": 800}) as context:
                page = context.new_page()
                page.goto(f"{address}?language={language}")
                assert not too_wide(page), (language, width)
                assert faults(page) == [], (language, width)
        with browser.new_context(java_script_enabled=False, locale="en-GB") as context:
            page = context.new_page()
            page.goto(address)
            form = page.locator("form", has=page.get_by_role("button", name="Set this crew"))
            form.get_by_label("Your name").fill("Ana")
            form.get_by_label("Other crew").fill(str(crew + 2))
            form.get_by_label("Other crew").press("Enter")
            page.get_by_text("A planner set this crew.").wait_for()
    assert day(current(fleet.spec)).drivers == crew + 2
