"""While a ledger's database is unavailable, pages in memory are shown, each only to people with
access."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from dashboards.ops.http import response_cache
from dashboards.ops.http.request_metrics import PageMetrics
from dashboards.ops.portal.app import Portal, create_portal
from dashboards.ops.reading import absence, overview, store
from forecaster.config import Access
from tests.dashboards.guests import SECRET, Guest, declared, signed_in
from tests.dashboards.portal.test_app import WORDS, of, spec_of
from tests.dashboards.seed import NOON, fill
from tests.dashboards.visitor import text
from tests.databases import Postgres, new_database
from tests.databases import postgres as postgres

SINCE = "has not answered since Tue 17 Jun, 12:00 EDT"
PAGES = ("/p/alpha/", "/p/alpha/depot/ALPHA-1", "/p/alpha/wall", "/")
PUBLISHED = "These were published Tue 17 Jun, 03:24 EDT"


@dataclass
class Clock:
    now: datetime = NOON

    def __call__(self) -> datetime:
        return self.now


@dataclass(frozen=True)
class House:
    """Pages of two pipelines in one PostgreSQL: Ada sees everything, Bob one city, Vic one of the
    pipelines."""

    portal: Portal
    server: Postgres
    url: str
    clock: Clock = field(default_factory=Clock)

    def as_(self, name: str) -> Guest:
        return signed_in(self.portal, name)  # type: ignore[arg-type]


def access(**changes: Any) -> Access:
    """Return access with limits high enough not to matter here."""
    return declared(limits={"reads": "100000/minute"}, **changes)


@pytest.fixture
def house(
    tmp_path: Path, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[House, CollectorRegistry]]:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    monkeypatch.setattr(absence, "RETRY_SECONDS", 0.0)
    for module in (overview, store):
        monkeypatch.setattr(module, "REREAD_SECONDS", 0.0)
    clock, collectors = Clock(), CollectorRegistry()
    with new_database(postgres, "ledger") as url:
        fill(url, of("alpha"), of("bravo"))
        rights = (access(), access(cities={"*": [], "bob": ["New York"]}))
        specs = [spec_of(tmp_path, name, url, each) for name, each in zip(WORDS, rights, strict=True)]
        portal = create_portal(specs, clock=clock, metrics=PageMetrics(collectors))
        yield House(portal, postgres, url, clock), collectors
        portal.front.close()
        for pipeline in portal.served.values():
            pipeline.context.store.close()
        portal.front.readers.close()


def test_people_keep_their_access_rights_while_the_ledger_is_unavailable(
    house: tuple[House, CollectorRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, collectors = house
    ada, bob, vic = (page.as_(name) for name in ("ada", "bob", "vic"))
    planner = signed_in(page.portal, "pat", "planners")  # type: ignore[arg-type]
    token = planner("/p/alpha/api/v1/me").json()["csrf"]
    german = {"Accept-Language": "de"}
    before = {path: ada(path) for path in PAGES}
    for path in ("/p/alpha/", "/p/bravo/", "/p/bravo/depot/BRAVO-2"):
        assert bob(path).status_code == 200
    assert vic("/p/alpha/").status_code == 200
    ada("/p/alpha/depot/ALPHA-1", headers=german)
    page.server.stop()
    try:
        _while_it_is_away(page, ada, bob, vic)
        _nothing_is_written(planner, token)
        for path, earlier in before.items():
            if path == "/":
                continue  # its tiles show "no ledger"
            words = text(ada(path))
            assert SINCE in words
            assert set(text(earlier).split()) <= set(words.split()), path
        words = text(ada("/p/alpha/depot/ALPHA-1", headers=german))
        assert "Die Datenbank der Prognosen antwortet seit" in words
        metric = {"pipeline": "alpha", "origin": "copy"}
        assert (collectors.get_sample_value("forecaster_page_answers_total", metric) or 0) > 3
        page.clock.now = NOON + timedelta(days=8)  # after all published days
        assert ada("/p/alpha/").status_code == 503
        assert "900 orders" not in text(ada("/"))
        page.clock.now = NOON
    finally:
        page.server.start()
    deadline = time.monotonic() + 20
    while SINCE in text(ada("/p/alpha/")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert [SINCE in text(ada(path)) for path in ("/p/alpha/", "/")] == [False, False]
    assert ada("/p/alpha/").headers["etag"] == before["/p/alpha/"].headers["etag"]


def test_serves_pages_in_memory_while_the_ledger_does_not_answer(
    house: tuple[House, CollectorRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _ = house
    ada, vic = page.as_("ada"), page.as_("vic")
    shown = [text(ada(path)) for path in ("/p/alpha/", "/p/alpha/wall", "/")]
    assert not any(SINCE in page for page in shown)
    with monkeypatch.context() as impatient, frozen(page.server):
        for module in (response_cache, store, overview):
            impatient.setattr(module, "PATIENCE", 0.1)
        impatient.setattr(overview, "STALE_SECONDS", 0.0)
        assert vic("/p/alpha/depot/ALPHA-1").status_code == 503
        answers = [text(ada(path)) for path in ("/p/alpha/wall", "/")]
        assert [SINCE in answer for answer in answers] == [True, True]
    deadline = time.monotonic() + 20
    while SINCE in text(ada("/p/alpha/")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert SINCE not in text(ada("/p/alpha/"))


def test_the_first_reader_waits_for_a_slow_ledger(
    house: tuple[House, CollectorRegistry], monkeypatch: pytest.MonkeyPatch
) -> None:
    page, _ = house
    monkeypatch.setattr(absence, "RETRY_SECONDS", 60.0)
    monkeypatch.setattr(response_cache, "PATIENCE", 0.1)
    ada = page.as_("ada")
    with frozen(page.server), ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(ada, "/p/alpha/wall")
        time.sleep(0.5)
        thaw(page.server)
        assert waiting.result().status_code == 200
    assert SINCE not in text(ada("/p/alpha/"))


def _processes(server: Postgres) -> list[int]:
    """Return the process IDs of a server: the listener and its backends."""
    pid = server.processes[-1].pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()
    return [pid, *map(int, children)]


@contextmanager
def frozen(server: Postgres) -> Iterator[None]:
    """Suspend a server: it answers nothing, but keeps its connections."""
    for pid in _processes(server):
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        thaw(server)


def thaw(server: Postgres) -> None:
    for pid in _processes(server):
        os.kill(pid, signal.SIGCONT)


def _while_it_is_away(page: House, ada: Guest, bob: Guest, vic: Guest) -> None:
    """Check each reader's answers: only pages, narrowed as usual, and nothing cacheable."""
    for path in PAGES:
        answer = ada(path)
        assert (path, answer.status_code, answer.headers.get("retry-after")) == (path, 200, "60")
        assert (answer.headers["cache-control"], "etag" in answer.headers) == ("no-store", False)
        assert SINCE in text(answer), path
        assert PUBLISHED in text(answer), path
    not_opened = ada("/p/alpha/depot/ALPHA-2")
    assert (not_opened.status_code, not_opened.headers["retry-after"]) == (503, "60")
    assert "900 orders" in text(ada("/"))
    boston, york = text(bob("/p/alpha/")), text(bob("/p/bravo/"))
    assert ("Boston" in boston, "New York" in boston) == (True, False)
    assert ("Boston" in york, "New York" in york) == (False, True)
    assert [bob(f"/p/bravo/depot/BRAVO-{n}").status_code for n in (1, 2)] == [503, 200]
    assert [vic(f"/p/{name}/").status_code for name in WORDS] == [200, 404]
    assert [word for word in WORDS["bravo"] if word in vic("/").text] == []
    for path in ("api/v1/depots", "roster?format=csv", "api/v1/publication?publication=1", "health", "overrides"):
        assert (path, ada(f"/p/alpha/{path}").status_code) == (path, 503)
    assert ada("/p/alpha/readyz").text.startswith("publication 1 of alpha, from memory")
    assert ada("/readyz").status_code == 200


def _nothing_is_written(planner: Guest, token: str) -> None:
    wish = {"depot_id": "ALPHA-1", "target_date": "2025-06-18", "orders": 200, "reason": "weather"}
    written = planner("/p/alpha/api/v1/overrides", "POST", json=wish, headers={"X-CSRF-Token": token})
    assert (written.status_code, written.headers["retry-after"]) == (503, "60")
    assert "cannot be read at the moment" in written.json()["detail"]
