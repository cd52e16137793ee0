"""Digests of a depot, a city and all depots: the page's wording, and only published numbers."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, datetime, timedelta

import pytest

from dashboards.ops.reading.editions import Edition, NoSuchDepot
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views.digest import mail, wording
from dashboards.ops.views.digest.content import Digest, DigestScope, NoSuchCity, digest
from dashboards.ops.views.digest.crew_changes import crew_changes
from dashboards.ops.views.digest.language import in_language
from forecaster.ledger.once.digests import CLOSED
from forecaster.ledger.publication import (
    Publication,
    PublishedChange,
    PublishedOverride,
    PublishedRoster,
    PublishedTotal,
)
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import NOON, ODD_ID, PUBLISHED, depot, earlier, fill, publication

TOMORROW = date(2025, 6, 18)


def edition(url: str, now: datetime = NOON, cities: frozenset[str] | None = None) -> Edition:
    return PublicationStore(url, "harbor-fleet", lambda: now, "").edition(cities)


def made(url: str, *publications: Publication, scope: DigestScope, now: datetime = NOON) -> Digest:
    fill(url, *publications)
    return digest(edition(url, now), scope, "https://depots.example")


def full(whole: Publication) -> Publication:
    """Return the publication with a changed and rostered BOS-01, an override of NYC-01, and a total
    with a range for Boston."""
    boston, york, *others = whole.depots
    day = boston.days[1]
    roster = PublishedRoster(4, 0.31, 40.0, 42.0, 55.0, borrowed=(("NYC-01", 2),))
    change = PublishedChange(date(2025, 6, 16), round(day.quantiles[2]) - 30, (("actuals", 25), ("calendar", 5)))
    boston = replace(boston, days=(boston.days[0], replace(day, roster=roster, change=change), *boston.days[2:]))
    day = york.days[1]
    until = date(2025, 6, 24)
    wish = PublishedOverride(1, 140, day.quantiles, "weather", "storm", "Ana", PUBLISHED, until)
    york = replace(
        york,
        days=(york.days[0], replace(day, quantiles=(130, 135, 140, 150, 160), override=wish), *york.days[2:]),
    )
    ahead = [day.target_date for day in boston.days]
    totals = tuple(PublishedTotal("Boston", day, (400.0, 450.0, 500.0, 550.0, 600.0)) for day in ahead)
    return replace(whole, depots=(boston, york, *others), totals=totals)


def test_a_depots_digest_has_number_range_crew_change_and_reason(url: str) -> None:
    content = made(url, full(publication()), scope=DigestScope("BOS-01"))
    assert wording.subject(content) == "BOS-01, tomorrow, Wed 18 Jun: 364 orders, 9 drivers"
    lines = wording.text(content).splitlines()
    assert lines[:5] == [
        "Harbor Fleet: BOS-01",
        "",
        "Orders expected tomorrow, Wed 18 Jun: 364 orders (280–448), 9 drivers",
        "30 more than yesterday’s forecast, mostly because of the actual orders since then",
        "",
    ]
    assert "- Tue 17 Jun, today: 346 orders (271–421), 9 drivers" in lines
    assert "- Thu 19 Jun: closed" in lines
    assert "  Juneteenth National Independence Day (holiday)" in lines
    assert "  9 drivers, 4 vans (2 lent by NYC-01); 1 chance in 3 of being short; one fewer would cost 15 more" in lines
    assert lines[-1] == "https://depots.example/depot/BOS-01"
    assert content.crews == {"2025-06-17": {"BOS-01": 9}, "2025-06-18": {"BOS-01": 9}}


def test_an_override_is_attributed_to_its_planner(url: str) -> None:
    content = made(url, full(publication()), scope=DigestScope("NYC-01"))
    assert content.planned == "Ana’s number; the model says 108"
    assert "140 orders by Ana (weather: storm), until Tue 24 Jun; the model says 108." in wording.text(content)
    assert "Ana’s number; the model says 108" in wording.short(content)
    assert "Ana’s number; the model says 108" in mail.html(content)


def test_a_citys_digest_has_its_total_depots_that_need_attention_and_the_list(url: str) -> None:
    whole = full(publication())
    content = made(url, earlier(), whole, scope=DigestScope(city="Boston"))
    text = wording.text(content)
    assert "Orders expected tomorrow, Wed 18 Jun: 500 orders (400–600), 13 drivers" in text
    assert [depot_id for depot_id, _ in content.outstanding] == ["BOS-01", "BOS-02"]
    assert [line.depot_id for line in content.lines] == ["BOS-01", "BOS-02"]  # busiest first
    assert "- BOS-02: 146 orders (112–179), 4 drivers" in text
    assert "- Thu 19 Jun: closed" in text
    assert "NYC" not in text.replace("2 lent by NYC-01", "")


def test_a_digest_of_all_depots_has_no_unpublished_range(url: str) -> None:
    content = made(url, full(publication()), scope=DigestScope())
    assert (content.name, content.meant.range) == ("all 6 depots", "")  # quantiles do not add up
    assert content.meant.remarks == ("planners changed the number of 1 depot",)
    assert "NYC-01: 140 orders (130–160), 3 drivers; Ana’s number; the model says 108" in wording.text(content)


def test_a_long_list_of_depots_is_truncated_and_counted(url: str) -> None:
    content = made(url, publication(70), scope=DigestScope())
    assert (len(content.lines), content.more) == (64, "6 depots more on the page")


def test_rejects_an_unknown_depot_or_city(url: str) -> None:
    fill(url, publication())
    with pytest.raises(NoSuchDepot):
        digest(edition(url), DigestScope("XXX-99"))
    with pytest.raises(NoSuchCity):
        digest(edition(url), DigestScope(city="Ulm"))
    boston = edition(url, cities=frozenset({"Boston"}))
    with pytest.raises(NoSuchDepot):
        digest(boston, DigestScope("NYC-01"))
    with pytest.raises(NoSuchCity):
        digest(boston, DigestScope(city="New York"))


def test_reports_a_fallback_and_outdated_numbers(url: str) -> None:
    content = made(url, publication(tier="fallback"), scope=DigestScope("BOS-01"))
    repeat = "No model could forecast this night: these numbers repeat the same weekdays of earlier weeks."
    assert content.alarm == repeat
    later = NOON + timedelta(days=1)
    with Ledger.open(url) as ledger:
        ledger.start_run("night-2", pipeline="harbor-fleet", as_of=later, spec_digest="x", at=later)
        ledger.finish_run("night-2", "failed", 1, at=later)
    old = digest(edition(url, later), DigestScope("BOS-01"))
    assert old.alarm.startswith(
        "Yesterday’s forecast: this night’s run failed. No model could forecast in the night to"
    )
    assert wording.subject(old).startswith("Old forecast: BOS-01, tomorrow, Thu 19 Jun: closed")
    much_later = digest(edition(url, NOON + timedelta(days=5)), DigestScope("BOS-01"))
    assert much_later.alarm.startswith("Stale, and the last run failed.")


def test_a_digest_uses_a_single_language(url: str) -> None:
    fill(url, publication(tier="fallback"))
    with in_language("de"):
        content = digest(edition(url), DigestScope("BOS-01"))
    assert content.alarm.startswith("Kein Modell konnte")
    assert "same weekdays" not in content.alarm


def test_a_mail_escapes_any_name_and_loads_nothing_external(url: str) -> None:
    content = made(url, publication(depots=1), scope=DigestScope("BOS-01"))
    page = mail.html(replace(content, name=ODD_ID), ("x < y",))
    assert "<b>&#34;" not in page.split("</title>")[1].split("<h1")[0]
    assert "Pier 9/&lt;b&gt;" in page
    assert "x &lt; y" in page
    for foreign in ("<img", "<link", "<script", "<style", "url(", "@import"):
        assert foreign not in page


def test_reports_changed_crews_of_days_in_both_digests() -> None:
    before = {"2025-06-17": {"A": 3}, "2025-06-18": {"A": 4, "B": 2, "C": 1, "gone": 5}}
    now = {"2025-06-18": {"A": 5, "B": CLOSED, "C": 1, "new": 2}, "2025-06-19": {"A": 9}}
    assert crew_changes(before, now) == ("Drivers changed for Wed 18 Jun: A 4 → 5, B 2 → closed.",)
    assert crew_changes(before, before) == ()
    many = {"2025-06-18": {f"D{i}": 1 for i in range(15)}}
    more = {"2025-06-18": {f"D{i}": 2 for i in range(15)}}
    assert crew_changes(many, more)[0].endswith("D11 1 → 2 and 3 more.")


def test_the_day_in_front_is_in_the_depots_time_zone(url: str) -> None:
    east = replace(depot(0), timezone="Asia/Tokyo")  # there NOON is already the 18th
    content = made(url, replace(publication(1), depots=(east,)), scope=DigestScope("BOS-01"))
    assert content.meant.date == date(2025, 6, 19)
    assert content.days[0].date == TOMORROW
    assert content.published.endswith("JST")
