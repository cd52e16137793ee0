"""Every depot is a row that can be sorted, searched and chosen by city; what needs attention comes first."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboards.ops.views.depot_table import TableQuery
from forecaster.ledger import overview
from forecaster.ledger.publication import PublishedDepot, PublishedOverride, PublishedRoster, RecentDay
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import CUTOFF, NOON, PUBLISHED, depot, earlier, fill, publication
from tests.dashboards.visitor import Get, text, visitor


def rows(get: Get, address: str) -> list[str]:
    return re.findall(r'<th scope="row"><a href="[^"]+">([^<]+)</a>', get(address).text)


@pytest.fixture
def network(url: str) -> Get:
    fill(url, publication())
    return visitor(url)


def test_rows_can_be_chosen_by_city_and_by_words_of_the_depot(network: Get) -> None:
    assert rows(network, "/?city=New+York") == ["NYC-01", "NYC-02"]
    assert rows(network, "/?q=phl") == ["PHL-01", "PHL-02"]
    assert rows(network, "/?q=02+boston") == ["BOS-02"]
    assert "2 depots in New York, what needs attention first" in text(network("/?city=New+York"))
    assert "No depot is meant by this. Show all" in text(network("/?q=nothing"))


def test_rows_are_sorted_as_asked_and_an_unknown_wish_is_the_usual_order(network: Get) -> None:
    assert rows(network, "/?sort=depot") == sorted(rows(network, "/"))
    orders = [int(number) for number in re.findall(r'<b class="o">([\d,]+)</b>', network("/?sort=orders").text)]
    assert orders == sorted(orders, reverse=True)
    assert rows(network, "/?sort=nonsense&page=x") == rows(network, "/")
    assert rows(network, "/?page=99999999999999999999") == rows(network, "/")


def test_many_depots_are_turned_by_the_hundred(url: str) -> None:
    fill(url, publication(130))
    get = visitor(url)
    first, second = rows(get, "/"), rows(get, "/?page=2")
    assert (len(first), len(second), len({*first, *second})) == (100, 30, 130)
    assert "Page 2 of 2" in text(get("/?page=7"))
    assert 'href="/?page=2#depots" rel="next"' in get("/").text


def test_what_changed_since_the_publication_before_is_told_with_its_sign(url: str) -> None:
    fill(url, earlier(0.8), publication())
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        head = ledger.current()
        assert head is not None
        before = overview.medians(connection, 1)[("BOS-01", CUTOFF + timedelta(days=2))]
        now = ledger.depots(2)[0].days[1].quantiles[2]
    get = visitor(url)
    row = next(part for part in get("/").text.split("<tr>") if ">BOS-01<" in part)
    assert f'<td class="n">+{round(now - before)}</td>' in row
    assert "more than was said before" in row
    assert "Change" not in text(visitor(url)("/wall"))


def test_a_night_run_again_is_no_change(url: str) -> None:
    fill(url, publication(run_id="a"), publication(run_id="b"))
    assert ">Change<" not in visitor(url)("/").text


def odd(first: PublishedDepot) -> PublishedDepot:
    """Without a count of the newest day, and short of drivers tomorrow."""
    short = replace(first.days[1], roster=PublishedRoster(None, 0.75, 9.0, None, None))
    recent = (*first.recent[:-1], RecentDay(CUTOFF, None))
    return replace(first, days=(first.days[0], short, *first.days[2:]), recent=recent)


def test_what_needs_attention_comes_first_and_says_why(url: str) -> None:
    depots = (depot(1), depot(4), odd(depot(7)))
    fill(url, replace(publication(), depots=depots))
    get = visitor(url)
    assert rows(get, "/")[0] == "NYC-03"
    page = text(get("/"))
    assert "NYC-03 New York no count for Mon 16 Jun 8 chances in 10 of being short" in page
    assert "1 needs attention" in page
    assert "NYC-03 no count for Mon 16 Jun; 8 chances in 10" in text(get("/wall"))
    assert "1 depot has no count for Mon 16 Jun. NYC-03" in text(get("/health"))


def with_roster(first: PublishedDepot, **chances: float) -> PublishedDepot:
    """With chances of being short on some steps ahead, as in day3=0.75."""
    rosters = {
        int(name.removeprefix("day")): PublishedRoster(None, share, 9.0, None, None) for name, share in chances.items()
    }
    return replace(first, days=tuple(replace(day, roster=rosters.get(day.horizon)) for day in first.days))


def test_the_whole_week_is_looked_at_and_days_that_are_over_or_today_are_not(url: str) -> None:
    depots = (with_roster(depot(1), day1=0.9), with_roster(depot(4), day4=0.75, day5=0.6), depot(7))
    fill(url, replace(publication(), depots=depots))
    page = text(visitor(url)("/"))
    assert "NYC-02 New York 8 chances in 10 of being short on Fri 20 Jun, and on 1 other day" in page
    assert "1 needs attention" in page


def test_a_day_with_a_planners_number_is_no_case_for_attention(url: str) -> None:
    short = odd(depot(7))
    day = replace(short.days[1], quantiles=tuple(map(round, short.days[1].quantiles)))
    override = PublishedOverride(1, int(day.quantiles[2]), day.quantiles, "event", "", "Ana", PUBLISHED, CUTOFF)
    counted = replace(short, recent=depot(7).recent)
    looked_at = replace(counted, days=(short.days[0], replace(day, override=override), *short.days[2:]))
    fill(url, replace(publication(run_id="b"), depots=(counted,)))
    assert "1 needs attention" in text(visitor(url)("/"))
    fill(url, replace(publication(run_id="c"), depots=(looked_at,)))
    assert "none need attention" in text(visitor(url)("/"))


def test_a_shortage_of_a_third_of_all_depots_has_a_banner_and_a_word_at_each_depot(url: str) -> None:
    depots = tuple(with_roster(depot(n), day4=0.75) if n < 6 else depot(n) for n in range(18))
    fill(url, replace(publication(), depots=depots))
    get = visitor(url)
    sentence = "Too few drivers are likely at many depots at once: 6 of 18 on Fri 20 Jun."
    assert sentence in text(get("/"))
    assert sentence in text(get("/wall"))
    assert "6 need attention" in text(get("/"))
    assert text(get("/")).count("8 chances in 10 of being short on Fri 20 Jun") == 6
    fill(url, replace(publication(run_id="b"), depots=(*depots, depot(18))))  # 6 of 19 are fewer than a third
    assert "Too few drivers" not in text(get("/"))


def test_the_likeliest_shortage_of_the_day_in_front_comes_first_on_page_and_wall(url: str) -> None:
    """Before depots with more reasons, and before larger shortages of later days."""
    chances = {0: {"day2": 0.6}, 1: {"day5": 0.99}, 2: {"day2": 0.97}, 3: {"day2": 0.8, "day4": 0.98}}
    depots = [with_roster(depot(n), **chances[n]) if n in chances else depot(n) for n in range(12)]
    depots[4] = replace(odd(depot(4)), days=depot(4).days, tier="fallback")  # two reasons, none of them a shortage
    fill(url, replace(publication(), depots=tuple(depots)))
    get = visitor(url)
    worst = ["PHL-01", "BOS-02", "BOS-01", "NYC-02", "NYC-01"]
    assert re.findall(r'<th scope="row"><a href="/depot/([^"]+)"', get("/").text)[:5] == worst
    assert [text(get("/wall")).index(name) for name in worst[:4]] == sorted(
        text(get("/wall")).index(name) for name in worst[:4]
    )
    assert "8 chances in 10 of being short, and on 1 other day" in text(get("/"))


def test_a_depot_that_the_model_does_not_know_has_a_tier_of_its_own(url: str) -> None:
    fill(url, replace(publication(), depots=(replace(depot(0), tier="fallback", timezone="Asia/Tokyo"), depot(1))))
    get = visitor(url)
    assert "the model does not know this depot" in text(get("/"))
    assert "same weekday This depot’s numbers repeat" in text(get("/depot/BOS-01"))
    assert "Published Tue 17 Jun, 16:24 JST" in text(get("/depot/BOS-01"))


def test_a_depot_that_closes_where_orders_were_expected_needs_a_look(url: str) -> None:
    fill(url, earlier(), publication(depots=1))
    page = text(visitor(url, NOON + timedelta(days=1))("/"))  # tomorrow is the holiday
    assert re.search(r"closed; \d+ orders were said before", page)


def test_addresses_of_rows_keep_what_was_asked() -> None:
    query = TableQuery.of({"city": "São Paulo", "q": " a&b ", "page": "3", "sort": "change"})
    assert query.to(page=4) == "/?sort=change&city=S%C3%A3o+Paulo&q=a%26b&page=4#depots"
    assert TableQuery().to() == "/#depots"


@pytest.mark.parametrize("at_once", [1, 2, overview.AT_ONCE])
def test_an_outline_is_the_publication_without_its_longer_past(
    url: str, at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "AT_ONCE", at_once)
    fill(url, replace(publication(), depots=(odd(depot(0)), depot(1), replace(depot(2), recent=()))))
    with Ledger.open_reader(url) as ledger, ledger.transaction() as connection:
        whole = ledger.depots(1)
        assert overview.outline(connection, 1) == tuple(replace(d, recent=d.recent[-2:], marks=()) for d in whole)


def test_the_first_view_of_very_many_depots_is_under_50_kb(url: str) -> None:
    fill(url, publication(1000))  # a page is a page, however many there are
    answer = visitor(url)("/", accept_encoding="gzip")
    assert len(rows(visitor(url), "/")) == 100
    assert int(answer.headers["content-length"]) < 40_000


def test_numbers_are_written_the_readers_way(url: str) -> None:
    fill(url, publication(64))
    get = visitor(url)
    english, german = (get("/", accept_language=tag) for tag in ("en-US", "de-AT,de;q=0.9,en;q=0.5"))
    assert re.search(r'class="big">\d+,\d{3}<', english.text)
    assert re.search(r'class="big">\d+\.\d{3}<|class="big">\d+\xa0\d{3}<', german.text)
    assert english.headers["etag"] != german.headers["etag"]
    assert "Accept-Language" in english.headers["vary"]
    assert get("/", accept_language="xx-nonsense;q=z, *").text == english.text


def test_late_nights_and_readings_are_told(url: str) -> None:
    fill(url, publication())
    page = text(visitor(url, NOON + timedelta(days=3))("/health"))
    assert "The newest reading is 4 days old: the source is late." in page
    assert "Nothing is late." in text(visitor(url)("/health"))
