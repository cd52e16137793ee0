"""A cached answer is reused for equal requests with equal rights, until a newer edition exists."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from dashboards.ops.app import create_app
from dashboards.ops.http import response_cache
from dashboards.ops.http.response_cache import CachedResponse, RecentResponses
from dashboards.ops.reading import store
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.routes import board
from tests.dashboards.guests import SECRET, declared, house, signed_in
from tests.dashboards.seed import fill, publication
from tests.dashboards.visitor import ask_locally


@pytest.fixture
def app(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FastAPI]:
    """Return a page with six depots in three cities that rereads its ledger hourly."""
    monkeypatch.setattr(store, "REREAD_SECONDS", 3600.0)
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    fill(url, publication())
    return house(url, declared())


@pytest.fixture
def editions(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Record the calls of the store."""
    calls: list[object] = []
    real = PublicationStore.edition

    def edition(self: PublicationStore, *cities: Any, **options: Any) -> Any:
        calls.append(cities)
        return real(self, *cities, **options)

    monkeypatch.setattr(PublicationStore, "edition", edition)
    return calls


def test_equal_requests_share_one_rendering(app: FastAPI, editions: list[object]) -> None:
    ada = signed_in(app, "ada")
    first, again_ = ada("/"), ada("/")
    assert len(editions) == 1
    assert (again_.text, dict(again_.headers)) == (first.text, dict(first.headers))
    unchanged = ada("/", headers={"If-None-Match": first.headers["etag"]})
    assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", first.headers["etag"])
    assert "content-length" not in unchanged.headers
    assert unchanged.headers["content-security-policy"] == first.headers["content-security-policy"]
    assert len(editions) == 1


def test_answers_are_cached_by_address_language_and_cities(app: FastAPI) -> None:
    ada, bob = signed_in(app, "ada"), signed_in(app, "bob")
    for _ in range(2):
        assert "NYC-01" in ada("/").text
        assert "NYC-01" not in bob("/").text
        assert "NYC-01" not in ada("/?city=Boston").text.partition("<table")[2]
        english, german = (ada("/api/v1/network", headers={"Accept-Language": tag}) for tag in ("en", "de"))
        assert english.headers["etag"] != german.headers["etag"]
        assert signed_in(app, "")("/").status_code == 401


def test_does_not_serve_outdated_answers(app: FastAPI, url: str) -> None:
    ada = signed_in(app, "ada")
    assert "v9" not in ada("/").text
    fill(url, replace(publication(run_id="night-2"), model="harbor-fleet v9"))
    assert "v9" in ada("/").text


def test_never_caches_personal_answers(app: FastAPI) -> None:
    ada = signed_in(app, "ada")
    tokens = {ada("/api/v1/me").json()["name"], signed_in(app, "vic")("/api/v1/me").json()["name"]}
    assert tokens == {"ada", "vic"}


def test_caches_nothing_without_a_ledger(tmp_path: Any) -> None:
    app = create_app(f"sqlite:///{tmp_path / 'none.db'}")
    assert [ask_locally(app, "GET", "/").status_code for _ in range(2)] == [503, 503]


def test_serves_the_previous_answer_while_a_newer_one_is_rendered(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_cache, "STALE_SECONDS", 3600.0)
    fill(url, publication())
    app, go, rendered = create_app(url), threading.Event(), []
    real = board.network

    def rendering(*of: Any) -> Any:
        rendered.append(of)
        go.wait(30)
        return real(*of)

    async def reading() -> None:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8000") as client:
            await client.get("/healthz")
            go.set()
            [await client.get("/") for _ in range(2)]  # the first opens the ledger
            await asyncio.to_thread(fill, url, replace(publication(run_id="night-2"), model="harbor-fleet v9"))
            go.clear()
            rendered.clear()
            before = await asyncio.gather(*(client.get("/") for _ in range(8)))
            assert not any("v9" in answer.text for answer in before)
            assert len({(answer.text, answer.headers["etag"]) for answer in before}) == 1
            go.set()
            while "v9" not in (now := await client.get("/")).text:
                await asyncio.sleep(0.01)
            assert now.headers["etag"] != before[0].headers["etag"]
        assert len(rendered) == 1

    monkeypatch.setattr(board, "network", rendering)
    asyncio.run(asyncio.wait_for(reading(), 60))


def test_a_writer_sees_the_change_on_the_next_page(app: FastAPI, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_cache, "STALE_SECONDS", 3600.0)
    ada = signed_in(app, "ada")
    [ada("/") for _ in range(2)]
    fill(url, replace(publication(run_id="night-2"), model="harbor-fleet v9"))
    assert "v9" not in ada("/").text
    assert ada.writes("/api/v1/links", json={"view": "network"}).status_code == 201
    assert "v9" in ada("/").text


def test_does_not_serve_a_removed_page(app: FastAPI, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = signed_in(app, "ada")
    [ada("/depot/NYC-01") for _ in range(2)]
    fill(url, publication(1, run_id="night-2"))
    assert [ada("/depot/NYC-01").status_code for _ in range(2)] == [404, 404]


def test_evicts_the_least_recently_used_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(response_cache, "MOST_BYTES", 5)
    bodies = RecentResponses()
    for name in "abab":
        bodies.put(name, CachedResponse(1, {}, b"12", name))
    assert bodies.get("a")
    bodies.put("c", CachedResponse(1, {}, b"12", "c"))
    assert [name for name in "abc" if bodies.get(name)] == ["a", "c"]


def test_rereading_the_ledger_keeps_pages_of_the_same_edition(
    app: FastAPI, editions: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "REREAD_SECONDS", 0.0)
    ada = signed_in(app, "ada")
    [ada(path) for path in ("/", "/", "/accuracy")]
    editions.clear()
    nights = ada("/accuracy")
    assert ada("/").status_code == nights.status_code == 200
    assert editions == []
