"""Forecast accuracy from the ledger, compared with the naive forecast, and by part."""

from __future__ import annotations

from datetime import date

from forecaster.ledger import accuracy
from forecaster.ledger.accuracy import ALL, CITY, FORECAST, HORIZON, LEGACY, NAIVE, TIER, Tally
from forecaster.ledger.store import Ledger
from tests.dashboards.seed import fill, publication, remember
from tests.dashboards.visitor import text, visitor


def test_shows_accuracy_by_part_compared_with_the_naive_forecast(url: str) -> None:
    fill(url, publication())
    remember(url)
    page = text(visitor(url)("/accuracy"))
    assert "Of the actual orders of 3 weeks, forecasts missed 10.0 %" in page
    assert "Repeating the same weekday missed 16.0 % on the same days." in page
    assert "Bias −1.5 %, above zero is too much Inside 80 % 80 % of depot-days" in page
    assert "No other system is declared for comparison" in page
    assert "9 Jun 10.0 % 16.0 % −1.5 % 80 % 40 2 Jun 10.0 %" in page
    assert "By days ahead All weeks together; each line links to its single weeks Days ahead Error Same weekday" in page
    assert "Days 1 day 10.0 %" in page
    assert page.index("Mon 10.0 %") < page.index("Tue 10.0 %") < page.index("Sun 10.0 %")
    assert "Boston 10.0 % 16.0 %" in page
    assert "BOS-01 25.0 % 22.5 % +1.0 % – 28" in page
    assert "that night’s model 9.1 % −0.4 % 81 %" in page
    assert "10,0 %" in text(visitor(url)("/accuracy", accept_language="de"))


def test_compares_with_the_legacy_system_on_its_days(url: str) -> None:
    fill(url, publication())
    remember(url)
    week = date(2025, 6, 9)
    parts = ((ALL, ""), (CITY, "Boston"))
    legacy = [Tally(week, LEGACY, part, label, 30, 3000.0, 0.0, 360.0, None) for part, label in parts]
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        ours = [tally for tally in accuracy.all_tallies(connection, "harbor-fleet") if tally.week == week]
        accuracy.replace_weeks(connection, "harbor-fleet", [week], [*ours, *legacy])
    get = visitor(url)
    page = text(get("/accuracy"))
    sentence = "the legacy system 12.0 % (on the 30 of 120 depot-days that it forecast)."
    assert sentence in page
    assert "Boston 10.0 % 16.0 % 12.0 %" in page
    assert sentence in text(get("/champion"))
    assert "legacy system" not in get("/accuracy?part=city&label=New+York").text.split('id="weeks"')[1]
    boston = get("/accuracy?part=city&label=Boston").text.replace("\N{NO-BREAK SPACE}", " ")
    assert "week of 9 Jun: 10.0 %, same weekday 16.0 %, legacy system 12.0 %" in boston
    assert '"model":"legacy"' in get("/api/v1/accuracy").text


def test_days_ahead_after_two_weeks_are_grouped_by_week(url: str) -> None:
    fill(url, publication())
    week, parts = date(2025, 6, 9), [(ALL, ""), *((HORIZON, f"{ahead:02d}") for ahead in (1, 14, 15, 21, 22, 61))]
    tallies = [
        Tally(
            week, model, part, label, 10, 1000.0, 0.0, 100.0 * (1 + (label == "21")), 8 if model == FORECAST else None
        )
        for part, label in parts
        for model in (FORECAST, NAIVE)
    ]
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        accuracy.replace_weeks(connection, "harbor-fleet", [week], tallies)
    page = text(visitor(url)("/accuracy"))
    for line in ("14 days 10.0 %", "15 to 21 days 15.0 %", "22 days 10.0 %", "61 days 10.0 %"):
        assert line in page
    assert "15 days" not in page


def _write_tiers(url: str, *tiers: tuple[str, float]) -> None:
    """Write a week in which each tier forecast 10 depot-days with 1,000 orders, with the given
    absolute error."""
    fill(url, publication())
    week, whole = date(2025, 6, 9), sum(missed for _, missed in tiers)
    days = 10 * len(tiers)
    tallies = [Tally(week, NAIVE, TIER, tier, 10, 1000.0, 0.0, 200.0, None) for tier, _ in tiers]
    tallies += [Tally(week, FORECAST, TIER, tier, 10, 1000.0, 0.0, missed, 8) for tier, missed in tiers]
    tallies += [
        Tally(week, FORECAST, ALL, "", days, 100.0 * days, 0.0, whole, 8 * len(tiers)),
        Tally(week, NAIVE, ALL, "", days, 100.0 * days, 0.0, 20.0 * days, None),
    ]
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        accuracy.replace_weeks(connection, "harbor-fleet", [week], tallies)


def test_forecasts_of_the_fallback_do_not_count_as_a_models(url: str) -> None:
    _write_tiers(url, ("champion", 100.0), ("fallback", 300.0))
    page = text(visitor(url)("/accuracy"))
    assert "Of the actual orders of 1 week, forecasts missed 20.0 %" in page
    assert (
        "Of these, 10 depot-days repeat the same weekday because no model could forecast; models alone missed 10.0 %."
        in page
    )
    assert "The model in use 10.0 % 20.0 %" in page
    assert "No model: the same weekday 30.0 % 20.0 %" in page
    champion = text(visitor(url)("/champion"))
    assert (
        "Over the last week, forecasts missed 10.0 % of the orders; repeating the same weekday missed 20.0 %."
        in champion
    )


def test_does_not_mention_a_model_if_only_the_fallback_forecast(url: str) -> None:
    _write_tiers(url, ("fallback", 300.0))
    page = text(visitor(url)("/accuracy"))
    assert "10 depot-days repeat the same weekday because no model could forecast; no model forecast any." in page
    assert "forecasts missed" not in text(visitor(url)("/champion"))


def test_the_number_of_weeks_can_be_chosen(url: str) -> None:
    fill(url, publication())
    remember(url)
    assert '<a href="/accuracy?weeks=13" aria-current="page">' in visitor(url)("/accuracy?weeks=13").text
    assert '<a href="/accuracy?weeks=4" aria-current="page">' in visitor(url)("/accuracy?weeks=999").text


def test_a_city_a_weekday_or_a_horizon_can_be_shown_week_by_week(url: str) -> None:
    fill(url, publication())
    remember(url)
    weeks = [date(2025, 6, 2), date(2025, 6, 9)]
    parts = (("city", "New York"), ("weekday", "Tue"), ("horizon", "02"), (ALL, ""))
    tallies = [
        Tally(week, model, part, label, 10, 1000.0, -20.0, absolute, None)
        for week, absolute in zip(weeks, (300.0, 50.0), strict=True)
        for model in (FORECAST, NAIVE)
        for part, label in parts
    ]
    with Ledger.open(url) as ledger, ledger.transaction() as connection:
        accuracy.replace_weeks(connection, "harbor-fleet", weeks, tallies)
    get = visitor(url)
    first = get("/accuracy?weeks=13").text
    for part, label, name, title in (
        ("city", "New+York", "New York", "New York"),
        ("weekday", "Tue", "Tue", "Tue"),
        ("horizon", "02", "2 days", "2 days ahead"),
    ):
        address = f"/accuracy?weeks=13&part={part}&label={label}"
        assert f'href="{address.replace("&", "&amp;")}#weeks">{name}</a>' in first
        answer = get(address)
        assert f"Week by week: {title}" in text(answer)
        assert "9 Jun 5.0 % 5.0 % −2.0 % – 10 2 Jun 30.0 % 30.0 % −2.0 %" in text(answer)
        assert 'aria-current="page">13 weeks' in answer.text
    for wrong in ("part=city&label=Atlantis", "part=depot&label=BOS-01", "part=<b>"):
        assert "Week by week:" not in text(get(f"/accuracy?{wrong}"))


def test_reports_that_there_are_no_actuals_yet(url: str) -> None:
    fill(url, publication())
    assert "No forecast day is over yet" in text(visitor(url)("/accuracy"))
