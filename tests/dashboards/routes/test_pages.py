"""The pages show the ledger's content in plain words."""

from __future__ import annotations

import html
import re
from dataclasses import replace
from datetime import timedelta
from urllib.parse import quote

import pytest

from dashboards.ops.reading.header import MEANING, TIERS
from forecaster.ledger.publication import PublishedDay, PublishedDepot, PublishedTotal, RecentDay
from tests.dashboards.seed import CUTOFF, NOON, ODD_ID, depot, fill, publication
from tests.dashboards.visitor import Get, text, visitor


def simple(depot_id: str, tomorrow: float, city: str = "Boston", drivers: int | None = None) -> PublishedDepot:
    """Return a depot closed on the third day; quantiles are 20 below and above; tomorrow is the
    second day."""
    days = []
    for step in range(1, 8):
        quantiles = tuple(tomorrow + step - 2 + z for z in (-20, -10, 0, 10, 20)) if step != 3 else (0.0,) * 5
        days.append(PublishedDay(CUTOFF + timedelta(days=step), step, step != 3, quantiles, drivers))
    return PublishedDepot(depot_id, tuple(days), (RecentDay(CUTOFF, 97.0),), {"city": city})


def test_the_network_page_shows_tomorrows_orders_in_total_and_by_depot(url: str) -> None:
    depots = (simple("A1", 1200, drivers=27), simple("A2", 100, drivers=3), simple("B1", 31, "York", drivers=1))
    fill(url, replace(publication(), depots=depots))
    page = text(visitor(url)("/"))
    assert "Orders expected tomorrow, Wed 18 Jun 1,331" in page
    assert "sum of the depots’ medians" in page
    assert "31 drivers · 3 of 3 depots open" in page
    assert "A1 Boston 1,199 27 1,200 27 closed 1,202 27" in page
    assert "B1 York 30 1 31 1 closed" in page
    assert "Boston 2 depots 1,298 30 1,300 30 closed" in page
    assert "York 1 depot 30 1 31 1 closed" in page


def totals(*cities: str) -> tuple[PublishedTotal, ...]:
    """Return totals: the network's 1,345 (tomorrow) within 1,245–1,445, and each city's 500 ± 50."""
    days = [CUTOFF + timedelta(days=step) for step in range(1, 8)]
    network = [PublishedTotal("", day, (1244.0 + i, 1300, 1344.0 + i, 1400, 1444.0 + i)) for i, day in enumerate(days)]
    return (*network, *(PublishedTotal(city, day, (450, 480, 500, 520, 550)) for city in cities for day in days))


def test_published_totals_have_their_own_range(url: str) -> None:
    depots = (simple("A1", 1200, drivers=27), simple("A2", 100, drivers=3), simple("B1", 31, "York", drivers=1))
    fill(url, replace(publication(), depots=depots, totals=totals("Boston", "York")))
    get = visitor(url)
    page = text(get("/"))
    assert "Orders expected tomorrow, Wed 18 Jun 1,345 80 % range 1,245–1,445 · 31 drivers" in page
    assert "good and bad days partly cancel out" in page
    assert "Boston 2 depots 500 30 450–550 500 30 450–550" in page
    rows = get("/api/v1/publication").json()["totals"]
    assert len(rows) == 21
    expected = {
        "city": None,
        "target_date": "2025-06-18",
        "low": 1245.0,
        "median": 1345.0,
        "high": 1445.0,
        "drivers": 31,
    }
    assert rows[1] == expected
    assert [(row["city"], row["drivers"]) for row in rows[7::7]] == [("Boston", 30), ("York", 1)]


def test_depots_without_a_city_show_their_own_medians_not_the_networks_total(url: str) -> None:
    depots = (simple("A1", 1200, drivers=27), simple("B1", 31, "York", drivers=1), simple("C1", 40, "", drivers=2))
    fill(url, replace(publication(), depots=depots, totals=totals("Boston", "York")))
    assert "Without a city 1 depot 39 2 40 2 closed" in text(visitor(url)("/"))


def test_a_day_without_open_depots_is_closed_rather_than_0_orders(url: str) -> None:
    depots = (simple("A1", 1200, drivers=27), simple("B1", 31, "York", drivers=1))
    fill(url, replace(publication(), depots=depots, totals=totals("Boston", "York")))
    get = visitor(url, NOON + timedelta(days=1))  # tomorrow is the closed third day
    page, wall = text(get("/")), text(get("/wall"))
    assert "Orders expected tomorrow, Thu 19 Jun closed No depot is open; next Fri 20 Jun, 1,347 orders" in page
    assert re.search(r"Boston 1 depot 500 27 450–550 500 27 450–550 closed", page)
    assert "Orders expected tomorrow, Thu 19 Jun closed new model" in wall
    assert "Boston closed York closed" in wall


def test_a_wall_shows_how_many_depots_did_not_fit(url: str) -> None:
    def tiles(depots: int) -> int:
        fill(url, replace(publication(run_id=f"{depots}"), depots=tuple(simple(f"A{i}", 100) for i in range(depots))))
        return visitor(url)("/wall?city=Boston").text.partition('class="tiles"')[2].partition("</ul>")[0].count("<li>")

    assert (tiles(7), tiles(8), tiles(9)) == (7, 8, 8)
    assert "and 2 more" in text(visitor(url)("/wall?city=Boston"))


def test_totals_of_six_digits_have_a_short_form_for_phones(url: str) -> None:
    fill(url, replace(publication(), depots=(simple("A1", 445_129), simple("A2", 99))))
    page = visitor(url)("/").text
    assert '<b class="roomy">445,228</b><b class="tight">445k</b>' in page
    assert '<b class="roomy">445,129</b><b class="tight">445k</b>' in page


def test_one_citys_total_is_the_networks(url: str) -> None:
    fill(url, replace(publication(), depots=(simple("A1", 1200), simple("A2", 100)), totals=totals()))
    assert "Orders expected tomorrow, Wed 18 Jun 1,345" in text(visitor(url)("/wall?city=Boston"))


def test_the_network_page_shows_quality_and_origin_of_the_forecasts(get: Get) -> None:
    page = text(get("/"))
    assert "new model Made by the newest model: it was trained this night and admitted." in page
    assert "Published Tue 17 Jun, 03:24 EDT" in page
    assert "Model harbor-fleet v3" in page
    assert "Newest reading Mon 16 Jun" in page
    assert "stale" not in page


@pytest.mark.parametrize("tier", ["fresh", "champion", "fallback"])
@pytest.mark.parametrize("path", ["/", "/depot/BOS-01"])
def test_each_tier_is_named_and_explained(url: str, tier: str, path: str) -> None:
    fill(url, publication(tier=tier, note="This night's model was 2 % worse."))
    page = text(visitor(url)(path))
    assert f"{TIERS[tier]} {MEANING[tier].format(night='this night')}" in page
    assert "This night's model was 2 % worse." in page


def test_a_depots_page_matches_its_table_and_the_network_page(url: str) -> None:
    fill(url, replace(publication(), depots=(simple("A1", 1200, drivers=27),)))
    page = text(visitor(url)("/depot/A1"))
    assert "Orders expected tomorrow, Wed 18 Jun 1,200 80 % range 1,180–1,220 · 27 drivers" in page
    assert "Tue 17 Jun today 1,199 1,179–1,219 27" in page
    assert "Wed 18 Jun tomorrow 1,200 1,180–1,220 27" in page
    assert "Thu 19 Jun closed –" in page
    assert "Mon 16 Jun 97" in page  # the actual


def test_a_depots_chart_has_a_text_alternative_and_names_marked_days(get: Get) -> None:
    answer = get("/depot/BOS-01")
    assert answer.text.count('role="img"') == 2
    assert '<title id="wide-t">Orders a day: 35 days behind, 7 days ahead</title>' in answer.text
    assert "Thu 19 Jun closed" in answer.text
    page = text(answer)
    assert "Thu 19 Jun: Juneteenth National Independence Day (holiday)" in page
    assert "Fri 13 Jun: Free delivery weekend (promo)" in page
    assert "Thu 5 Jun not known" in page


def test_pages_do_not_mention_drivers_if_none_are_planned(url: str) -> None:
    fill(url, replace(publication(), depots=tuple(depot(i, staffed=False) for i in range(3))))
    get = visitor(url)
    assert "river" not in text(get("/"))
    assert "river" not in text(get("/depot/BOS-01"))


def test_without_cities_the_depots_are_one_list(url: str) -> None:
    fill(url, replace(publication(), depots=tuple(replace(depot(i), attributes={}) for i in range(3))))
    answer = visitor(url)("/")
    assert answer.status_code == 200
    assert "Cities" not in text(answer)


@pytest.mark.parametrize(
    "depot_id", [ODD_ID, "a/b/c", "/", "<script>alert(1)</script>", "{{ 7*7 }}", "100 %", "x" * 300]
)
def test_depots_with_any_id_are_found_and_escaped(url: str, depot_id: str) -> None:
    fill(url, replace(publication(), depots=(depot(0, depot_id), depot(1))))
    get = visitor(url)
    links = re.findall(r'<th scope="row"><a href="(/depot/[^"]+)">', get("/").text)
    assert f"/depot/{quote(depot_id, safe='')}" in links
    page = get(next(link for link in links if link != "/depot/NYC-01"))
    assert page.status_code == 200
    assert f'<h1 id="headline">{html.escape(depot_id)}</h1>' in page.text.replace("&#34;", "&quot;").replace(
        "&#39;", "&#x27;"
    )
    assert get(f"/api/v1/depots/{quote(depot_id, safe='')}").json()["depot_id"] == depot_id


def test_texts_from_the_data_are_escaped(url: str) -> None:
    evil = "<script>alert(1)</script>\"'"
    first = depot(0)
    marks = tuple(replace(mark, name=evil, kind=evil) for mark in first.marks)
    first = replace(first, attributes={"city": evil, "x": evil}, marks=marks)
    fill(url, replace(publication(title=evil, note=evil, model=evil), depots=(first, depot(1))))
    get = visitor(url)
    for path in ("/", "/depot/BOS-01"):
        assert "<script>" not in get(path).text


def test_the_api_matches_the_page(url: str) -> None:
    fill(url, replace(publication(), depots=(simple("A1", 1200, drivers=27), simple("A2", 100))))
    get = visitor(url)
    body = get("/api/v1/publication").json()
    assert body["about"]["tier"] == "fresh"
    assert body["about"]["published_at"] == "2025-06-17T07:24:00Z"
    assert body["totals"] == []
    expected = {
        "target_date": "2025-06-18",
        "open": True,
        "low": 1180.0,
        "median": 1200.0,
        "high": 1220.0,
        "drivers": 27,
    }
    assert body["depots"][0]["days"][1] == expected
    first = get("/api/v1/depots/A1").json()
    assert first["days"][1]["quantiles"] == [1180.0, 1190.0, 1200.0, 1210.0, 1220.0]
    assert first["recent"] == [{"date": "2025-06-16", "orders": 97.0, "open": True, "demand": 97.0}]
    assert "PublicationOut" in get("/api/v1/openapi.json").text


def test_after_midnight_tomorrow_is_the_next_day_in_the_pipelines_zone(url: str) -> None:
    fill(url, publication())
    assert "tomorrow, Wed 18 Jun" in text(visitor(url, NOON + timedelta(hours=11))("/"))  # 23:00 in New York
    assert "tomorrow, Thu 19 Jun" in text(visitor(url, NOON + timedelta(hours=12))("/"))
    assert "today, Mon 23 Jun" in text(visitor(url, NOON + timedelta(days=6))("/"))
    assert "Orders expected Tue 17 Jun" in text(visitor(url, NOON + timedelta(days=90))("/"))


def test_every_page_warns_of_stale_forecasts(url: str) -> None:
    fill(url, publication())
    get = visitor(url, NOON + timedelta(days=7))
    for path in ("/", "/depot/BOS-01"):
        assert "newest reading is 8 days old." in text(get(path))
    assert "8 days old" in get("/api/v1/publication").json()["about"]["stale"]


def test_a_replayed_past_night_raises_no_alarm(url: str) -> None:
    fill(url, publication(published_at=NOON + timedelta(days=7)))
    page = text(visitor(url, NOON + timedelta(days=7))("/"))
    assert "A past night, run again." in page
    assert "These forecasts are stale." not in page


def test_the_service_worker_is_at_the_root_and_revalidated(url: str) -> None:
    answer = visitor(url)("/worker.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert answer.headers["cache-control"] == "no-cache"


@pytest.mark.parametrize(
    "depot_id", ["<img src=x onerror=alert(1)>", "\"'`><", "🚚🏳️‍🌈", "x" * 10_000, "=1+1", "../../etc"]
)
def test_depot_names_are_escaped_in_every_view(
    url: str, tmp_path_factory: pytest.TempPathFactory, depot_id: str
) -> None:
    odd_url = f"sqlite:///{tmp_path_factory.mktemp('odd') / 'ledger.db'}"
    fill(odd_url, replace(publication(), depots=(depot(0, depot_id), depot(1))))
    get = visitor(odd_url)
    for path in ("/", f"/depot/{quote(depot_id, safe='')}"):
        page = get(path)
        assert page.status_code == 200
        assert "<img" not in page.text
    assert get("/api/v1/depots").json()["rows"][0]["depot_id"] == depot_id
    assert "\r\n=" not in get("/api/v1/depots?format=csv").text
