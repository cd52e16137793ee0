"""The value page shows savings in the reader's currency format, and explains missing numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from dashboards.ops.formatting import locale
from dashboards.ops.views.money.value import chosen_span, value_page
from forecaster.config import load
from forecaster.ledger import tables
from forecaster.ledger.store import Ledger
from forecaster.ledger.value import FORESIGHT
from tests.staffing.test_value_account import account, fill


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger.open(f"sqlite:///{tmp_path / 'ledger.db'}") as ledger:
        yield ledger


def test_the_headline_is_the_value_of_ten_more_vans_with_its_range(ledger: Ledger) -> None:
    fill(ledger, 5)
    page = value_page(account(ledger))
    headline = "From Mon 28 Sep to Mon 26 Oct ten more vans would have saved"
    assert (page.headline, page.saved, page.reach) == (headline, "€200", "+€200 and +€200")
    assert page.under == (
        "Missing and idle drivers of our rosters cost €1,000 in 5 days; had each depot rostered as the week before, "
        "€1,600. Perfect information would have cost €100."
    )
    assert [(row.name, row.cost, row.saved, row.short) for row in page.rows] == [
        ("Our rosters", "€1,000", "", "20"),
        ("Same as last week", "€1,600", "+€600", "50"),
        ("Median plus buffer", "€1,200", "+€200", "20"),
        ("Perfect foresight", "€100", "−€900", "0"),
    ]
    assert [(finding.question, finding.answer) for finding in page.findings] == [
        ("What would ten more vans have been worth?", "+€200"),
        ("What did deviations from the plan cost?", "+€100"),
        ("What were planners’ numbers worth?", "+€100"),
    ]
    assert page.findings[0].remark == "By city: Bonn +€100, Ulm +€100."
    assert [row.name for row in page.months] == ["September 2026", "October 2026"]


def test_without_vans_the_headline_is_the_savings_of_rosters(ledger: Ledger) -> None:
    fill(ledger, 5)
    page = value_page(replace(account(ledger), more_vans=None))
    headline = "From Mon 28 Sep to Mon 26 Oct our rosters saved"
    assert (page.headline, page.saved, page.reach) == (headline, "€600", "+€600 and +€600")


def test_explains_nearly_equal_rostering_policies(ledger: Ledger) -> None:
    """Vans are the constraint if perfect foresight would miss most of the missing drivers, too."""
    fill(ledger, 5)
    known = account(ledger)
    ways = tuple(replace(way, short=18) if way.way == FORESIGHT else way for way in known.whole.ways)
    bound = replace(known, whole=replace(known.whole, ways=ways))
    cause = (
        "The rostering policies differ little because vans are scarce: of 20 missing drivers, 18 would also be missing"
    )
    assert cause in value_page(bound).under
    assert "vans are scarce" not in value_page(known).under
    assert "vans are scarce" not in value_page(replace(bound, more_vans=None)).under


def test_the_sample_declares_a_currency() -> None:
    staffing = load(Path(__file__).parents[4] / "data" / "harbor_fleet" / "pipeline.yaml").staffing
    assert staffing is not None
    assert staffing.currency == "USD"


def test_money_uses_the_readers_format(ledger: Ledger) -> None:
    fill(ledger, 5)
    with locale.active(locale.reader_locale("de-DE,de;q=0.9")):
        assert value_page(account(ledger)).rows[0].cost == "1.000\N{NO-BREAK SPACE}€"
    fill(ledger, 5, currency=None)
    assert value_page(account(ledger)).rows[0].cost == "1,000"


def test_the_chart_includes_zero_and_ends_at_the_sum(ledger: Ledger) -> None:
    fill(ledger, 5)
    picture = value_page(account(ledger)).picture
    assert picture is not None
    assert [row.text for row in picture.rows] == ["€0", "€200", "€400", "€600"]
    assert picture.ends[0][1] == picture.rows[-1].at
    assert picture.zero == picture.rows[0].at
    assert len(picture.lines[0].split()) == 6  # from zero, one point per week


def test_reports_backfilled_days(ledger: Ledger) -> None:
    fill(ledger, 5, backfilled=True)
    [remark] = value_page(account(ledger)).remarks
    assert remark.startswith("All forecasts of these days were made afterwards")


def test_before_the_first_data_the_page_explains_what_will_be_shown(ledger: Ledger) -> None:
    page = value_page(account(ledger))
    assert page.headline == ""
    assert page.nothing.startswith("The first night after a rostered day adds the cost")


def test_an_address_selects_one_of_three_spans() -> None:
    assert [chosen_span({"weeks": weeks}) for weeks in ("8", "26", "52", "27", "x")] == [8, 26, 52, 26, 26]
    assert chosen_span({}) == 26


def test_worked_hours_are_compared_with_the_plan(ledger: Ledger) -> None:
    fill(ledger, 2)
    finding = next(each for each in value_page(account(ledger)).findings if "deviations from the plan" in each.question)
    assert finding.answer == "+€40"
    assert finding.remark.startswith("48 worked and 56 planned driver shifts, on 12 depot-days whose hours are known.")


def test_premiums_of_published_schedules_are_shown_separately(ledger: Ledger) -> None:
    fill(ledger, 5)
    assert account(ledger).premiums is None
    with ledger.transaction() as connection:
        day = {"pipeline": "p", "depot_id": "Ulm", "target_date": date(2026, 10, 26), "by": "Ana", "crews": {"": 4}}
        for number, premium in enumerate((None, 45.0, 30.0)):
            row = {**day, "at": datetime(2026, 10, 20 + number, tzinfo=UTC), "premium": premium}
            connection.execute(tables.schedule_days.insert().values(row))
    assert account(ledger).premiums == 75
    assert account(ledger, cities=["Ulm"]).premiums is None
    [remark] = value_page(account(ledger)).remarks
    assert remark == "Changes to published schedules also cost €75 in premiums on these days."
