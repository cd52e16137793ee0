"""An answer is sent again within a second, to those who ask the same and see the same, until something is published."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi import FastAPI

from dashboards.ops import again
from dashboards.ops.shelf import Shelf
from tests.dashboards.guests import SECRET, declared, house, signed_in
from tests.dashboards.seed import fill, publication
from tests.dashboards.visitor import asked


@pytest.fixture
def app(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[FastAPI]:
    """Six depots in three cities, on a page where a second takes an hour."""
    monkeypatch.setattr(again, "AGAIN", 3600.0)
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    fill(url, publication())
    return house(url, declared())


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was taken from the shelf."""
    found: list[object] = []
    real = Shelf.edition

    def edition(self: Shelf, *cities: Any, **asked: Any) -> Any:
        found.append(cities)
        return real(self, *cities, **asked)

    monkeypatch.setattr(Shelf, "edition", edition)
    return found


def test_who_asks_the_same_gets_the_same_without_its_being_made_again(app: FastAPI, made: list[object]) -> None:
    ada = signed_in(app, "ada")
    ada("/")  # which opens the ledger
    made.clear()
    first, again_ = ada("/"), ada("/")
    assert len(made) == 1
    assert (again_.text, dict(again_.headers)) == (first.text, dict(first.headers))
    known = ada("/", headers={"If-None-Match": first.headers["etag"]})
    assert (known.status_code, known.content, known.headers["etag"]) == (304, b"", first.headers["etag"])
    assert "content-length" not in known.headers
    assert known.headers["content-security-policy"] == first.headers["content-security-policy"]
    assert len(made) == 1


def test_another_question_another_language_and_other_cities_have_answers_of_their_own(app: FastAPI) -> None:
    ada, bob = signed_in(app, "ada"), signed_in(app, "bob")
    for _ in range(2):
        assert "NYC-01" in ada("/").text
        assert "NYC-01" not in bob("/").text
        assert "NYC-01" not in ada("/?city=Boston").text.partition("<table")[2]
        english, german = (ada("/api/v1/network", headers={"Accept-Language": tag}) for tag in ("en", "de"))
        assert english.headers["etag"] != german.headers["etag"]
        assert signed_in(app, "")("/").status_code == 401


def test_what_is_published_is_shown_at_once(app: FastAPI, url: str) -> None:
    ada = signed_in(app, "ada")
    assert "v9" not in ada("/").text
    fill(url, replace(publication(run_id="night-2"), model="harbor-fleet v9"))
    assert "v9" in ada("/").text


def test_what_was_made_for_one_person_is_never_kept(app: FastAPI) -> None:
    ada = signed_in(app, "ada")
    tokens = {ada("/api/v1/me").json()["name"], signed_in(app, "vic")("/api/v1/me").json()["name"]}
    assert tokens == {"ada", "vic"}


def test_without_a_ledger_there_is_nothing_to_send_again(tmp_path: Any) -> None:
    from dashboards.ops.server import create_app

    app = create_app(f"sqlite:///{tmp_path / 'none.db'}")
    assert [asked(app, "GET", "/").status_code for _ in range(2)] == [503, 503]
