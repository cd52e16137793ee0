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


def test_a_wall_of_an_unknown_city_shows_no_numbers_and_suggests_a_city(url: str) -> None:
    fill(url, publication())
    get = visitor(url)
    page = text(get("/wall?city=new%20yrok"))
    assert "There is no city “new yrok” in the current forecasts; did you mean New York ?" in page
    assert "All cities · Boston · New York" in page
    assert "Orders expected" not in page
    assert 'href="/wall?city=New%20York"' in get("/wall?city=new%20yrok").text
    assert "There is no city “nope” in the current forecasts. All cities" in text(get("/wall?city=nope"))
