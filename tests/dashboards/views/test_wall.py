"""The wall screen shows the network, or one city."""

from __future__ import annotations

from tests.dashboards.seed import fill, publication
from tests.dashboards.visitor import text, visitor


def test_a_wall_shows_the_network_or_one_city(url: str) -> None:
    fill(url, publication())
    get = visitor(url)
    assert '<noscript><meta http-equiv="refresh" content="60"></noscript>' in get("/wall").text
    assert "Boston" in text(get("/wall"))
    assert "BOS-01" not in text(get("/wall"))
    assert "BOS-01" in text(get("/wall?city=Boston"))
    assert "NYC-01" not in text(get("/wall?city=Boston"))
