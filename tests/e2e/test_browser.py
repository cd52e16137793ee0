"""The page in a real browser, on desktop and phone: accessible, without console messages or
external requests."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboards.provider import CLIENT
from tests.dashboards.seed import NOON, ODD_ID, earlier, fill, publication
from tests.dashboards.signing_in import signing_in
from tests.e2e.browsing import AT_NOON, CHROMIUM, PAGES, faults, running, too_wide

# A phone gets the same elements; only the layout may differ.
OF_LAYOUT = ["color-contrast", "scrollable-region-focusable", "target-size", "meta-viewport", "link-in-text-block"]
SCREENS = {"desktop": (1280, 800), "phone": (390, 844)}
SERVED = """
import sys
from types import SimpleNamespace
from dashboards.ops.server import serve
from forecaster.config import Calendar, Page
values = {"page": Page(), "calendar": Calendar(), "staffing": None, "file": None}
serve(SimpleNamespace(name="harbor-fleet", ledger_url=sys.argv[1], **values), port=0)
"""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]


@pytest.fixture(params=SCREENS)
def screen(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def page(screen: str, browser: Browser, address: str) -> Iterator[Page]:
    """Page on one screen that must not request other hosts or write to the console."""
    width, height = SCREENS[screen]
    context = browser.new_context(viewport={"width": width, "height": height}, has_touch=screen == "phone")
    opened = context.new_page()
    messages: list[str] = []
    addresses: list[str] = []
    opened.on("console", lambda message: messages.append(message.text))
    opened.on("pageerror", lambda error: messages.append(str(error)))
    opened.on("request", lambda request: addresses.append(request.url))
    yield opened
    context.close()
    assert messages == []
    assert [requested for requested in addresses if not requested.startswith(address)] == []


def overlapping(page: Page) -> list[str]:
    """Overlapping texts of the visible chart."""
    texts: list[str] = page.evaluate(
        """() => {
          const shown = [...document.querySelectorAll('svg.chart text')]
            .map(t => [t.textContent, t.getBoundingClientRect()]).filter(([, r]) => r.width > 0);
          const on = (a, b) => a.left < b.right && b.left < a.right && a.top + 3 < b.bottom && b.top + 3 < a.bottom;
          return shown.flatMap(([t, r], i) => shown.slice(i + 1)
            .filter(([, q]) => on(r, q)).map(([u]) => t + ' / ' + u));
        }"""
    )
    return texts


def names(page: Page) -> list[str]:
    """Depots whose rows are shown."""
    return page.locator(".cells tbody:not(.totals) th a").all_inner_texts()


def test_depot_numbers_are_reachable_from_the_network_page(page: Page, screen: str, address: str) -> None:
    page.goto(address)
    assert page.get_by_role("heading", level=1).inner_text().startswith("Orders expected tomorrow, Wed 18 Jun")
    assert not too_wide(page)
    row = page.get_by_role("row").filter(has_text="NYC-01")
    cells = " ".join(row.get_by_role("cell").all_inner_texts()).split()
    row.get_by_role("link", name="NYC-01", exact=True).click()
    assert page.get_by_role("heading", level=1).inner_text() == "NYC-01"
    tomorrow = page.get_by_role("row").filter(has_text="tomorrow")
    numbers = tomorrow.get_by_role("cell").all_inner_texts()  # orders, range, drivers
    assert [cells[2], cells[3]] == [numbers[0], numbers[2]]  # preceded by today's orders and drivers
    pictures = page.get_by_role("img", name=re.compile("Orders a day"))
    assert pictures.count() == 1  # the one drawn for this screen
    assert not too_wide(page)
    assert overlapping(page) == []


def test_chart_texts_are_large_enough_to_read(page: Page, address: str) -> None:
    page.goto(address + "depot/NYC-01")
    heights = page.evaluate(
        "[...document.querySelectorAll('svg.chart text')].map(t => t.getBoundingClientRect().height).filter(h => h)"
    )
    assert min(heights) >= 10


def test_a_depot_with_an_odd_id_is_one_click_away(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("link", name=ODD_ID, exact=True).click()
    assert page.get_by_role("heading", level=1).inner_text() == ODD_ID
    assert not too_wide(page)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_accessible(page: Page, screen: str, address: str, path: str) -> None:
    page.goto(address + path)
    assert not too_wide(page)
    assert faults(page, *(OF_LAYOUT if screen == "phone" else ())) == []
    page.emulate_media(color_scheme="dark")
    assert faults(page, "color-contrast") == []


def test_rows_are_filtered_by_city_searched_and_sorted(page: Page, address: str) -> None:
    page.goto(address)
    page.get_by_role("navigation", name="Cities").get_by_role("link", name="New York").click()
    page.wait_for_url(re.compile("city=New"))
    assert names(page) == ["NYC-01", "NYC-02", ODD_ID]
    page.get_by_role("columnheader", name="Wed").get_by_role("link").click()
    page.wait_for_url(re.compile("sort=2025-06-18"))
    assert page.locator("th[aria-sort]").inner_text().startswith("Wed")
    cells = page.locator(".cells tbody:not(.totals) td:nth-child(3) b").all_inner_texts()
    orders = [int(text.replace(",", "")) for text in cells]
    assert orders == sorted(orders, reverse=True)
    page.get_by_role("searchbox").press_sequentially("nyc-02")  # a partial name is enough
    page.wait_for_url(re.compile("q=nyc-02"))
    page.get_by_role("link", name="NYC-01", exact=True).wait_for(state="detached")
    assert names(page) == ["NYC-02"]
    page.get_by_role("searchbox").fill("nothing of this name")
    page.get_by_text("No depot matches.").wait_for()
    page.get_by_role("searchbox").fill("nyc-01")
    page.get_by_role("link", name="NYC-01", exact=True).wait_for()
    assert "q=nyc-01" in str(page.get_by_role("link", name="CSV").get_attribute("href"))


def test_cell_opens_a_side_panel_and_closes_again(page: Page, address: str) -> None:
    page.goto(address)
    cell = page.get_by_role("link", name=re.compile("^NYC-01, Fri 20 Jun"))
    cell.click()
    panel = page.get_by_role("complementary", name="NYC-01")
    panel.get_by_role("heading", name="NYC-01").wait_for()
    assert "Orders expected Fri 20 Jun" in panel.inner_text()
    assert page.url == address
    assert not too_wide(page)
    assert faults(page, "duplicate-id-aria", "color-contrast", "aria-allowed-role", "label") == []
    page.keyboard.press("Escape")
    panel.wait_for(state="detached")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("NYC-01, Fri 20 Jun")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith("NYC-01, Thu 19 Jun")


def test_chart_values_are_read_by_keyboard_and_pointer(page: Page, address: str) -> None:
    page.goto(address + "depot/NYC-01")
    chart, reading = page.locator("svg.chart:visible"), page.locator("output.reading")
    past, ahead = page.locator(".behind tbody tr"), page.locator("tr:has(a.day)")
    chart.focus()
    page.keyboard.press("End")
    last = [ahead.last.locator("td").nth(place).inner_text() for place in range(2)]
    assert re.search(rf"Orders {last[0]} · 80.% range {last[1]}", reading.inner_text())
    page.keyboard.press("Home")
    for _ in range(int(str(chart.get_attribute("data-days")).split()[3]) - 1):
        page.keyboard.press("ArrowRight")
    newest = past.first.locator("th, td").all_text_contents()
    assert reading.inner_text() == f"{newest[0]} · Orders {newest[1]}"
    box = chart.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] - 12, box["y"] + box["height"] / 2)
    assert reading.inner_text().startswith(ahead.last.locator("a.day").inner_text())


def test_chosen_color_scheme_persists(page: Page, address: str) -> None:
    page.goto(address)
    for name, scheme in (("Colours of the device", "light"), ("Light", "dark")):
        page.get_by_role("button", name=name).click()
        assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == scheme
    page.goto(address + "accuracy")
    assert page.get_by_role("button", name="Dark").count() == 1


def test_search_form_works_without_javascript(browser: Browser, address: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(address)
        page.get_by_role("searchbox").fill("boston")
        page.get_by_role("button", name="Show").click()
        assert names(page) == ["BOS-01", "BOS-02"]


def test_first_tab_stop_skips_the_header(page: Page, address: str) -> None:
    page.goto(address)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the numbers"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.getElementById('main').contains(document.activeElement)")


def test_visited_pages_are_shown_offline_with_a_notice(browser: Browser, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())
    with browser.new_context() as context:
        page = context.new_page()
        with running(AT_NOON, url, NOON.isoformat()) as base_url:
            page.goto(base_url)
            page.evaluate("navigator.serviceWorker.ready.then(() => true)")
            page.wait_for_function("navigator.serviceWorker.controller !== null")
            page.goto(base_url + "depot/NYC-01")
            assert page.get_by_text("No connection.").is_hidden()
            median = page.locator(".big").inner_text()
        page.reload()
        assert page.locator(".big").inner_text() == median
        assert page.get_by_text("No connection.").is_visible()
        assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(246, 247, 249)"
        page.goto(base_url)
        assert page.get_by_role("heading", level=1).inner_text().startswith("Orders expected tomorrow")


def test_slow_response_is_awaited_without_a_cached_page(browser: Browser, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())
    slow = """
import asyncio
@app.middleware("http")
async def slow(request, call_next):
    await asyncio.sleep(9 if request.url.path == "/accuracy" else 0)  # longer than the worker waits
    return await call_next(request)
listener ="""
    program = AT_NOON.replace("listener =", slow, 1)
    with running(program, url, NOON.isoformat()) as base_url, browser.new_context() as context:
        page = context.new_page()
        page.goto(base_url)
        page.evaluate(until("navigator.serviceWorker.controller"))
        page.goto(f"{base_url}accuracy")
        assert page.get_by_text("No connection.").is_hidden()
        assert page.url == f"{base_url}accuracy"


def until(condition: str) -> str:
    """Return a script that waits until a condition holds, and fails after half a minute.

    Playwright's own function would evaluate text, which our pages forbid.
    """
    return f"""async () => {{
      for (const begun = Date.now(); !({condition}); await new Promise(go => setTimeout(go, 20)))
        if (Date.now() - begun > 30_000) throw new Error("not so on " + location.href);
    }}"""


def kept_pages(page: Page) -> list[str]:
    """Addresses cached by the service worker, except static files."""
    cached: list[str] = page.evaluate(
        """async () => {
          const all = await Promise.all((await caches.keys()).map(async name => (await caches.open(name)).keys()));
          return all.flat().map(each => new URL(each.url).pathname).filter(path => !path.startsWith('/static/'));
        }"""
    )
    return sorted(set(cached))


def test_cached_pages_are_deleted_after_sign_out(browser: Browser, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())

    def looks(page: Page) -> None:
        provider.audience = CLIENT
        page.goto(home)
        page.evaluate(until("(await navigator.serviceWorker.getRegistration())?.active"))
        # a page loading while a worker starts, as after signing out, is controlled only after its
        # next load
        page.reload()
        page.evaluate(until("navigator.serviceWorker.controller"))
        page.goto(home + "depot/NYC-01")
        page.evaluate(until("await caches.match('/depot/NYC-01')"))
        provider.audience = "somebody else"  # from now on nobody can sign in

    with signing_in(url) as (home, provider), browser.new_context() as context:
        provider.signs_in = {"email": "vic@example.com"}
        page = context.new_page()
        looks(page)
        assert "/depot/NYC-01" in kept_pages(page)
        page.get_by_role("button", name="Sign out").click()
        page.get_by_role("heading", level=1, name="You have signed out").wait_for()
        assert kept_pages(page) == []
        looks(page)
        context.clear_cookies()
        page.goto(home + "wall")
        assert page.get_by_role("heading", level=1).inner_text() == "Nobody has signed in"
        assert kept_pages(page) == []


def test_wall_screen_updates_itself(browser: Browser, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())
    with running(AT_NOON, url, NOON.isoformat()) as base_url, browser.new_context() as context:
        page = context.new_page()
        page.clock.install()
        page.goto(base_url + "wall")
        assert page.locator(".tier").inner_text() == "new model"
        fill(url, publication(tier="champion"))
        for _ in range(3):  # the first may come within two seconds, and return the old state
            page.clock.fast_forward(61_000)
            page.wait_for_timeout(1000)
        page.get_by_text("earlier model", exact=True).wait_for()
        assert page.locator(".big").count() == 1


def test_wall_screen_fits_every_resolution_and_is_readable_from_four_meters(browser: Browser, tmp_path: Path) -> None:
    """Letters of 2.5 % of the screen's height are 17 mm tall on one of 68 cm; a visual acuity test
    uses 6 mm at 4 m."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, earlier(), publication(64))
    with running(AT_NOON, url, NOON.isoformat()) as base_url:
        letters = []
        for width, height in ((1280, 720), (1920, 1080), (3840, 2160)):
            with browser.new_context(viewport={"width": width, "height": height}) as context:
                page = context.new_page()
                for city in ("", "?city=Boston"):
                    page.goto(f"{base_url}wall{city}")
                    sizes = page.evaluate(
                        "[...document.querySelectorAll('.wall main *')].filter(e => e.checkVisibility() && "
                        "[...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()))"
                        ".map(e => parseFloat(getComputedStyle(e).fontSize))"
                    )
                    assert min(sizes) >= 0.024 * height
                    assert page.evaluate("document.documentElement.scrollHeight") <= height
                letters.append(page.evaluate("parseFloat(getComputedStyle(document.querySelector('.wall')).fontSize)"))
        assert letters[2] == pytest.approx(2 * letters[1])


def test_printed_roster_has_one_page_per_city(browser: Browser, address: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(address + "?sort=city")
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 3
        page.goto(address + "?sort=city&city=Boston")
        assert len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4"))) == 1


def test_style_is_applied_in_light_and_dark(page: Page, address: str) -> None:
    grounds = set()
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.goto(address)
        grounds.add(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert grounds == {"rgb(246, 247, 249)", "rgb(14, 21, 28)"}


def test_serve_prints_its_address_and_answers_there(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication())
    with running(SERVED, url) as base_url, urllib.request.urlopen(base_url + "readyz", timeout=30) as answer:
        assert answer.read() == b"publication 1 of harbor-fleet\n"
