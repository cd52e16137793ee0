"""Feeds: content of a link's feed for feed readers and calendars, and its limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, timedelta

import feedparser
import httpx
import pytest
from icalendar import Calendar

from forecaster.ledger import access as ledger_access
from forecaster.ledger import tables
from forecaster.ledger.publication import PublishedOverride
from forecaster.ledger.store import Ledger
from tests.dashboards.guests import HOME, SECRET, Guest, declared, hang_up, house, signed_in
from tests.dashboards.seed import NOON, earlier, fill, publication
from tests.dashboards.visitor import text


@pytest.fixture(autouse=True)
def secret() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        yield


@pytest.fixture
def reader(url: str) -> Guest:
    """Return an external calendar client without a sign-in."""
    fill(url, earlier(), publication())
    return Guest(house(url, declared()), address="192.0.2.30")


def calendar(url: str, city: str | None = None, depot_id: str | None = None) -> tuple[ledger_access.Link, str]:
    link, address = hang_up(url, view="feed", city=city, depot_id=depot_id)
    assert address.startswith(f"{HOME}/feed/")
    return link, address.removeprefix(HOME)


def rss_of(path: str) -> str:
    return path.removesuffix("ics") + "rss"


def events(answer: httpx.Response) -> dict[date, dict[str, str]]:
    assert answer.headers["content-type"] == "text/calendar; charset=utf-8"
    found = {}
    for event in Calendar.from_ical(answer.content).walk("VEVENT"):
        names = ("UID", "SEQUENCE", "SUMMARY", "DESCRIPTION", "URL", "TRANSP")
        found[event["DTSTART"].dt] = {name: str(event[name]) for name in names}
    return found


def test_a_calendar_has_an_all_day_event_for_each_day_ahead(reader: Guest, url: str) -> None:
    _, path = calendar(url, depot_id="BOS-01")
    book = events(reader(path))
    assert list(book) == [date(2025, 6, 17) + timedelta(days=i) for i in range(7)]
    assert book[date(2025, 6, 18)]["SUMMARY"] == "BOS-01: 364 orders, 9 drivers"
    assert book[date(2025, 6, 19)]["SUMMARY"] == "BOS-01: closed"
    assert book[date(2025, 6, 18)]["URL"] == f"{HOME}/depot/BOS-01"
    assert "364 orders (280–448), 9 drivers" in book[date(2025, 6, 18)]["DESCRIPTION"]
    assert {event["TRANSP"] for event in book.values()} == {"TRANSPARENT"}
    assert len({event["UID"] for event in book.values()}) == 7


def test_a_changed_event_keeps_its_uid_and_increases_its_sequence(reader: Guest, url: str) -> None:
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        # well before the following changes, not within the same second
        connection.execute(tables.slot.update().values(flipped_at=NOON))
    _, path = calendar(url, depot_id="BOS-01")
    first = reader(path)
    before = events(first)
    whole = publication(run_id="refresh-1", published_at=NOON)
    day = whole.depots[0].days[1]
    until = date(2025, 6, 20)
    wish = PublishedOverride(1, 400, day.quantiles, "weather", "", "Ana", NOON, until)
    changed = replace(day, quantiles=(390, 395, 400, 405, 410), override=wish, drivers=10)
    days = (whole.depots[0].days[0], changed, *whole.depots[0].days[2:])
    fill(url, replace(whole, depots=(replace(whole.depots[0], days=days), *whole.depots[1:])))
    second = reader(path)
    after = events(second)
    assert {day: event["UID"] for day, event in after.items()} == {day: event["UID"] for day, event in before.items()}
    assert all(int(after[day]["SEQUENCE"]) > int(before[day]["SEQUENCE"]) for day in before)
    assert after[date(2025, 6, 18)]["SUMMARY"] == "BOS-01: 400 orders, 10 drivers"
    assert "Ana’s number; the model says 364" in after[date(2025, 6, 18)]["DESCRIPTION"]
    assert first.headers["etag"] != second.headers["etag"]


def test_a_feed_has_one_item_per_day_and_is_revalidated(reader: Guest, url: str) -> None:
    _, path = calendar(url, city="Boston")
    answer = reader(rss_of(path))
    assert answer.headers["content-type"].startswith("application/rss+xml")
    feed = feedparser.parse(answer.content)
    assert (feed.bozo, feed.version, feed.feed.title) == (False, "rss20", "Harbor Fleet: Boston")
    assert [entry.title for entry in feed.entries] == [
        "Boston, Wed 18 Jun: 510 orders, 13 drivers",
        "Boston, Tue 17 Jun: 408 orders, 13 drivers",  # the forecast of the day before, for its own tomorrow
    ]
    assert "BOS-02: 146 orders (112–179), 4 drivers" in feed.entries[0].summary
    assert "NYC" not in answer.text
    tag = answer.headers["etag"]
    assert reader(rss_of(path), headers={"If-None-Match": tag}).status_code == 304
    assert "private" in answer.headers["cache-control"]
    again = publication(run_id="refresh-1", published_at=NOON)  # on the same day
    fill(url, again)
    newer = feedparser.parse(reader(rss_of(path), headers={"If-None-Match": tag}).content)
    assert len(newer.entries) == 2
    assert newer.entries[0].id != feed.entries[0].id
    assert newer.entries[1].id == feed.entries[1].id


def test_a_link_shows_only_its_scope(reader: Guest, url: str) -> None:
    depots, boston, whole = calendar(url, depot_id="BOS-01"), calendar(url, city="Boston"), calendar(url)
    statuses = {
        (name, query): reader(f"{path}{query}").status_code
        for name, (_, path) in (("depot", depots), ("city", boston), ("all", whole))
        for query in ("?depot=BOS-01", "?depot=BOS-02", "?depot=NYC-01", "?city=Boston", "?city=Ulm")
    }
    opens = {question for question, status in statuses.items() if status == 200}
    assert opens == {
        ("depot", "?depot=BOS-01"),
        ("city", "?depot=BOS-01"),
        ("city", "?depot=BOS-02"),
        ("city", "?city=Boston"),
        ("all", "?depot=BOS-01"),
        ("all", "?depot=BOS-02"),
        ("all", "?depot=NYC-01"),
        ("all", "?city=Boston"),
    }
    assert set(statuses.values()) == {200, 404}
    only = reader(f"{depots[1]}?depot=BOS-01").text
    assert "BOS-01" in only
    assert "BOS-02" not in only
    admin = signed_in(reader.app, "ada")  # sees all, but with this link only its scope
    assert "NYC" not in admin(rss_of(boston[1])).text


def test_a_revoked_link_and_a_link_of_a_screen_open_no_feed(reader: Guest, url: str) -> None:
    link, path = calendar(url, city="Boston")
    tag = reader(path).headers["etag"]
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        ledger_access.revoke(connection, "harbor-fleet", link.link_id, by="ada", at=NOON)
    for form in (path, rss_of(path)):
        answer = reader(form, headers={"If-None-Match": tag})
        assert answer.status_code == 404
        assert "BOS" not in answer.text
    _, screen = hang_up(url)
    token = screen.rpartition("/")[2]
    assert reader(f"/feed/{token}/ics").status_code == 404
    _, feed = calendar(url)
    token = feed.split("/")[2]
    assert reader(f"/link/{token}").status_code == 404
    assert Guest(reader.app, {"Cookie": f"__Host-link={token}"})("/").status_code == 403
    assert reader(f"/feed/{token[:-1]}/ics").status_code == 404


def test_admins_make_an_address_on_the_page_and_others_see_whom_to_ask(reader: Guest, url: str) -> None:
    ada, bob = signed_in(reader.app, "ada"), signed_in(reader.app, "bob")
    assert "In your calendar" in text(ada("/depot/BOS-01"))
    assert "Make an address" in text(ada("/subscribe?depot=BOS-01"))
    assert "An administrator creates an address" in text(bob("/subscribe?depot=BOS-01"))
    assert bob("/subscribe?depot=NYC-01").status_code == 404
    assert bob("/subscribe?city=Ulm").status_code == 404
    assert bob.writes("/subscribe?depot=BOS-01").status_code == 403
    page = ada.writes("/subscribe?depot=BOS-01")
    address = next(word for word in page.text.split('"') if word.endswith("/ics"))
    assert events(reader(address.removeprefix(HOME)))[date(2025, 6, 18)]["SUMMARY"].startswith("BOS-01: 364")
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        [entry] = ledger_access.entries(connection, "harbor-fleet", 1)
    assert entry.who == "ada"
    assert "to feed, BOS-01 alone" in entry.what


def test_the_api_makes_feeds_and_rejects_invalid_ones(reader: Guest) -> None:
    ada = signed_in(reader.app, "ada")
    made = ada.writes("/api/v1/links", json={"view": "feed", "depot_id": "BOS-01"}).json()
    assert made["link"]["depot_id"] == "BOS-01"
    assert made["rss"] == made["address"].removesuffix("ics") + "rss"
    for wish in (
        {"view": "feed", "depot_id": "XXX-99"},
        {"view": "feed", "depot_id": "BOS-01", "city": "Boston"},
        {"view": "wall", "depot_id": "BOS-01"},
    ):
        answer = ada.writes("/api/v1/links", json=wish)
        assert (answer.status_code, answer.json()["detail"].startswith("depot_id: found")) == (422, True)
