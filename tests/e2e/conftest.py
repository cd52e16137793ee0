"""A browser, and a page for it to look at, for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.dashboards.seed import NOON, ODD_ID, depot, earlier, fill, publication, remember, with_plans
from tests.e2e.browsing import AT_NOON, CHROMIUM, FLAGS, running


@pytest.fixture(scope="session")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a page with six depots and one with an odd id, at noon of the day of their
    publication."""
    url = f"sqlite:///{tmp_path_factory.mktemp('page') / 'ledger.db'}"
    first = publication()
    fill(url, earlier(), with_plans(replace(first, depots=(*first.depots, depot(7, ODD_ID)))))
    remember(url)
    with running(AT_NOON, url, NOON.isoformat()) as base_url:
        yield base_url


@pytest.fixture(scope="module")  # Playwright's event loop runs until the end: other files need their own
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        yield opened
        opened.close()
