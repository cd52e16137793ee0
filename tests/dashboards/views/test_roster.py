"""The printed roster: a sheet for each city."""

from __future__ import annotations

import re
from dataclasses import replace

from forecaster.ledger.publication import PublishedRoster, Shortage
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import depot, fill, publication
from tests.dashboards.visitor import text, visitor


def test_a_roster_has_a_sheet_a_city_with_its_sums(url: str) -> None:
    fill(url, publication())
    get = visitor(url)
    page = text(get("/roster"))
    assert [page.count(f"{city} Tue 17 Jun – Mon 23 Jun · published") for city in ("Boston", "New York")] == [1, 1]
    boston = [depot(0), depot(3)]
    sums = " ".join(str(sum(member.days[step].drivers or 0 for member in boston)) for step in range(7))
    assert f"Drivers {sums}" in text(get("/roster?city=Boston"))
    assert "New York Tue" not in text(get("/roster?city=Boston"))
    assert "There is no city “Nowhere” in the current forecasts." in text(get("/roster?city=Nowhere"))


def test_a_sheet_says_on_which_days_vans_are_missing(url: str) -> None:
    first = depot(0)
    crew = PublishedRoster(3, 0.5, 60.0, 40.0, 91.2, wanted=4, shortage=Shortage("Boston", 0.88, network=True))
    fill(
        url,
        replace(publication(), depots=(replace(first, days=(replace(first.days[0], roster=crew), *first.days[1:])),)),
    )
    page = text(visitor(url)("/roster"))
    assert "Tue 17 Jun: no van left in Boston; 0.88 of what the network needs" in page
    assert page.count("no van left") == 1


def test_likely_shortages_are_marked_and_come_first_in_their_city(url: str) -> None:
    depots = [depot(number) for number in range(9)]
    for place, chance in ((3, 0.6), (6, 0.9)):
        days = depots[place].days
        crew = PublishedRoster(None, chance, 9.0, None, None)
        depots[place] = replace(depots[place], days=(days[0], replace(days[1], roster=crew), *days[2:]))
    fill(url, replace(publication(), depots=tuple(depots)))
    page = visitor(url)("/roster?city=Boston").text
    assert re.findall(r'<th scope="row"><a href="/depot/([^"]+)"', page) == ["BOS-03", "BOS-02", "BOS-01"]
    marked = re.findall(r'<td class="n short meant" title="([^"]+)"><b class="o">\d+!</b>', page)
    assert marked == ["9 chances in 10 of being short", "6 chances in 10 of being short"]
    assert "! marks days on which too few drivers are likelier than not" in page
    assert "! marks" not in visitor(url)("/roster?city=New+York").text


def test_of_very_many_depots_a_page_shows_200_city_after_city_with_the_sums_of_the_whole_city_once(url: str) -> None:
    fill(url, publication(700))  # 234 in Boston, 233 in New York, 233 in Philadelphia
    get = visitor(url)
    first, second, last = (text(get(path)) for path in ("/roster", "/roster?page=2", "/roster?page=4"))
    assert "Page 1 of 4" in first
    assert "Boston depots 1 to 200 of 234" in first
    assert "Drivers" not in first.partition("of 234")[2]
    assert "Boston depots 201 to 234 of 234" in second
    assert "New York depots 1 to 166 of 233" in second
    with Ledger.open_reader(url) as ledger:
        boston = [depot for depot in ledger.depots(1) if depot.attributes["city"] == "Boston"]
    tomorrow = sum(depot.days[1].drivers or 0 for depot in boston)
    [sums] = re.findall(r"<tfoot>.*?</tfoot>", get("/roster?page=2").text, re.S)
    assert f'<td class="n o">{tomorrow:,}</td>' in sums
    assert "Philadelphia depots 134 to 233 of 233" in last
    assert 'rel="next"' not in get("/roster?page=4").text
    assert text(get("/roster?page=99")) == last
    assert "Page 2 of 2" in text(get("/roster?city=Boston&page=2"))
    assert all(len(get(path).content) < 150_000 for path in ("/roster", "/roster?page=2"))


def test_a_city_that_is_not_there_is_told_with_the_one_that_may_be_meant(url: str) -> None:
    fill(url, publication())
    assert "There is no city “boston ” in the current forecasts. Did you mean Boston ?" in text(
        visitor(url)("/roster?city=boston%20")
    )
    page = text(visitor(url)("/roster?city=Nowhere"))
    assert "There is no city “Nowhere” in the current forecasts. Show all" in page


def test_very_many_cities_are_typed_and_not_listed(url: str) -> None:
    depots = tuple(replace(depot(n), attributes={"city": f"City {n:04}"}) for n in range(300))
    fill(url, replace(publication(), depots=depots))
    page = visitor(url)("/roster").text
    assert '<input name="city"' in page
    assert "/roster?city=" not in page
