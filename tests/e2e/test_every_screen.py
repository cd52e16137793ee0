"""Every page on every screen: phones of 320 px to desktops, dark, forced colors, zoomed, printed,
and a wall."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from tests.dashboards.portal.test_app import of as fleet
from tests.dashboards.seed import NOON, fill, publication, remember
from tests.e2e.browsing import AT_NOON, CHROMIUM, PAGES, ROOT, faults, running, too_wide

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]

LONG_ID = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaftslager"[:85]
LONG_CITY = "LlanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogochAmTaumatawhakatangihangakoauauo"[:85]
WIDTHS = (320, 390, 768, 1440)


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a page on which every name has 85 letters."""
    url = f"sqlite:///{tmp_path_factory.mktemp('long') / 'ledger.db'}"
    depots = tuple(
        replace(member, depot_id=f"{LONG_ID[:-1]}{number}", attributes={"city": LONG_CITY if number % 2 else "Ulm"})
        for number, member in enumerate(publication().depots)
    )
    fill(url, replace(publication(title=LONG_ID), depots=depots))
    remember(url)
    with running(AT_NOON, url, NOON.isoformat()) as base_url:
        yield base_url


LONG_PAGES = [
    "",
    f"depot/{LONG_ID[:-1]}1",
    "?sort=city",
    f"my-depot?depot={LONG_ID[:-1]}1",
    "my-depot",
    "accuracy",
    "wall",
]
LONG_PAGES += [f"wall?city={LONG_CITY}", "wall?city=nope", "champion", "health"]


def test_no_page_scrolls_sideways_with_names_of_85_letters(browser: Browser, long_names: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        for path in LONG_PAGES:
            page.goto(long_names + path)
            for width in WIDTHS:  # no script depends on the width
                page.set_viewport_size({"width": width, "height": 800})
                assert not too_wide(page), (path, width)


PORTAL = """
import socket, sys, uvicorn
from pathlib import Path
from dashboards.ops.portal.app import create_portal
from tests.dashboards.portal.test_app import spec_of
from tests.dashboards.seed import NOON
urls = {"alpha": sys.argv[1], "bravo": sys.argv[1], "charlie": sys.argv[1] + ".away"}
app = create_portal([spec_of(Path(sys.argv[2]), name, url) for name, url in urls.items()], clock=lambda: NOON)
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"""

SEEN = [
    *(*PAGES, "my-depot", "my-depot?depot=NYC-01", "subscribe?depot=NYC-01"),
    *("wall?city=nope", "?city=nope"),
]
OF_SEVERAL = ["", "p/bravo/day/2025-06-18/BRAVO-1", "p/bravo/overrides", "p/bravo/week-file", "p/bravo/settings"]
OF_SEVERAL += ["p/bravo/depot/BRAVO-1"]


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a page with three pipelines, one degraded, one without a ledger, with planners'
    pages."""
    folder = tmp_path_factory.mktemp("several")
    url = f"sqlite:///{folder / 'ledger.db'}"
    fill(url, replace(fleet("alpha"), title=LONG_ID, tier="fallback"), fleet("bravo"))
    with running(PORTAL, url, str(folder)) as base_url:
        yield base_url


def test_no_script_queries_the_page_width() -> None:
    for file in (ROOT / "dashboards/ops/static").glob("*.js"):
        assert re.search(r"matchMedia|(inner|client|offset|outer)Width|ResizeObserver", file.read_text("utf-8")) is None


def look_everywhere(browser: Browser, url: str, widths: tuple[int, ...]) -> None:
    """Check a page at these widths, dark with forced colors, and at 200 % on a desktop of 1280 px.

    No script depends on any of it: only the style sheet's media queries do, which apply at once.
    """
    with browser.new_context() as context:  # a new window would cost more than all checks
        page = context.new_page()
        page.goto(url)
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            assert not too_wide(page), width
            assert width not in widths or faults(page) == [], width
        page.set_viewport_size({"width": 1280, "height": 720})
        for forced in ("none", "active"):
            page.emulate_media(color_scheme="dark", forced_colors=forced)  # type: ignore[arg-type]
            assert faults(page) == [], forced
    with browser.new_context(viewport={"width": 640, "height": 400}, device_scale_factor=2) as context:  # 1280 at 200 %
        page = context.new_page()
        page.goto(url)
        assert not too_wide(page)
        assert faults(page) == []


at_widths = pytest.mark.parametrize(
    "widths",
    [pytest.param((320, 1440), id="ends"), pytest.param((390, 768), id="between", marks=pytest.mark.exhaustive)],
)


@pytest.mark.parametrize("path", SEEN)
@at_widths
@pytest.mark.long
def test_every_page_is_accessible_at_all_widths_in_dark_forced_colors_and_zoom(
    browser: Browser, address: str, path: str, widths: tuple[int, ...]
) -> None:
    look_everywhere(browser, address + path, widths)


@pytest.mark.parametrize("path", OF_SEVERAL)
@at_widths
@pytest.mark.long
def test_front_page_of_several_pipelines_and_planner_pages_are_accessible(
    browser: Browser, several: str, path: str, widths: tuple[int, ...]
) -> None:
    look_everywhere(browser, several + path, widths)


@pytest.mark.parametrize(("language", "width"), [("de", 390), ("ar", 320)])
@pytest.mark.long
def test_pages_are_accessible_in_german_and_right_to_left(
    browser: Browser, address: str, several: str, language: str, width: int
) -> None:
    pages = [address + path for path in PAGES] + [several + path for path in OF_SEVERAL[:4]]
    with browser.new_context(locale=language, viewport={"width": width, "height": 800}) as context:
        page, wrong = context.new_page(), dict[str, object]()
        for url in pages:
            page.goto(url)
            assert page.evaluate("document.documentElement.lang") == language
            if found := [*(["too wide"] if too_wide(page) else []), *faults(page)]:
                wrong[url] = found
        assert wrong == {}


def test_front_page_links_to_each_pipeline_and_back(browser: Browser, several: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(several)
        page.get_by_role("link", name="Bravo Fleet").click()
        assert page.url == f"{several}p/bravo/"
        page.get_by_role("link", name="BRAVO-1", exact=True).click()
        assert page.url == f"{several}p/bravo/depot/BRAVO-1"
        page.get_by_role("link", name="All pipelines").click()
        assert page.url == several


KEYS = """
const wanted = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
window.tabbable = [...document.querySelectorAll(wanted)].filter(e => e.checkVisibility({checkVisibilityCSS: true}));
window.stops = [];
window.unseen = [];
document.addEventListener('focusin', event => {
  const style = getComputedStyle(event.target), box = event.target.getBoundingClientRect();
  window.stops.push(window.tabbable.indexOf(event.target));
  const outlined = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 1;
  if (!outlined || box.right <= 0 || box.width === 0) window.unseen.push(event.target.outerHTML);
});
window.tabbable.length"""


def tab_through(page: Page) -> None:
    """Check that every tab stop is reached in page order and visible, and that nothing traps the
    keyboard."""
    number = page.evaluate(KEYS)
    assert page.evaluate("window.tabbable[0].className") == "skip"
    for _ in range(number + 3 + 4 * page.locator("input[type=date]").count()):  # day, month, year and picker are stops
        page.keyboard.press("Tab")
    stops = [stop for stop in page.evaluate("window.stops") if stop >= 0]  # a scrolling region is a stop, too
    assert stops[:number] == list(range(number)), page.url
    assert page.evaluate("window.unseen") == [], page.url


@pytest.mark.parametrize("group", ["one pipeline", "several"])
@pytest.mark.long
def test_every_page_is_keyboard_navigable(browser: Browser, address: str, several: str, group: str) -> None:
    base, paths = (address, SEEN) if group == "one pipeline" else (several, OF_SEVERAL)
    with browser.new_context() as context:
        page = context.new_page()
        for path in paths:
            page.goto(base + path)
            tab_through(page)
            if page.evaluate("window.tabbable.some(e => e.closest('main, footer'))"):
                page.goto(base + path)
                page.keyboard.press("Tab")
                page.keyboard.press("Enter")  # on the skip link
                page.keyboard.press("Tab")
                assert page.evaluate("document.activeElement.closest('main, footer') !== null"), path


def test_override_is_saved_and_withdrawn_by_keyboard_alone(browser: Browser, several: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()

        def reach(name: str) -> None:
            """Tab to the element with this name, label or text."""
            label = "(document.activeElement.name || document.activeElement.textContent).trim()"
            for _ in range(80):
                page.keyboard.press("Tab")
                if page.evaluate(label) == name:
                    return
            raise AssertionError(name)

        page.goto(f"{several}p/bravo/day/2025-06-18/BRAVO-2")
        reach("amount")
        page.keyboard.type("77")
        reach("reason")
        page.keyboard.press("ArrowDown")
        reach("by")
        page.keyboard.type("Ana")
        with page.expect_navigation(url="**/p/bravo/day/2025-06-18/BRAVO-2"):
            page.keyboard.press("Enter")
        page.goto(f"{several}p/bravo/overrides")
        assert page.locator("tbody").first.inner_text().count("BRAVO-2") == 1
        tab_through(page)
        page.goto(f"{several}p/bravo/overrides")
        reach("by")
        page.keyboard.type("Ana")
        reach("Withdraw")
        with page.expect_navigation(url="**/p/bravo/day/2025-06-18/BRAVO-2"):
            page.keyboard.press("Space")


@pytest.mark.parametrize(("width", "height"), [(390, 844), (320, 640)])
def test_depot_number_is_in_the_top_third_of_a_phone_screen(
    browser: Browser, address: str, width: int, height: int
) -> None:
    with browser.new_context(viewport={"width": width, "height": height}) as context:
        page = context.new_page()
        page.goto(address + "depot/NYC-01")
        box = page.locator(".big").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= height / 3
        why = page.locator(".because").bounding_box()
        assert why is not None
        assert why["y"] + why["height"] <= height / 2


def test_my_depot_is_remembered_without_javascript(browser: Browser, address: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(address + "depot/NYC-01")
        page.get_by_role("link", name="Make this my depot").click()
        page.goto(address + "accuracy")
        page.get_by_role("link", name="My depot").click()
        assert page.get_by_role("heading", level=1).inner_text() == "NYC-01"
        page.get_by_role("link", name="Forget it").click()
        assert page.get_by_role("heading", level=1).inner_text() == "My depot"


def test_city_prints_on_as_few_sheets_as_its_rows_need(browser: Browser, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication(300))  # a hundred per city
    with running(AT_NOON, url, NOON.isoformat()) as base_url, browser.new_context() as context:
        page = context.new_page()
        page.goto(base_url + "?sort=city&city=Boston")
        page.emulate_media(media="print")
        rows = page.evaluate("document.querySelector('.cells').getBoundingClientRect().height")
        printed = page.pdf(format="A4", path=tmp_path / "roster.pdf")
        sheets = len(re.findall(rb"/Type\s*/Page\b", printed))
        millimetre = 96 / 25.4
        assert sheets <= -(-(rows + 90 * millimetre) // (273 * millimetre))  # including the page header
