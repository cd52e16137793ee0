"""Account of some weeks by hand: costs, savings, and what each reader may see."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from forecaster.ledger import value
from forecaster.ledger.store import Ledger
from forecaster.ledger.value import (
    AS_PLANNED,
    BUFFER,
    FORESIGHT,
    LAST_WEEK,
    MODEL,
    MORE_VANS,
    PUBLISHED,
    WORKED,
    ValuedDay,
    WayCost,
)
from forecaster.staffing import value_account
from forecaster.staffing.value_account import Amount, ValueAccount

MONDAY = date(2026, 9, 28)
WAYS: Mapping[str, tuple[float, int, int, int]] = {  # cost, missing, idle, drivers of a day in Ulm
    PUBLISHED: (100.0, 2, 4, 20),
    MODEL: (110.0, 3, 2, 19),
    LAST_WEEK: (160.0, 5, 1, 16),
    BUFFER: (120.0, 2, 6, 22),
    FORESIGHT: (10.0, 0, 1, 21),
    MORE_VANS: (90.0, 1, 6, 23),
    WORKED: (70.0, 3, 1, 12),
    AS_PLANNED: (60.0, 1, 2, 14),
}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        yield ledger


def fill(
    ledger: Ledger, weeks: int, *, currency: str | None = "EUR", first: date = MONDAY, bonn: float = 1.0, **more: object
) -> None:
    """Insert one day per week, whose costs in Bonn are `bonn` times those in Ulm."""
    days = [first + timedelta(weeks=number) for number in range(weeks)]
    about = {"backfilled": False, "overridden": 1, "buffer": "+0%", "buffer_costs": [], **more}
    valued = [ValuedDay(day, "basis", currency, **about) for day in days]  # type: ignore[arg-type]
    costs = [
        WayCost(day, city, way, factor * cost, short, idle, drivers, 3)
        for day in days
        for city, factor in (("Ulm", 1.0), ("Bonn", bonn))
        for way, (cost, short, idle, drivers) in WAYS.items()
    ]
    with ledger.transaction() as connection:
        value.replace_days(connection, "p", valued, costs, keep_from=date(2020, 1, 1))


def account(ledger: Ledger, weeks: int = 26, cities: list[str] | None = None) -> ValueAccount:
    with ledger.transaction() as connection:
        return value_account.account(connection, "p", weeks, cities)


def test_sums_and_savings_are_those_of_the_days(ledger: Ledger) -> None:
    fill(ledger, 5, bonn=2.0)
    found = account(ledger)
    ours, rival = found.whole.of(PUBLISHED), found.whole.of(LAST_WEEK)
    assert ours is not None
    assert rival is not None
    assert (found.first, found.last, found.days, found.currency) == (MONDAY, date(2026, 10, 26), 5, "EUR")
    assert ours.cost == Amount(5 * 300.0, 1500.0, 1500.0)
    assert rival.dearer == Amount(5 * 180.0, 900.0, 900.0)
    assert (ours.short, ours.idle, ours.drivers, ours.depot_days) == (5 * 4, 5 * 8, 5 * 40, 5 * 6)
    assert found.overrides == Amount(150.0, 150.0, 150.0)
    assert found.more_vans == Amount(300.0, 300.0, 300.0)
    assert value_account.where_vans_went(found) == (("Bonn", 20, 200.0), ("Ulm", 20, 100.0))
    assert [(part.label, part.of(PUBLISHED).cost.amount) for part in found.cities] == [  # type: ignore[union-attr]
        ("Bonn", 1000.0),
        ("Ulm", 500.0),
    ]
    assert [part.label for part in found.months] == ["2026-09-01", "2026-10-01"]
    assert found.months[0].of(PUBLISHED).cost == Amount(300.0, None, None)  # type: ignore[union-attr]
    assert [(week, saved[LAST_WEEK]) for week, saved in found.saved][:2] == [
        (MONDAY, 180.0),
        (MONDAY + timedelta(weeks=1), 360.0),
    ]


def test_only_the_requested_weeks_are_summed(ledger: Ledger) -> None:
    fill(ledger, 10)
    found = account(ledger, 8)
    assert (found.days, found.whole.of(PUBLISHED).cost.amount) == (8, 1600.0)  # type: ignore[union-attr]


def test_reader_of_some_cities_gets_only_their_amounts(ledger: Ledger) -> None:
    fill(ledger, 5, bonn=7.0)
    found = account(ledger, cities=["Ulm"])
    assert found.whole.of(PUBLISHED).cost.amount == 500.0  # type: ignore[union-attr]
    assert [part.label for part in found.cities] == ["Ulm"]
    assert found.more_vans == Amount(100.0, 100.0, 100.0)
    assert (found.overridden, found.overrides, found.computing) == (0, Amount(50.0, 50.0, 50.0), None)
    assert account(ledger, cities=["Köln"]).whole.ways == ()


def test_days_in_another_currency_are_excluded_and_counted(ledger: Ledger) -> None:
    fill(ledger, 2, currency="CHF")
    fill(ledger, 3, first=MONDAY + timedelta(weeks=2))
    found = account(ledger)
    assert (found.currency, found.days, found.other_currency) == ("EUR", 3, 2)
    assert found.whole.of(PUBLISHED).cost.amount == 600.0  # type: ignore[union-attr]


def test_account_is_empty_without_known_days(ledger: Ledger) -> None:
    assert account(ledger).first is None


def test_computing_is_summed_over_the_runs_that_published(ledger: Ledger) -> None:
    """Half an hour at 4 per hour for 64 depots and 7 days, twice; a run without a declared cost
    counts in seconds only."""
    fill(ledger, 5)
    for number, per_hour in enumerate((4.0, 4.0, None)):
        at = datetime(2026, 10, 20 + number, 3, tzinfo=UTC)
        ledger.start_run(f"n{number}", pipeline="p", as_of=at, spec_digest="d", at=at)
        computing = {"forecasts": 448, "cost_per_hour": per_hour, "currency": "EUR"}
        timings = {"train": 1200.0, "backtest": 60.0, "predict": 100.0, "night": 1800.0}
        ledger.note(f"n{number}", timings=timings, computing=computing)
        ledger.finish_run(f"n{number}", "published", 0, at=at + timedelta(hours=1))
    found = account(ledger).computing
    assert found is not None
    assert (found.runs, found.seconds, found.training_seconds, found.prediction_seconds) == (3, 5400, 3780, 300)
    assert (found.cost, found.forecasts, found.cost_per_forecast) == (4.0, 1344, 4.0 / 896)


def test_rows_are_deleted_after_a_year_and_a_week(ledger: Ledger) -> None:
    assert value.first_kept(date(2026, 11, 25)) == date(2025, 11, 24)
    fill(ledger, 2)
    with ledger.transaction() as connection:
        value.replace_days(connection, "p", [], [], keep_from=MONDAY + timedelta(days=1))
        assert [day.day for day in value.valued_days(connection, "p")] == [MONDAY + timedelta(weeks=1)]
