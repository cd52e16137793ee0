"""The list of overrides, and their value."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from dashboards.ops.views.planning.override_book import book
from forecaster.ledger.records import Head
from forecaster.planning.overrides import Override
from forecaster.planning.value_added import Result, account
from tests.dashboards.seed import NOON, PUBLISHED, depot, publication

DAY = depot(0).days[1]  # Wednesday, 18 June
SHOWN = publication()
HEAD = Head(
    1,
    None,
    PUBLISHED,
    SHOWN.pipeline,
    SHOWN.run_id,
    PUBLISHED,
    NOON,
    SHOWN.cutoff,
    SHOWN.horizon,
    "fresh",
    SHOWN.model,
    "America/New_York",
    SHOWN.levels,
    None,
    None,
    None,
)
ROW = Override(
    3, datetime(2025, 6, 17, tzinfo=UTC), "p", "BOS-01", DAY.target_date, 200, "weather", "", "Ana", DAY.target_date
)


def test_shows_the_total_first_and_planners_only_with_enough_days() -> None:
    row = Override(
        3, datetime(2025, 6, 17, tzinfo=UTC), "p", "BOS-01", DAY.target_date, 200, "weather", "", "Ana", DAY.target_date
    )
    overview = book((row,), account([Result("Ana", "weather", 100, 130, 140)], 5), HEAD)
    assert overview.everyone is not None
    assert (overview.everyone.days, overview.everyone.saved) == ("1", "+21.4")
    assert [reason.of for reason in overview.reasons] == ["weather"]
    assert (overview.planners, overview.unnamed) == ((), "1 planner with fewer than 5 days not named.")
    assert (overview.entries[0].state, overview.entries[0].withdrawable) == ("until Wed 18 Jun", True)


def test_shows_overrides_replaced_by_newer_ones() -> None:
    instant = datetime(2025, 6, 17, tzinfo=UTC)
    row = Override(3, instant, "p", "BOS-01", DAY.target_date, 200, "weather", "", "Ana", DAY.target_date)
    overview = book((row, replace(row, id=4, orders=70)), account([], 5), HEAD)
    assert [(entry.state, entry.withdrawable) for entry in overview.entries] == [
        ("until Wed 18 Jun", True),
        ("replaced by 4", False),
    ]


def test_the_day_of_a_withdrawal_is_in_the_pipelines_time_zone() -> None:
    in_the_evening = datetime(2025, 6, 18, 1, 30, tzinfo=UTC)  # 21:30 on Tuesday in New York
    overview = book((replace(ROW, withdrawn=in_the_evening),), account([], 5), HEAD)
    assert overview.entries[0].state == "withdrawn on Tue 17 Jun"


def test_a_truncated_list_shows_the_total_number() -> None:
    rows = tuple(replace(ROW, id=number) for number in range(1, 1_202))
    overview = book(rows, account([], 5), HEAD)
    assert [entry.number for entry in overview.entries[:2]] == [1201, 1200]
    assert overview.more == "The 200 newest are listed; the API has all 1,201."
    assert book(rows[:200], account([], 5), HEAD).more == ""
