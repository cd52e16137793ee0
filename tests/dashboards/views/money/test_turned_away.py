"""Days with more demand than served orders: pages and API show both numbers, and the cost of orders
turned away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dashboards.ops.formatting import locale
from dashboards.ops.views.money.turned_away import left_out, turned_away
from forecaster.config.staffing import Staffing
from forecaster.ledger.publication import PublishedDepot, RecentDay
from tests.dashboards.seed import CUTOFF, depot, fill, publication
from tests.dashboards.visitor import text, visitor


def sold_out(number: int = 0) -> PublishedDepot:
    """Return a depot that served 100 on its last day, at a demand of about 145."""
    plain = depot(number)
    return replace(plain, recent=(*plain.recent[:-1], RecentDay(CUTOFF, 145.0, True, 100.0)))


def test_a_depots_page_and_the_api_show_served_and_demand(url: str) -> None:
    fill(url, replace(publication(), depots=(sold_out(), depot(1))))
    get = visitor(url)
    page = get("/depot/BOS-01")
    assert "100 served, demand about 145" in text(page)
    assert "demand, where not all could be served (estimate)" in text(page)
    assert page.text.count('class="estimate"') == 3  # wide, narrow, legend
    assert 'class="estimate"' not in get("/depot/NYC-01").text
    last = get("/api/v1/depots/BOS-01").json()["recent"][-1]
    assert last == {"date": str(CUTOFF), "orders": 100.0, "open": True, "demand": 145.0}
    other = get("/api/v1/depots/NYC-01").json()["recent"][-1]
    assert other["orders"] == other["demand"]


def test_the_value_page_shows_recently_turned_away_orders(url: str) -> None:
    fill(url, replace(publication(), depots=(sold_out(), sold_out(3), depot(1))))
    get = visitor(url)
    turned = "Since Mon 16 Jun, about 90 orders were turned away on 2 depot-days"
    assert turned in text(get("/value"))
    fill(url, publication(run_id="night-2"))
    assert "turned away" not in text(visitor(url)("/value"))


@pytest.fixture
def staffing() -> Staffing:
    return Staffing(orders_per_driver=45, cost_short=38, cost_idle=22, currency="EUR")


def test_orders_turned_away_are_priced_as_missing_drivers(staffing: Staffing) -> None:
    first, second = turned_away([sold_out(), sold_out(3)], staffing)
    assert first == (
        "Since Mon 16 Jun, about 90 orders were turned away on 2 depot-days with more demand than capacity (estimate)."
    )
    assert second == "Valued at the cost of missing drivers, they are worth €76."
    assert turned_away([depot(1)], staffing) == ()
    assert left_out([depot(1)]) == ""
    assert left_out([sold_out()]) == ("1 depot-day since Mon 16 Jun is left out: its count is a lower bound of demand.")


def test_sentences_use_the_readers_language(staffing: Staffing) -> None:
    with locale.active(locale.reader_locale("de")):
        assert left_out([sold_out()]).startswith("1 Depottag seit")
        assert turned_away([sold_out()], staffing)[0].startswith("Seit ")
