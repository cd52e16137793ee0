"""Screenshots of the README and the page's documentation, from the sample's last night (`make run` comes first)."""

from __future__ import annotations

import sys
from datetime import datetime, time
from pathlib import Path

from playwright.sync_api import sync_playwright

from forecaster.config import load
from forecaster.errors import SpecError
from forecaster.ledger.store import Ledger
from tests.e2e.browsing import AT_NOON, CHROMIUM, FLAGS, ROOT, running

FOLDER = ROOT / "dashboards" / "screenshots"
SHOTS = (  # name, address, width and height
    ("board", "", 1440, 1000),
    ("board-phone", "", 390, 1180),
    ("depot", "depot/{depot}", 390, 1180),
)


def take(pipeline: Path, folder: Path) -> None:
    """Write the screenshots into a folder. Raises SpecError if nothing is published."""
    spec = load(pipeline)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        head = ledger.current(spec.name)
        if head is None:
            raise SpecError(f"{pipeline}: found no publication, wanted one: `make run` comes first")
        depot = ledger.depots(head.publication_id)[0].depot_id
    noon = datetime.combine(head.as_of.astimezone(spec.zone).date(), time(12), spec.zone)
    with running(AT_NOON, spec.ledger_url, noon.isoformat()) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=FLAGS)
        for name, path, width, height in SHOTS:
            page = browser.new_page(viewport={"width": width, "height": height})
            page.goto(address + path.format(depot=depot))
            page.screenshot(path=folder / f"{name}.png")
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]), FOLDER)
