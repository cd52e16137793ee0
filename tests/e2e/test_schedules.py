"""A planner publishes a week in a real browser, without JavaScript, and the schedules page is
accessible."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.dashboards.routes.test_schedules import NOTICE, declare
from tests.dashboards.seed import NOON, fill, publication
from tests.e2e.browsing import AT_NOON, CHROMIUM, faults, running, too_wide

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]
WITH_SPEC = AT_NOON.replace("import socket", "from forecaster.config import load\nimport socket").replace(
    "create_app(sys.argv[1], clock", "create_app(sys.argv[1], pipeline='harbor-fleet', spec=load(sys.argv[3]), clock"
)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())
    declare(tmp_path, url, NOTICE)
    with running(WITH_SPEC, url, NOON.isoformat(), str(tmp_path / "pipeline.yaml")) as base_url:
        yield base_url


def test_week_is_published_without_javascript_and_readable_on_every_screen(browser: Browser, address: str) -> None:
    with browser.new_context(java_script_enabled=False, locale="en-GB") as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_role("link", name="Published schedule").click()
        page.get_by_label("Your name").first.fill("Ana")
        page.get_by_role("button", name="Publish").first.click()
        assert page.url == f"{address}schedule"
        assert page.get_by_role("row").filter(has_text="by Ana, to 6 depots").count() == 1
        assert page.get_by_role("button", name="Publish").count() == 1  # for the other week
    for language, width in (("en", 320), ("en", 1440), ("de", 390), ("ar", 768)):
        with browser.new_context(viewport={"width": width, "height": 800}) as context:
            page = context.new_page()
            for path in ("", "schedule"):
                page.goto(f"{address}{path}?language={language}")
                assert not too_wide(page), (path, language, width)
                assert faults(page) == [], (path, language, width)
