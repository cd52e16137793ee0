"""Totals of levels and weeks, in the API and on the board."""

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.store import PublicationStore
from dashboards.ops.views import api_rows
from dashboards.ops.views.board.board import board
from dashboards.ops.views.board.query import BoardQuery
from forecaster.ledger.publication import PublishedTotal
from tests.dashboards.seed import CITIES, CUTOFF, NOON, fill, publication
from tests.dashboards.visitor import Get, text, visitor

FIRST = CUTOFF + timedelta(days=1)
REGIONS = {"Boston": "north", "New York": "north", "Philadelphia": "south"}


def numbers(middle: float) -> tuple[float, ...]:
    return (middle - 20, middle - 5, middle, middle + 5, middle + 20)


@pytest.fixture
def store(url: str) -> PublicationStore:
    """Store six depots in three cities of two regions; totals by day, and for a week."""
    whole = publication()
    regions = [{**depot.attributes, "region": REGIONS[depot.attributes["city"]]} for depot in whole.depots]
    depots = tuple(
        replace(depot, attributes=attributes, weeks=(numbers(700),))
        for depot, attributes in zip(whole.depots, regions, strict=True)
    )
    groups = [("city", ""), *(("city", city) for city in CITIES), ("region", "north"), ("region", "south")]
    spans = [*((FIRST + timedelta(days=step), 1) for step in range(7)), (FIRST, 7)]
    totals = tuple(
        PublishedTotal(name, day, numbers(100 * (place + 1) * days), level, days)
        for place, (level, name) in enumerate(groups)
        for day, days in spans
    )
    fill(url, replace(whole, depots=depots, totals=totals))
    return PublicationStore(url, None, lambda: NOON, "test")


@pytest.fixture
def get(store: PublicationStore, url: str) -> Get:
    assert store
    return visitor(url)


def test_the_api_has_every_level_by_day_and_by_week(get: Get) -> None:
    rows = get("/api/v1/levels").json()["rows"]
    assert len(rows) == 6 * 8
    assert [(row["level"], row["name"], row["depots"]) for row in rows[::8]] == [
        (None, None, 6), ("city", "Boston", 2), ("city", "New York", 2), ("city", "Philadelphia", 2),
        ("region", "north", 4), ("region", "south", 2),
    ]  # fmt: skip
    assert rows[7] == {
        "level": None, "name": None, "target_date": "2025-06-17", "days": 7, "depots": 6,
        "low": 680.0, "median": 700.0, "high": 720.0,
    }  # fmt: skip
    table = list(csv.DictReader(io.StringIO(get("/api/v1/levels?format=csv").text)))
    assert [row["name"] for row in table if row["days"] == "7" and row["level"] == "region"] == ["north", "south"]
    schemas = get("/api/v1/openapi.json").json()["components"]["schemas"]
    assert "joint path" in schemas["LevelOut"]["description"]


def test_the_totals_view_still_has_only_cities(get: Get) -> None:
    rows = get("/api/v1/totals").json()["rows"]
    assert {row["city"] for row in rows} == {None, *CITIES}
    assert len(rows) == 4 * 7
    assert len(get("/api/v1/publication").json()["totals"]) == 4 * 7


def test_each_depot_has_its_week(get: Get) -> None:
    expected = {"first": "2025-06-17", "low": 680.0, "median": 700.0, "high": 720.0}
    assert get("/api/v1/depots/BOS-01").json()["weeks"] == [expected]
    assert [depot["weeks"] for depot in get("/api/v1/publication").json()["depots"]] == [[expected]] * 6
    assert "7 days: 700, 680–720" in text(get("/depot/BOS-01"))


def test_the_board_shows_totals_of_the_chosen_level(get: Get) -> None:
    def groups(address: str) -> list[str]:
        [totals] = re.findall(r'<tbody class="totals">.*?</tbody>', get(address).text, re.S)
        return re.findall(r'<th scope="row">(?:<a [^>]+>)?([^<]+?)(?:</a>)? <small>', totals)

    assert groups("/") == ["Network", *CITIES]
    assert groups("/?by=region") == ["Network", "north", "south"]
    assert groups("/?by=nothing") == ["Network", *CITIES]
    page = get("/?by=region")
    assert '<a href="/">by city</a>' in page.text
    assert '<a href="/?by=region" aria-current="true">by “region”</a>' in page.text
    assert '<a href="/?city=north&amp;by=region">north</a>' in page.text
    assert "north 4 depots 7 days: 3,500, 3,480–3,520 500" in text(page)
    south = get("/?by=region&city=south")
    assert set(re.findall(r'<th scope="row"><a href="/depot/[^"]+">([^<]+)</a>', south.text)) == {"PHL-01", "PHL-02"}
    assert '<input type="hidden" name="by" value="region">' in south.text
    assert len(get("/?by=region&city=south&format=csv").text.splitlines()) == 1 + 2 * 7


def test_readers_of_some_cities_see_no_group_with_possible_depots_elsewhere(store: PublicationStore) -> None:
    some: Edition = store.edition(frozenset({"Boston", "New York"}))
    assert {(row.level, row.name) for row in api_rows.levels(some).rows} == {("city", "Boston"), ("city", "New York")}
    shown = board(some, BoardQuery(level="region"))
    assert shown.levels == ()
    assert [row.name for row in shown.totals] == ["Boston", "New York"]
    assert shown.totals[0].week == "7 days: 1,400, 1,380–1,420"
