"""Every page on every screen: phones of 320 px to desks, dark, forced colours, enlarged, printed, and a wall."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.dashboards.portal.test_app import of as fleet
from tests.dashboards.seed import NOON, earlier, fill, publication, remember
from tests.e2e.browsing import AT_NOON, CHROMIUM, PAGES, faults, running, too_wide

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not CHROMIUM.exists(), reason="there is no /usr/bin/chromium on this machine"),
]

LONG_ID = "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaftslager"[:85]
LONG_CITY = "LlanfairpwllgwyngyllgogerychwyrndrobwllllantysiliogogogochAmTaumatawhakatangihangakoauauo"[:85]
WIDTHS = (320, 390, 768, 1440)


@pytest.fixture(scope="module")
def long_names(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where every name has 85 letters."""
    url = f"sqlite:///{tmp_path_factory.mktemp('long') / 'ledger.db'}"
    depots = tuple(
        replace(member, depot_id=f"{LONG_ID[:-1]}{number}", attributes={"city": LONG_CITY if number % 2 else "Ulm"})
        for number, member in enumerate(publication().depots)
    )
    fill(url, replace(publication(title=LONG_ID), depots=depots))
    remember(url)
    with running(AT_NOON, url, NOON.isoformat()) as base_url:
        yield base_url


LONG_PAGES = ["", f"depot/{LONG_ID[:-1]}1", "roster", f"my-depot?depot={LONG_ID[:-1]}1", "my-depot", "accuracy", "wall"]


@pytest.mark.parametrize("path", [*LONG_PAGES, f"wall?city={LONG_CITY}", "wall?city=nope", "champion", "health"])
def test_nothing_scrolls_sideways_with_names_of_85_letters(browser: Browser, long_names: str, path: str) -> None:
    with browser.new_context() as context:
        page = context.new_page()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(long_names + path)
            assert not too_wide(page), width


@pytest.mark.parametrize(
    "path",
    [*PAGES, "my-depot", "my-depot?depot=NYC-01", "subscribe?depot=NYC-01", "wall?city=nope", "roster?city=nope"],
)
def test_every_page_is_readable_at_every_width_dark_with_forced_colours_and_enlarged(
    browser: Browser, address: str, path: str
) -> None:
    with browser.new_context() as context:  # a window of its own costs more than all that is asked of it
        page = context.new_page()
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 800})
            page.goto(address + path)
            assert not too_wide(page), width
            assert faults(page) == [], width
        page.set_viewport_size({"width": 1280, "height": 720})
        page.emulate_media(color_scheme="dark", forced_colors="active")
        page.goto(address + path)
        assert faults(page) == []
    with browser.new_context(viewport={"width": 640, "height": 400}, device_scale_factor=2) as context:  # 1280 at 200 %
        page = context.new_page()
        page.goto(address + path)
        assert not too_wide(page)


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


def test_the_front_page_of_several_pipelines_is_readable_everywhere_and_leads_to_each(
    browser: Browser, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, replace(fleet("alpha"), title=LONG_ID, tier="fallback"), fleet("bravo"))
    with running(PORTAL, url, str(tmp_path)) as base_url:
        for options in (*({"viewport": {"width": width, "height": 800}} for width in WIDTHS), {"color_scheme": "dark"}):
            with browser.new_context(**options) as context:  # type: ignore[arg-type]
                page = context.new_page()
                page.goto(base_url)
                assert not too_wide(page), options
                assert faults(page) == [], options
        with browser.new_context() as context:
            page = context.new_page()
            page.goto(base_url)
            page.get_by_role("link", name="Bravo Fleet").click()
            assert page.url == f"{base_url}p/bravo/"
            page.get_by_role("link", name="BRAVO-1").click()
            assert page.url == f"{base_url}p/bravo/depot/BRAVO-1"
            page.get_by_role("link", name="All pipelines").click()
            assert page.url == base_url


@pytest.mark.parametrize(("width", "height"), [(390, 844), (320, 640)])
def test_a_depots_number_stands_in_the_first_third_of_a_phones_screen(
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


def test_my_depot_is_remembered_without_a_script(browser: Browser, address: str) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(address + "depot/NYC-01")
        page.get_by_role("link", name="Make this my depot").click()
        page.goto(address + "roster")
        page.get_by_role("link", name="My depot").click()
        assert page.get_by_role("heading", level=1).inner_text() == "NYC-01"
        page.get_by_role("link", name="Forget it").click()
        assert page.get_by_role("heading", level=1).inner_text() == "My depot"


def test_a_wall_is_read_from_four_metres(browser: Browser, tmp_path: Path) -> None:
    """Letters of 2.5 % of the screen's height are 17 mm tall on one of 68 cm; a line of sight test has 6 mm at 4 m."""
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, earlier(), publication(64))
    with running(AT_NOON, url, NOON.isoformat()) as base_url:
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


def test_a_city_prints_on_as_few_sheets_as_its_rows_need_with_its_sums_once(browser: Browser, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.db'}"
    fill(url, publication(300))  # a hundred a city
    with running(AT_NOON, url, NOON.isoformat()) as base_url, browser.new_context() as context:
        page = context.new_page()
        page.goto(base_url + "roster?city=Boston")
        page.emulate_media(media="print")
        rows = page.evaluate("document.querySelector('tbody').getBoundingClientRect().height")
        printed = page.pdf(format="A4", path=tmp_path / "roster.pdf")
        sheets = len(re.findall(rb"/Type\s*/Page\b", printed))
        millimetre = 96 / 25.4
        assert sheets <= -(-(rows + 60 * millimetre) // (273 * millimetre))  # with heading and sums
        assert page.evaluate("getComputedStyle(document.querySelector('tfoot')).display") == "table-row-group"
