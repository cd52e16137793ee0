"""The week board: sorting, search and filters of rows, cells with crews, past publications,
comparisons."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta

import pytest
from python_calamine import CalamineWorkbook

from dashboards.ops.views.board.query import BoardQuery
from forecaster.ledger import overview
from forecaster.ledger.publication import PublishedDepot, PublishedOverride, PublishedRoster, RecentDay
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import CUTOFF, NOON, PUBLISHED, depot, earlier, fill, publication
from tests.dashboards.visitor import Get, text, visitor


def rows(get: Get, address: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="/depot/[^"]+">([^<]+)</a>', get(address).text)


@pytest.fixture
def network(url: str) -> Get:
    fill(url, publication())
    return visitor(url)


def test_rows_can_be_filtered_by_city_and_search(network: Get) -> None:
    assert rows(network, "/?city=New+York") == ["NYC-01", "NYC-02"]
    assert rows(network, "/?q=phl") == ["PHL-01", "PHL-02"]
    assert rows(network, "/?q=02+boston") == ["BOS-02"]
    assert "2 depots in New York, what needs attention first" in text(network("/?city=New+York"))
    assert "No depot matches. Show all" in text(network("/?q=nothing"))


def test_rows_are_sorted_as_requested_with_a_default_order(network: Get) -> None:
    assert rows(network, "/?sort=depot") == sorted(rows(network, "/"))
    wednesday = CUTOFF + timedelta(days=2)
    page = network(f"/?sort={wednesday}").text
    assert 'aria-sort="descending"><a href="/">Wed' in page
    orders = [int(number) for number in re.findall(rf"/day/{wednesday}/[^>]+><b>([\d,]+)</b>", page)]
    assert orders == sorted(orders, reverse=True)
    assert len(orders) == 6
    assert rows(network, "/?sort=nonsense&page=x") == rows(network, "/")
    assert rows(network, "/?page=99999999999999999999") == rows(network, "/")


def test_depots_are_paginated_by_the_hundred(url: str) -> None:
    fill(url, publication(130))
    get = visitor(url)
    first, second = rows(get, "/"), rows(get, "/?page=2")
    assert (len(first), len(second), len({*first, *second})) == (100, 30, 130)
    assert "Page 2 of 2" in text(get("/?page=7"))
    assert 'href="/?page=2" rel="next"' in get("/").text


def test_a_change_since_the_previous_publication_is_shown_at_the_depot(url: str) -> None:
    fill(url, earlier(0.8), publication())
    get = visitor(url)
    row = next(part for part in get("/").text.split("<tr>") if ">BOS-01<" in part)
    assert "more than the previous forecast" in row
    assert "largest change first" in get("/").text


def test_a_repeated_run_is_not_a_change(url: str) -> None:
    fill(url, publication(run_id="a"), publication(run_id="b"))
    assert "largest change first" not in visitor(url)("/").text


def odd(first: PublishedDepot) -> PublishedDepot:
    """Return the depot without a count of the newest day, and short of drivers tomorrow."""
    short = replace(first.days[1], roster=PublishedRoster(None, 0.75, 9.0, None, None))
    recent = (*first.recent[:-1], RecentDay(CUTOFF, None))
    return replace(first, days=(first.days[0], short, *first.days[2:]), recent=recent)


def test_depots_that_need_attention_come_first_with_the_reason(url: str) -> None:
    depots = (depot(1), depot(4), odd(depot(7)))
    fill(url, replace(publication(), depots=depots))
    get = visitor(url)
    assert rows(get, "/")[0] == "NYC-03"
    page = text(get("/"))
    assert "NYC-03 New York no count for Mon 16 Jun" in page
    assert "8 chances in 10 of being short" in get("/").text
    assert "1 needs attention" in page
    assert "NYC-03 no count for Mon 16 Jun; 8 chances in 10" in text(get("/wall"))
    assert "1 depot has no count for Mon 16 Jun. NYC-03" in text(get("/health"))


def with_roster(first: PublishedDepot, **chances: float) -> PublishedDepot:
    """Return the depot with probabilities of a shortage on some steps ahead, as in day3=0.75."""
    rosters = {
        int(name.removeprefix("day")): PublishedRoster(None, share, 9.0, None, None) for name, share in chances.items()
    }
    return replace(first, days=tuple(replace(day, roster=rosters.get(day.horizon)) for day in first.days))


def test_attention_covers_the_whole_week_but_not_today_or_past_days(url: str) -> None:
    depots = (with_roster(depot(1), day1=0.9), with_roster(depot(4), day4=0.75, day5=0.6), depot(7))
    fill(url, replace(publication(), depots=depots))
    page = visitor(url)("/").text
    assert "NYC-02, Fri 20 Jun: " in page
    assert "8 chances in 10 of being short" in page
    assert "1 needs attention" in page


def test_an_overridden_day_needs_no_attention(url: str) -> None:
    short = odd(depot(7))
    day = replace(short.days[1], quantiles=tuple(map(round, short.days[1].quantiles)))
    override = PublishedOverride(1, int(day.quantiles[2]), day.quantiles, "event", "", "Ana", PUBLISHED, CUTOFF)
    counted = replace(short, recent=depot(7).recent)
    looked_at = replace(counted, days=(short.days[0], replace(day, override=override), *short.days[2:]))
    fill(url, replace(publication(run_id="b"), depots=(counted,)))
    assert "1 needs attention" in text(visitor(url)("/"))
    fill(url, replace(publication(run_id="c"), depots=(looked_at,)))
    assert "none need attention" in text(visitor(url)("/"))


def test_a_shortage_at_a_third_of_all_depots_is_shown_on_the_wall_and_counted_on_the_board(url: str) -> None:
    depots = tuple(with_roster(depot(n), day4=0.75) if n < 6 else depot(n) for n in range(18))
    fill(url, replace(publication(), depots=depots))
    get = visitor(url)
    sentence = "Too few drivers are likely at many depots at once: 6 of 18 on Fri 20 Jun."
    assert sentence in text(get("/wall"))
    assert "6 need attention" in text(get("/"))
    assert "6 short" in text(get("/"))
    assert get("/").text.count("8 chances in 10 of being short") == 6
    fill(url, replace(publication(run_id="b"), depots=(*depots, depot(18))))  # 6 of 19 are fewer than a third
    assert "Too few drivers" not in text(get("/wall"))


def test_the_most_likely_shortage_of_the_day_in_front_comes_first(url: str) -> None:
    """They come before depots with more reasons, and before larger shortages of later days."""
    chances = {0: {"day2": 0.6}, 1: {"day5": 0.99}, 2: {"day2": 0.97}, 3: {"day2": 0.8, "day4": 0.98}}
    depots = [with_roster(depot(n), **chances[n]) if n in chances else depot(n) for n in range(12)]
    depots[4] = replace(odd(depot(4)), days=depot(4).days, tier="fallback")  # two reasons, neither of them a shortage
    fill(url, replace(publication(), depots=tuple(depots)))
    get = visitor(url)
    worst = ["PHL-01", "BOS-02", "BOS-01", "NYC-02", "NYC-01"]
    assert re.findall(r'<th scope="row"><a href="/depot/([^"]+)"', get("/").text)[:5] == worst
    assert [text(get("/wall")).index(name) for name in worst[:4]] == sorted(
        text(get("/wall")).index(name) for name in worst[:4]
    )
    assert "8 chances in 10 of being short, and on 1 other day" in text(get("/wall"))


def test_a_depot_unknown_to_the_model_has_its_own_tier(url: str) -> None:
    fill(url, replace(publication(), depots=(replace(depot(0), tier="fallback", timezone="Asia/Tokyo"), depot(1))))
    get = visitor(url)
    assert "the model does not know this depot" in text(get("/"))
    assert "same weekday This depot’s numbers repeat" in text(get("/depot/BOS-01"))
    assert "Published Tue 17 Jun, 16:24 JST" in text(get("/depot/BOS-01"))


def test_a_newly_closed_depot_needs_attention(url: str) -> None:
    fill(url, earlier(), publication(depots=1))
    page = text(visitor(url, NOON + timedelta(days=1))("/"))  # tomorrow is the holiday
    assert re.search(r"closed; the previous forecast was \d+ orders", page)


def test_addresses_keep_the_query() -> None:
    query = BoardQuery.of({"city": "São Paulo", "q": " a&b ", "page": "3", "sort": "change"})
    assert query.to(page=4) == "/?sort=change&city=S%C3%A3o+Paulo&q=a%26b&page=4"
    assert BoardQuery().to() == "/"


@pytest.mark.parametrize("at_once", [1, 2, overview.AT_ONCE])
def test_an_outline_is_the_publication_with_a_shorter_past(
    url: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "AT_ONCE", at_once)
    fill(url, replace(publication(), depots=(odd(depot(0)), depot(1), replace(depot(2), recent=()))))
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        whole = ledger.depots(1)
        assert overview.outline(connection, 1) == tuple(replace(d, recent=d.recent[-8:], marks=()) for d in whole)


def test_the_first_view_of_very_many_depots_is_under_50_kb(url: str) -> None:
    fill(url, publication(1000))  # a page has the same size for any number of depots
    answer = visitor(url)("/", accept_encoding="gzip")
    assert len(rows(visitor(url), "/")) == 100
    assert int(answer.headers["content-length"]) < 40_000


def test_numbers_use_the_readers_format(url: str) -> None:
    fill(url, publication(64))
    get = visitor(url)
    english, german = (get("/", accept_language=tag) for tag in ("en-US", "de-AT,de;q=0.9,en;q=0.5"))
    assert re.search(r'class="big">\d+,\d{3}<', english.text)
    assert re.search(r'class="big">\d+\.\d{3}<|class="big">\d+\xa0\d{3}<', german.text)
    assert english.headers["etag"] != german.headers["etag"]
    assert "Accept-Language" in english.headers["vary"]
    assert get("/", accept_language="xx-nonsense;q=z, *").text == english.text


def test_reports_late_runs_and_readings(url: str) -> None:
    fill(url, publication())
    page = text(visitor(url, NOON + timedelta(days=3))("/health"))
    assert "The newest reading is 4 days old: the source is late." in page
    assert "Nothing is late." in text(visitor(url)("/health"))


def crews(first: PublishedDepot, chance_short: float) -> PublishedDepot:
    """Return the depot with this probability of a shortage on the second day ahead."""
    return with_roster(first, day2=chance_short)


@pytest.mark.parametrize(("chance_short", "step", "covered"), [(0.02, 0, 10), (0.2, 1, 8), (0.4, 2, 6), (0.97, 4, 0)])
def test_a_cell_shows_the_crew_and_the_probability_that_it_suffices(
    url: str, chance_short: float, step: int, covered: int
) -> None:
    fill(url, replace(publication(), depots=(crews(depot(0), chance_short), depot(1))))
    drivers = depot(0).days[1].drivers
    cell = re.search(
        r'<td class="(s\d) meant"><a href="/day/2025-06-18/BOS-01"[^>]*>(.*?)</td>', visitor(url)("/").text
    )
    assert cell is not None
    assert cell[1] == f"s{step}"
    assert f'<i>{drivers}</i><u class="c{covered}"></u>' in cell[2]


def test_filters_select_depots_that_are_short_or_overridden(url: str) -> None:
    day = depot(1).days[2]
    override = PublishedOverride(1, int(day.quantiles[2]), day.quantiles, "event", "", "Ana", PUBLISHED, CUTOFF)
    planned = replace(depot(1), days=(*depot(1).days[:2], replace(day, override=override), *depot(1).days[3:]))
    fill(url, replace(publication(), depots=(crews(depot(0), 0.9), planned, replace(depot(2), tier="fallback"))))
    get = visitor(url)
    assert rows(get, "/?only=short") == ["BOS-01"]
    assert rows(get, "/?only=overridden") == ["NYC-01"]
    assert rows(get, "/?only=fallback") == ["PHL-01"]
    assert "likely short: 1" in text(get("/"))
    assert "a planner’s number" in get("/").text


def test_the_network_and_each_city_have_a_row_with_their_sums(network: Get) -> None:
    page = network("/").text
    [totals] = re.findall(r'<tbody class="totals">.*?</tbody>', page, re.S)
    assert re.findall(r'<th scope="row">(?:<a [^>]+>)?([^<]+?)(?:</a>)? <small>', totals) == [
        "Network",
        "Boston",
        "New York",
        "Philadelphia",
    ]
    boston = [depot(0), depot(3)]
    days = [[member.days[step] for member in boston] for step in range(7)]
    sums = [str(sum(day.drivers or 0 for day in pair)) for pair in days if any(day.open for day in pair)]
    assert re.findall(r"<i>(\d+)</i>", totals.split("<tr")[2]) == sums


def test_sorting_by_city_gives_each_city_its_own_sheet(network: Get) -> None:
    page = network("/?sort=city").text
    assert page.count('<tbody class="sheet">') == 3
    assert rows(network, "/?sort=city&city=Boston") == ["BOS-01", "BOS-02"]


def test_a_past_publication_is_compared_with_actuals(url: str) -> None:
    fill(url, earlier(0.8), publication())
    get = visitor(url)
    yesterday = (PUBLISHED - timedelta(days=1)).date()
    page = get(f"/?as_of={yesterday}&beside=actual")
    assert "A past publication." in text(page)
    assert "Below each: the actual orders." in text(page)
    came = round(depot(0).recent[-1].came or 0)
    assert re.search(rf"/day/{CUTOFF}/BOS-01\?as_of={yesterday}.*?</a><small>{came}</small>", page.text)
    assert f'href="/?as_of={yesterday}" rel="prev"' in get("/").text
    assert 'rel="next"' in page.text
    assert get("/?as_of=yesterday").status_code == 422
    for path in (f"/depot/BOS-01?as_of={yesterday}", f"/day/{CUTOFF}/BOS-01?as_of={yesterday}"):
        past = get(path)
        assert "A past publication." in text(past)
        assert f'href="/day/{CUTOFF}/BOS-01?as_of={yesterday}"' in past.text
    assert "A past publication." not in text(get("/depot/BOS-01"))


def test_each_day_can_be_compared_with_the_week_before(url: str) -> None:
    fill(url, publication())
    page = visitor(url)("/?beside=last-week").text
    before = {recent.date: recent.came for recent in depot(0).recent}
    day = depot(0).days[1].target_date
    assert re.search(rf"/day/{day}/BOS-01.*?</a><small>{round(before[day - timedelta(days=7)] or 0)}</small>", page)


def test_rejects_an_unpublished_day_and_lists_the_published_ones(network: Get) -> None:
    answer = network("/day/2031-01-01/BOS-01")
    assert answer.status_code == 404
    assert "wanted one of Tue 17 Jun – Mon 23 Jun" in text(answer)


def test_a_depot_day_is_a_page_with_that_day_in_front(network: Get) -> None:
    day = depot(0).days[3].target_date
    page = network(f"/day/{day}/BOS-01").text
    assert "<title>BOS-01, Fri 20 Jun" in page
    assert "Orders expected Fri 20 Jun" in text(network(f"/day/{day}/BOS-01"))


def test_suggests_a_city_for_a_misspelled_one(network: Get) -> None:
    page = text(network("/?city=boston%20"))
    assert "No depot matches. Did you mean Boston ?" in page


def test_the_board_can_be_downloaded(network: Get) -> None:
    rows_of_boston = list(csv.DictReader(io.StringIO(network("/?city=Boston&format=csv").text)))
    assert {row["depot_id"] for row in rows_of_boston} == {"BOS-01", "BOS-02"}
    assert len(rows_of_boston) == 2 * 7
    day = depot(0).days[1]
    first = next(row for row in rows_of_boston if row["depot_id"] == "BOS-01" and row["target_date"] == "2025-06-18")
    assert (float(first["median"]), int(first["drivers"])) == (day.quantiles[2], day.drivers)
    answer = network("/?city=Boston&format=xlsx")
    assert answer.headers["content-disposition"] == 'attachment; filename="week.xlsx"'
    book = CalamineWorkbook.from_filelike(io.BytesIO(answer.content))
    drivers = book.get_sheet_by_name("Drivers").to_python()
    assert drivers[0][3] == day.target_date
    assert next(row for row in drivers if row[0] == "BOS-01")[:4] == [
        "BOS-01",
        "Boston",
        depot(0).days[0].drivers,
        day.drivers,
    ]
    assert network("/?format=pdf").status_code == 422
    assert network("/?city=Nowhere&format=csv").status_code == 404
    assert 'href="/?city=Boston&amp;format=csv"' in network("/?city=Boston").text
