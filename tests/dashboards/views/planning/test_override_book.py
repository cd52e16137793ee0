"""The list of overrides, and what they were worth."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, date, datetime

from dashboards.ops.views.planning.override_book import book
from forecaster.planning.overrides import Override
from forecaster.planning.value_added import Result, account
from tests.dashboards.seed import depot

DAY = depot(0).days[1]  # Wednesday 18 June


def test_the_book_tells_of_all_first_and_of_planners_only_with_enough_days() -> None:
    row = Override(
        3, datetime(2025, 6, 17, tzinfo=UTC), "p", "BOS-01", DAY.target_date, 200, "weather", "", "Ana", DAY.target_date
    )
    overview = book((row,), account([Result("Ana", "weather", 100, 130, 140)], 5), date(2025, 6, 17))
    assert overview.everyone is not None
    assert (overview.everyone.days, overview.everyone.saved) == ("1", "+21.4")
    assert [reason.of for reason in overview.reasons] == ["weather"]
    assert (overview.planners, overview.unnamed) == ((), "1 planner with fewer than 5 days not named.")
    assert (overview.entries[0].state, overview.entries[0].withdrawable) == ("until Wed 18 Jun", True)


def test_the_book_tells_what_a_newer_override_has_replaced() -> None:
    instant = datetime(2025, 6, 17, tzinfo=UTC)
    row = Override(3, instant, "p", "BOS-01", DAY.target_date, 200, "weather", "", "Ana", DAY.target_date)
    overview = book((row, replace(row, id=4, orders=70)), account([], 5), date(2025, 6, 17))
    assert [(entry.state, entry.withdrawable) for entry in overview.entries] == [
        ("until Wed 18 Jun", True),
        ("replaced by 4", False),
    ]
