"""Rate limits apply to each client separately; rejected clients count as unauthenticated, and
cannot flood the log."""

from __future__ import annotations

import pytest

from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.dashboards.seed import fill, publication


@pytest.fixture(autouse=True)
def _published(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    fill(url, publication())


def test_rate_limits_apply_to_each_client_separately(url: str) -> None:
    app = house(url, declared(limits={"reads": "3/hour", "writes": "1/hour", "strangers": "2/hour"}))
    ada, vic, stranger = signed_in(app, "ada"), signed_in(app, "vic"), Guest(app)
    assert [ada("/api/v1/me").status_code for _ in range(4)] == [200, 200, 200, 429]
    late = ada("/api/v1/me")
    assert 0 < int(late.headers["retry-after"]) <= 3600
    assert "rate limit exceeded" in late.json()["detail"]
    assert vic("/api/v1/me").status_code == 200
    assert [stranger("/").status_code for _ in range(3)] == [401, 401, 429]
    assert [stranger(path).status_code for path in ("/healthz", "/static/style.css")] == [200, 200]
    assert [vic("/x", "POST").status_code for _ in range(2)] == [404, 429]


def test_rejected_clients_count_as_unauthenticated_and_cannot_flood_the_log(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = house(url, declared(limits={"strangers": "3/hour"}, roles={"viewer": ["vic", "carl"]}))
    liar = Guest(app, {"X-Forwarded-User": "ada"}, address="10.0.0.6")
    assert [liar("/").status_code for _ in range(5)] == [403, 403, 403, 429, 429]
    others = [Guest(app, {"X-Forwarded-User": "ada"}, address=f"10.0.1.{number}") for number in range(9)]
    assert [other("/").status_code for other in others] == [403] * 9
    assert len([record for record in caplog.records if "is no declared proxy" in record.getMessage()]) == 1
    for name, sentence in (("nora", "has no role here"), ("carl", "may see no city")):
        guest = Guest(app, {"X-Forwarded-User": name, "X-Forwarded-For": f"192.0.2.{len(name) + ord(name[0])}"})
        assert sentence in guest("/").text
        assert [guest("/").status_code for _ in range(3)] == [403, 403, 429]
    assert signed_in(app, "vic")("/").status_code == 200


def test_an_ipv6_network_counts_as_one_client(url: str) -> None:
    app = house(url, declared(limits={"strangers": "2/hour"}))
    neighbours = [Guest(app, address=f"2001:db8:0:1::{number}") for number in range(1, 4)]
    assert [guest("/").status_code for guest in neighbours] == [401, 401, 429]
    assert Guest(app, address="2001:db8:0:2::1")("/").status_code == 401
