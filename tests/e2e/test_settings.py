"""The settings page in a real browser: a mistake is reported by line while typing; the corrected
text is compared and applied, with and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.dashboards.seed import NOON, fill, publication
from tests.e2e.browsing import CHROMIUM, faults, running, too_wide

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]
TEXT = """\
name: harbor-fleet
demand: {source: {kind: csv, path: demand.csv}}  # from the tills
ledger: sqlite:///ledger.db
"""
SERVED = """
import os, socket, sys, uvicorn
from datetime import datetime
from dashboards.ops.app import create_app
from forecaster.config import load
os.environ["PYTHONPATH"] = os.getcwd()  # for the commands that the page calls
spec = load(sys.argv[1])
app = create_app(spec.ledger_url, pipeline=spec.name, clock=lambda: datetime.fromisoformat(sys.argv[2]), spec=spec)
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.yaml"
    path.write_text(TEXT, "utf-8")
    fill(f"sqlite:///{tmp_path / 'ledger.db'}", publication(3))
    return path


@pytest.fixture
def address(file: Path) -> Iterator[str]:
    with running(SERVED, str(file), NOON.isoformat()) as base_url:
        yield f"{base_url}settings"


def test_mistake_is_reported_while_typing_and_the_fix_is_compared_and_applied(
    browser: Browser, address: str, file: Path
) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        logged: list[str] = []
        page.on("console", lambda message: logged.append(message.text))
        page.goto(address)
        area = page.get_by_label("Pipeline file")
        area.press("Control+End")
        area.press_sequentially("horizont: 5")
        row = page.locator("[data-answer] tbody tr")
        expect(row).to_contain_text("unknown key 'horizont'; did you mean 'horizon'?", timeout=60_000)
        assert row.locator("th").inner_text() == "4"
        assert row.locator("code").inner_text() == "horizont: 5"
        assert faults(page) == []
        for _ in "t: 5":
            area.press("Backspace")
        area.press_sequentially(": 5\n")
        expect(page.locator("[data-answer]")).to_have_text(re.compile("The file is valid"), timeout=60_000)
        page.get_by_role("button", name="Show what changes").click()
        expect(page.locator("ins").last).to_have_text("+horizon: 5", timeout=60_000)
        assert "next night: " in page.locator("pre").last.inner_text()
        for width in (320, 1440):
            page.set_viewport_size({"width": width, "height": 800})
            assert not too_wide(page)
            assert faults(page) == [], width
        assert file.read_text("utf-8") == TEXT
        page.get_by_role("button", name="Apply").click()
        expect(page.locator("#audit")).to_contain_text("wrote pipeline.yaml: SHA-256", timeout=60_000)
        assert file.read_text("utf-8") == f"{TEXT}horizon: 5\n"
        assert area.input_value() == f"{TEXT}horizon: 5\n"
        assert logged == []


def test_pipeline_file_is_changed_without_javascript(browser: Browser, address: str, file: Path) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.goto(address.removesuffix("settings"))
        page.get_by_role("link", name="Settings").click()
        page.get_by_label("Pipeline file").fill(f"{TEXT}horizont: 5\n")
        page.get_by_role("button", name="Check the text").click()
        assert page.locator("[data-answer] tbody th").inner_text() == "4"
        page.get_by_label("Pipeline file").fill(f"{TEXT}horizon: 5\n")
        page.get_by_role("button", name="Show what changes").click()
        page.get_by_role("button", name="Apply").click()
        assert page.url == f"{address}#file"
        assert file.read_text("utf-8") == f"{TEXT}horizon: 5\n"
