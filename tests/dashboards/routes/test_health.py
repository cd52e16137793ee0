"""Probes are answered without rate limit and under any host name, at the cost of a cached look."""

from __future__ import annotations

import pytest
from fastapi import FastAPI

from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.routes import health
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.dashboards.seed import fill, publication

PROBES = ("/healthz", "/readyz")
LIMITS = {"reads": "2/hour", "writes": "1/hour", "strangers": "2/hour"}


@pytest.fixture
def app(url: str, monkeypatch: pytest.MonkeyPatch) -> FastAPI:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    fill(url, publication())
    return house(url, declared(limits=LIMITS))


@pytest.mark.parametrize("way", ["none", "header"])
@pytest.mark.parametrize("host", ["", "evil.example", "10.1.2.3:8000", "localhost@x", "\xff"])
def test_probes_are_answered_under_any_host_name_and_from_any_address(
    app: FastAPI, url: str, way: str, host: str
) -> None:
    page = app if way == "header" else house(url, declared(sign_in="none"))
    probe = Guest(page, {"Host": host.encode("latin-1"), "X-Forwarded-User": "ada"}, address="192.0.2.7")  # type: ignore[dict-item]
    for path in PROBES:
        assert probe(path).text == {"/healthz": "ok\n", "/readyz": "ready\n"}[path]
        head = probe(path, "HEAD")
        assert (head.status_code, head.content, head.headers["content-length"]) == (
            200,
            b"",
            str(len(probe(path).content)),
        )


def test_probes_are_not_rate_limited_and_show_more_to_signed_in_people(app: FastAPI) -> None:
    stranger, vic = Guest(app), signed_in(app, "vic")
    assert {stranger(path).status_code for _ in range(20) for path in PROBES} == {200}
    assert stranger("/").status_code == 401  # they do not count against the rate limit
    assert vic("/readyz").text == "publication 1 of harbor-fleet\n"


def test_many_probes_take_one_look_at_the_ledger(app: FastAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "READINESS_SECONDS", 60.0)
    looks, real = [], PublicationStore.edition

    def edition(self: PublicationStore) -> object:
        looks.append(self)
        return real(self)

    monkeypatch.setattr(PublicationStore, "edition", edition)
    probe = Guest(app)
    assert {probe("/readyz").status_code for _ in range(10)} == {200}
    assert len(looks) <= 2  # two, as the ledger's files have a stamp only after the first


@pytest.mark.parametrize("path", ["/", "/api/v1/publication", "/api/v1/runs?format=csv", "/api/v1/me", "/depot/BOS-01"])
def test_head_is_answered_as_get_without_the_body(url: str, app: FastAPI, path: str) -> None:
    ada = signed_in(house(url, declared()), "ada")
    whole, head = ada(path), ada(path, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    for name in ("etag", "content-type", "cache-control"):
        assert head.headers.get(name) == whole.headers.get(name)
    assert ada("/api/v1/depots/Nowhere", "HEAD").status_code == 404


def test_head_is_not_allowed_on_links(app: FastAPI) -> None:
    assert Guest(app)("/link/made-up", "HEAD").status_code == 405


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [("DELETE", "/api/v1/publication", "GET, HEAD"), ("PUT", "/link/made-up", "GET"), ("PUT", "/", "GET, HEAD")],
)
def test_a_wrong_method_is_answered_with_all_allowed_methods(
    app: FastAPI, method: str, path: str, allowed: str
) -> None:
    answer = signed_in(app, "ada")(path, method)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)
    assert f"{path} takes {allowed}" in answer.text
