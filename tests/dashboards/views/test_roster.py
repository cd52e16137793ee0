"""The printed roster: a sheet for each city."""

from __future__ import annotations

from dataclasses import replace

from forecaster.ledger.publication import PublishedRoster, Shortage
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
