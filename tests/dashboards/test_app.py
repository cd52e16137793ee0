"""A pipeline's pages under a prefix: every address on them begins with it."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import Path

import pytest

from dashboards.ops.access.context import AccessContext
from dashboards.ops.app import build, page_app
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.catalogue import linkable
from forecaster.config.access import Access
from tests.dashboards.routes.test_repeated_writes import spec_of
from tests.dashboards.seed import NOON, earlier, fill, publication, remember, with_plans
from tests.dashboards.visitor import ask_locally

PAGES = (
    "/", "/depot/BOS-01", "/my-depot", "/my-depot?depot=BOS-01", "/?sort=city", "/wall",
    "/wall?city=Bosten", "/accuracy", "/value", "/champion", "/health", "/day/2025-06-18/BOS-01",
    "/overrides", "/depot/nope",
)  # fmt: skip


@pytest.mark.parametrize("many", [False, True], ids=["few depots with people", "many depots and stale"])
def test_every_address_on_a_page_begins_with_the_prefix(url: str, tmp_path: Path, many: bool) -> None:
    fill(url, earlier(), publication(101) if many else with_plans(publication(3)))
    remember(url)
    now = NOON + timedelta(days=20 if many else 0)
    store = PublicationStore(url, "harbor-fleet", lambda: now, build())
    access = AccessContext(
        Access(), url, "harbor-fleet", store, lambda: now, linkable(), keys=("k" * 32,), prefix="/p/harbor-fleet"
    )
    app = page_app(access, spec_of(tmp_path, url))
    for path in PAGES:
        answer = ask_locally(app, "GET", path)
        assert "Something went wrong here" not in answer.text, path
        addresses = re.findall(r'(?:href|action|src)="([^"]+)"', answer.text)
        inner = [at for at in addresses if not at.startswith(("#", "?", "/static/")) and at not in ("/", "/sign-out")]
        assert len(inner) > 1, path
        assert [at for at in inner if not at.startswith("/p/harbor-fleet/")] == [], path
    assert ask_locally(app, "GET", "/api/v1/openapi.json").json()["servers"] == [{"url": "/p/harbor-fleet"}]
