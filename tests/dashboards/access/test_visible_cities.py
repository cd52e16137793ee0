"""A reader of some cities gets, in every view, format and parameter, the answers of a page with
only their depots."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from dashboards.ops.views.accuracy import PARTS
from dashboards.ops.views.board.query import FILTERS, SORTS
from dashboards.ops.views.catalogue import VIEWS
from forecaster.config import load
from forecaster.core.knowledge import Finding
from forecaster.ledger import accuracy, value
from forecaster.ledger.accuracy import Tally
from forecaster.ledger.publication import Publication, PublishedDepot
from forecaster.ledger.store import Ledger
from forecaster.ledger.value import ValuedDay, WayCost
from forecaster.planning import override_table
from forecaster.planning.overrides import ProposedOverride
from tests.dashboards.guests import SECRET, Guest, declared, house, signed_in
from tests.dashboards.routes.test_pages import totals
from tests.dashboards.seed import CITIES, PUBLISHED, earlier, fill, publication, with_plans
from tests.dashboards.views.test_health import night

INSTANT = datetime(2025, 6, 17, 8, tzinfo=UTC)
DEPOTS = tuple(depot.depot_id for depot in publication().depots[: len(CITIES)])  # one per city
FORMATS = ("", "format=json", "format=csv", "format=xml")
PAST = ("", "publication=1", "publication=2", "publication=9", "as_of=2100-01-01", "as_of=1999-01-01", "as_of=x")
HIDDEN = "NYC-01, PHL-01 and 4,711 orders of the network"
READERS = {
    "one": ["Boston"],
    "two": ["Boston", "Philadelphia"],
    "each": list(CITIES),
    "all": ["*"],
    "another": ["Berlin"],
    "none": [],
}


def _city(depot: PublishedDepot) -> str:
    return depot.attributes["city"]


def _narrowed(whole: Publication, cities: list[str]) -> Publication:
    depots = tuple(depot for depot in whole.depots if _city(depot) in cities)
    sums = tuple(total for total in whole.totals if total.name in cities)
    return replace(whole, depots=depots, totals=sums, note=None)


def _tallies(cities: list[str], whole: bool) -> list[Tally]:
    weeks = [date(2025, 5, 26), date(2025, 6, 2), date(2025, 6, 9)]
    parts = [(accuracy.CITY, city) for city in CITIES if city in cities]
    parts += [(accuracy.DEPOT, depot.depot_id) for depot in publication().depots if _city(depot) in cities]
    if whole:
        parts += [(accuracy.ALL, ""), (accuracy.HORIZON, "01"), (accuracy.WEEKDAY, "Mon")]
    return [
        Tally(week, model, part, label, 40, 4000.0, -60.0, 400.0 + len(label), 32)
        for week in weeks
        for model in (accuracy.FORECAST, accuracy.NAIVE)
        for part, label in parts
    ]


def _values(cities: list[str], whole: bool) -> tuple[list[ValuedDay], list[WayCost]]:
    """Return roster costs of two months for these cities; for the whole, all cities and the numbers
    of planners' decisions."""
    days = [date(2025, 4, 15) + timedelta(days=number) for number in range(60)]
    costs = [
        WayCost(day, city, way, 100.0 + 7 * len(way) + day.day, 2, 3, 40, 5)
        for day in days
        for city in (CITIES if whole else cities)
        for way in value.WAYS
    ]
    return [ValuedDay(day, "basis", "USD", False, 3 if whole else 0, "+0%", [1.0]) for day in days], costs


def write_nights(url: str, cities: list[str], whole: bool) -> None:
    """Write two runs for the depots of these cities; for the `whole`, also everything that would
    reveal other cities."""
    hidden = HIDDEN if whole else "nothing"
    now = publication(totals=totals(*CITIES), note=HIDDEN)
    then = replace(earlier(), totals=(), note=HIDDEN)
    for run_id, began in (("night-0", PUBLISHED - timedelta(days=1)), ("night-1", PUBLISHED)):
        night(url, run_id, Finding("late", "warn", 40, hidden), began=began, outcome=None)
    fill(url, *(with_plans(edition if whole else _narrowed(edition, cities), named=True) for edition in (then, now)))
    with Ledger.open(url) as ledger:
        ledger.note("night-1", verdict={"admitted": False, "objections": [hidden], "compared": {}})
        for digest in ("aa11", "bb22"):
            ledger.promote("harbor-fleet", run_id="night-1", bundle_digest=digest, by="gate", reason=hidden, at=INSTANT)
        computing = {"forecasts": 42, "cost_per_hour": 3.0, "currency": "USD"} if whole else None
        ledger.note("night-1", timings={"night": 100.0}, computing=computing)
        for run_id in ("night-0", "night-1"):
            ledger.finish_run(run_id, "published", 0, hidden, "fresh", at=INSTANT)
        tallies = _tallies(cities, whole)
        with ledger.transaction() as connection:
            accuracy.replace_weeks(connection, "harbor-fleet", sorted({tally.week for tally in tallies}), tallies)
            value.replace_days(connection, "harbor-fleet", *_values(cities, whole), keep_from=date(2025, 1, 1))
            for depot in now.depots[::-1]:  # the newest numbers are of depots visible to the reader
                if whole or _city(depot) in cities:
                    wish = ProposedOverride(depot.depot_id, date(2025, 6, 18), 200, "weather", "Ana")
                    override_table.write(connection, "harbor-fleet", wish, INSTANT)


@dataclass(frozen=True)
class Readers:
    name: str
    whole: Guest
    alone: Guest


@pytest.fixture(scope="module", params=["one", "two", "each", "another", "none"])
def readers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Readers]:
    """Yield a reader of some cities, on the full ledger and on one with only these cities' depots."""
    cities, folder = READERS[request.param], tmp_path_factory.mktemp(request.param)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PAGE_SECRET", SECRET)
        seen_cities = [city for city in cities if city in CITIES] or list(CITIES)
        whole, alone = (
            _guest(folder / "whole", cities, True, cities),
            _guest(folder / "alone", seen_cities, False, cities),
        )
        yield Readers(request.param, whole, alone)


def _guest(folder: Path, content: list[str], whole: bool, cities: list[str]) -> Guest:
    folder.mkdir()
    url = f"sqlite:///{folder / 'ledger.db'}"
    write_nights(url, list(CITIES) if whole else content, whole)
    file = folder / "pipeline.yaml"
    source = "demand: {source: {kind: csv, path: demand.csv}}"
    file.write_text(f"name: harbor-fleet\n{source}\nstate: .\nledger: {url}\n", "utf-8")
    access = declared(cities={"vic": cities}, limits={"reads": "100000/minute", "strangers": "100000/minute"})
    return signed_in(house(url, access, spec=load(file)), "vic")


def _addresses() -> Iterator[str]:
    """Yield every view in every format, current and past, and every page with each of its
    parameters."""
    yield from _api()
    yield from _pages()
    for part, weeks in product(("", *PARTS), ("4", "13", "26")):
        for label in ("", "01", "Mon", *CITIES):
            yield f"/accuracy?weeks={weeks}&part={part}&label={label}"
    yield from (f"/value?weeks={weeks}" for weeks in (8, 26, 52))
    yield from ("/overrides", "/champion", "/health", "/api/v1/openapi.json", "/api/v1/me", "/api/v1/audit")


def _api() -> Iterator[str]:
    for view in VIEWS:
        for form, past in product(FORMATS, PAST if view.of_publication else ("",)):
            yield f"/api/v1/{view.name}?{form}&{past}"
    for depot, form, past in product((*DEPOTS, "Nowhere"), FORMATS, PAST):
        yield f"/api/v1/depots/{depot}?{form}&{past}"
    for form in FORMATS:
        yield from (f"/api/v1/overrides?{form}", f"/api/v1/overrides/worth?{form}")
        for depot, kind in product((*DEPOTS, "Nowhere"), ("orders", "closed", "promo")):
            yield f"/api/v1/what-if?depot={depot}&date=2025-06-18&kind={kind}&value=9&{form}"


def _pages() -> Iterator[str]:
    for depot in (*DEPOTS, "Nowhere"):
        yield f"/depot/{depot}"
        for form in ("csv", "ics", "pdf"):
            yield from (f"/roster?depot={depot}&format={form}", f"/roster?depot={depot}&person=x+1&format={form}")
        for asked in ("2025-06-18", "2025-06-18?kind=orders&value=9", "2030-01-01"):
            day, _, question = asked.partition("?")
            yield f"/day/{day}/{depot}?{question}"
    for city in ("", *CITIES, "Berlin"):
        yield from (f"/roster?city={city}&format=csv", f"/roster?city={city}&format=ics")
        yield from (f"/?city={city}&beside=last-week", f"/wall?city={city}", f"/?city={city}")
    for sort, only, words in product((*SORTS, "2025-06-19"), ("", *FILTERS), ("", "BOS", "NYC")):
        yield f"/?sort={sort}&only={only}&q={words}"


def test_every_answer_equals_that_of_a_page_with_only_the_readers_depots(readers: Readers) -> None:
    """The reader of two cities asks for everything, the others a quarter each, so that together
    they cover all."""
    paths = list(_addresses())
    assert len(paths) > 400
    if readers.name != "two":
        paths = paths[["one", "each", "another", "none"].index(readers.name) :: 4]
    for path, whole, alone in zip(paths, readers.whole.each(paths), readers.alone.each(paths), strict=True):
        assert (whole.status_code, _plain(whole.text)) == (alone.status_code, _plain(alone.text)), path


def test_the_comparison_covers_all_pages_of_the_catalog() -> None:
    walked = {re.split(r"[?]", path)[0] for path in _addresses()}
    assert {view.page for view in VIEWS if view.page} <= walked
    assert f"/depot/{DEPOTS[0]}" in walked


def test_a_reader_of_all_cities_sees_what_is_hidden_from_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PAGE_SECRET", SECRET)
    guest = _guest(tmp_path / "whole", ["*"], True, READERS["all"])
    assert HIDDEN in guest("/champion").text
    assert "4,711" in guest("/api/v1/champions").text
    assert "1,345" in guest("/").text


def _plain(body: str) -> str:
    """Remove app-specific content: the token, and the numbers of rows."""
    body = re.sub(r'(?<=name="csrf" value=")[^"]*|(?<="csrf":")[^"]*', "", body)
    body = re.sub(r"^\d+,(?=2025)", "", body, flags=re.M)
    return re.sub(
        r'(?<="id":)\d+|(?<=overrides/)\d+(?=/withdrawal)|(?<=Withdraw override )\d+|\b\d+(?=: Ana)', "", body
    )
