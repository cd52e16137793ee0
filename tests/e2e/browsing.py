"""A real browser looking at a page served by another process: helpers to start both and to inspect
pages."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Page

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
AXE = ROOT / "tests" / "vendor" / "axe-core" / "axe.min.js"
PAGES = ["", "?sort=city&beside=last-week", "depot/NYC-01", "depot/BOS-01", "day/2025-06-18/NYC-01"]
PAGES += ["accuracy", "value", "champion", "health", "wall"]
AT_NOON = """
import socket, sys, uvicorn
from datetime import datetime
from dashboards.ops.app import create_app
app = create_app(sys.argv[1], clock=lambda: datetime.fromisoformat(sys.argv[2]))
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listener])
"""


@contextmanager
def running(code: str, *arguments: str) -> Iterator[str]:
    """Yield the address that a server in another process prints first."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            address_line = re.search(r"http://\S+/", server.stdout.readline())
            assert address_line is not None
            yield address_line[0]
        finally:
            server.terminate()


def too_wide(page: Page) -> bool:
    """Return true if anything extends beyond the right edge."""
    return bool(page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"))


def faults(page: Page, *rules: str) -> list[str]:
    """Violations found by axe, by these rules or by all."""
    if not page.evaluate("'axe' in window"):  # it stays loaded until the page is left
        page.evaluate(AXE.read_text("utf-8") + "; 0")
    options: dict[str, object] = {"resultTypes": ["violations"]}  # other results describe one node at most
    if rules:
        options["runOnly"] = {"type": "rule", "values": list(rules)}
    violations: list[str] = page.evaluate(
        """options => axe.run(document, options).then(found => found.violations.flatMap(
          each => each.nodes.map(node => each.id + ': ' + node.html + ' ' + node.failureSummary)))""",
        options,
    )
    return violations
