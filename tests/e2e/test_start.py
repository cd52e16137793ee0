"""The guide in a real browser: a newcomer with a file of any of seven shapes gets a correct first
forecast without a terminal, in a few clicks."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page

from tests.e2e.browsing import CHROMIUM, ROOT, faults, too_wide
from tests.onboarding import made_up_files

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]
MOST_CLICKS = 5
SEEN_IN_A_BROWSER = (made_up_files.daily_csv, made_up_files.wide_workbook, made_up_files.orders)
PATIENCE = 180_000  # milliseconds for a first forecast on a busy machine
SERVED = (
    "import sys; from pathlib import Path; from dashboards.start.server import start; start(Path(sys.argv[1]), port=0)"
)


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Address of the guide for a new folder; its run ends with it."""
    with guide("-c", SERVED, str(tmp_path / "fleet")) as address:
        yield address


@contextmanager
def guide(*arguments: str) -> Iterator[str]:
    """Yield the address printed by a guide in a separate process."""
    command = [sys.executable, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = re.search(r"http://\S+", server.stdout.readline())
        assert line is not None
        yield line[0]
        server.send_signal(signal.SIGTERM)


class Clicks:
    """Clicks and counts; checks the accessibility of every page in between."""

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0

    def on(self, target: Locator) -> None:
        target.click()
        self.count += 1

    def arrives(self, step: str) -> None:
        self.page.wait_for_url(re.compile(step), timeout=60_000)
        assert not too_wide(self.page)
        assert faults(self.page) == []


@pytest.mark.parametrize(
    "shape",
    [
        # One of each kind in a browser; all use the guide's forms in
        # `tests/dashboards/start/test_guide.py`.
        pytest.param(shape, id=shape.__name__, marks=[] if shape in SEEN_IN_A_BROWSER else pytest.mark.exhaustive)
        for shape in made_up_files.OF_NEWCOMERS
    ],
)
def test_newcomer_gets_a_correct_first_forecast(
    shape: Callable[[Path, date], Path], browser: Browser, address: str, tmp_path: Path
) -> None:
    file = shape(tmp_path, date.today() - timedelta(days=1))
    of_orders = "orders" in shape.__name__
    levels = made_up_files.FEW if of_orders else made_up_files.DEPOTS
    with browser.new_context() as context:
        page = context.new_page()
        messages: list[str] = []
        page.on("console", lambda message: messages.append(message.text))
        page.goto(address)
        clicks = Clicks(page)
        clicks.arrives("/start$")
        with page.expect_file_chooser() as chooser:
            clicks.on(page.get_by_label("Drop files here"))
        chooser.value.set_files(file)
        clicks.on(page.get_by_role("button", name="Read them"))
        clicks.arrives("/start/columns")
        assert "3 sites ('Köln', 'München', 'Wedding')" in page.locator("pre").first.inner_text()
        page.get_by_label("Country").fill("DE")
        clicks.on(page.get_by_role("button", name="Right: write pipeline.yaml"))
        clicks.arrives("/start/check")
        assert page.get_by_role("heading", level=1).inner_text() == "A forecast can start from this"
        assert page.get_by_role("img", name="Actual orders of all depots together").is_visible()
        clicks.on(page.get_by_role("button", name="Make the first forecast"))
        clicks.arrives("/start/forecast")
        page.get_by_role("heading", level=1, name="The first forecast is ready").wait_for(timeout=PATIENCE)
        clicks.on(page.get_by_role("link", name="Open the page of the forecasts"))
        rows = page.locator(".cells tbody:not(.totals) tr")
        tomorrow = rows.locator("td.meant b").all_inner_texts()
        forecasts = dict(zip(rows.locator("th").all_inner_texts(), tomorrow, strict=True))
        assert messages == []
    assert forecasts.keys() == levels.keys()
    for depot, level in levels.items():
        assert float(forecasts[depot].replace(",", "")) == pytest.approx(level * 1.06, rel=0.5 if of_orders else 0.15)
    assert clicks.count <= MOST_CLICKS


def test_every_step_works_without_javascript_on_a_phone(browser: Browser, address: str, tmp_path: Path) -> None:
    file = made_up_files.daily_csv(tmp_path, date.today() - timedelta(days=1))
    with browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844}) as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_label("Drop files here").set_input_files(file)
        page.get_by_role("button", name="Read them").click()
        page.get_by_label("Taken as: orders").select_option("count")
        page.get_by_role("button", name="Read it again").click()
        assert "the count is 'orders'" in page.locator("pre").first.inner_text()
        page.get_by_role("button", name="Right: write pipeline.yaml").click()
        assert page.get_by_role("heading", level=1).inner_text() == "A forecast can start from this"
        page.get_by_role("button", name="Make the first forecast").click()
        assert page.get_by_role("heading", level=1).inner_text() == "The first forecast is being made"
        page.get_by_role("link", name="Every night").click()
        assert "--plain --due" in page.locator("pre").first.inner_text()


def test_too_large_file_is_rejected_before_upload(browser: Browser, address: str, tmp_path: Path) -> None:
    file = tmp_path / "large.csv"
    with file.open("wb") as sparse:
        sparse.truncate((100 << 20) + 1)
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        chosen = page.get_by_label("Drop files here")
        chosen.set_input_files(file)
        assert "wanted at most 100 MB" in chosen.evaluate("input => input.validationMessage")
        page.get_by_role("button", name="Read them").click()
        assert page.url == address


def test_demo_needs_one_command(browser: Browser, tmp_path: Path) -> None:
    folder = str(tmp_path / "demo")
    with guide("-m", "forecaster", "demo", folder, "--port", "0") as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)  # becomes the page of the forecasts once there is one
        page.get_by_role("heading", level=1, name="The first forecast is ready").wait_for(timeout=PATIENCE)
        page.get_by_role("link", name="Open the page of the forecasts").click()
        assert "Orders expected" in page.get_by_role("heading", level=1).inner_text()
    with guide("-m", "forecaster", "demo", folder, "--port", "0") as address, browser.new_context() as context:
        page = context.new_page()
        page.goto(address)
        assert "Orders expected" in page.get_by_role("heading", level=1).inner_text()
