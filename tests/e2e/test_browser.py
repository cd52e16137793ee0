"""The page in a real browser, on a desk and on a phone: readable, quiet and on its own."""

from __future__ import annotations

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.dashboards.seed import NOON, ODD_ID, depot, fill, publication

ROOT = Path(__file__).parents[2]
CHROMIUM = Path("/usr/bin/chromium")
FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
SCREENS = {"desktop": (1280, 800), "phone": (390, 844)}
AT_NOON = """
import socket, sys, uvicorn
from datetime import datetime
from dashboards.ops.server import create_app
app = create_app(sys.argv[1], clock=lambda: datetime.fromisoformat(sys.argv[2]))
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"""
SERVED = """
import sys
from types import SimpleNamespace
from dashboards.ops.server import serve
from forecaster.spec import Page
serve(SimpleNamespace(name="harbor-fleet", ledger_url=sys.argv[1], page=Page()), port=0)
"""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]


@contextmanager
def running(code: str, *arguments: str) -> Iterator[str]:
    """The address that a server in another process prints first."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            found = re.search(r"http://\S+/", server.stdout.readline())
            assert found is not None
            yield found[0]
        finally:
            server.terminate()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where six depots and one with an odd id are shown, at noon of the day they were published."""
    url = f"sqlite:///{tmp_path_factory.mktemp('page') / 'ledger.db'}"
    first = publication()
    fill(url, replace(first, depots=(*first.depots, depot(7, ODD_ID))))
    with running(AT_NOON, url, NOON.isoformat()) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture(params=SCREENS)
def screen(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(screen: str, browser: Browser, address: str) -> Iterator[Page]:
    """A page on one screen that must ask no other host and write nothing into its console."""
    width, height = SCREENS[screen]
    context = browser.new_context(viewport={"width": width, "height": height}, has_touch=screen == "phone")
    opened = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda sent: asked.append(sent.url))
    yield opened
    context.close()
    assert said == []
    assert [sent for sent in asked if not sent.startswith(address)] == []


def shot(page: Page, name: str) -> None:
    folder = ROOT / "var" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=folder / f"{name}.png", full_page=True)


def too_wide(page: Page) -> bool:
    """Does anything reach over the right edge?"""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def overlapping(page: Page) -> list[str]:
    """Texts of the visible picture that lie on one another."""
    found: list[str] = page.evaluate(
        """() => {
          const shown = [...document.querySelectorAll('svg.chart text')]
            .map(t => [t.textContent, t.getBoundingClientRect()]).filter(([, r]) => r.width > 0);
          const on = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
          return shown.flatMap(([t, r], i) => shown.slice(i + 1)
            .filter(([, q]) => on(r, q)).map(([u]) => t + ' / ' + u));
        }"""
    )
    return found


def test_a_depots_numbers_are_found_from_the_network_page(page: Page, screen: str, address: str) -> None:
    page.goto(address)
    assert page.get_by_role("heading", level=1).inner_text().startswith("Orders expected tomorrow, Wed 18 Jun")
    assert not too_wide(page)
    shot(page, f"network-{screen}")
    row = page.get_by_role("row").filter(has_text="NYC-01")
    cells = row.get_by_role("cell").all_inner_texts()
    row.get_by_role("link").click()
    assert page.get_by_role("heading", level=1).inner_text() == "NYC-01"
    tomorrow = page.get_by_role("row").filter(has_text="tomorrow")
    assert tomorrow.get_by_role("cell").all_inner_texts() == cells[:3]  # orders, range, drivers
    pictures = page.get_by_role("img", name=re.compile("Orders a day"))
    assert pictures.count() == 1  # the one drawn for this screen
    assert not too_wide(page)
    assert overlapping(page) == []
    shot(page, f"depot-{screen}")


def test_texts_of_the_picture_are_large_enough_to_read(page: Page, address: str) -> None:
    page.goto(address + "depot/NYC-01")
    heights = page.evaluate(
        "[...document.querySelectorAll('svg.chart text')].map(t => t.getBoundingClientRect().height).filter(h => h)"
    )
    assert min(heights) >= 10


def test_a_depot_with_an_odd_id_is_one_click_away(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name=ODD_ID).click()
    assert page.get_by_role("heading", level=1).inner_text() == ODD_ID
    assert not too_wide(page)


def test_the_style_is_applied_in_light_and_in_dark(page: Page, address: str) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(address)
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == {"rgb(244, 246, 248)", "rgb(14, 21, 28)"}


def test_serve_prints_where_it_listens_and_answers_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())
    with running(SERVED, url) as found, urllib.request.urlopen(found + "readyz", timeout=30) as answer:
        assert answer.read() == b"publication 1 of harbor-fleet\n"
