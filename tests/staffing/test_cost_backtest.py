"""Rosters of past days by hand: the bills, and the information behind each roster."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np
import pytest

from forecaster.config import Spec
from forecaster.core.forecast import Fold
from forecaster.core.panel import Panel
from forecaster.errors import SpecError
from forecaster.staffing import cost_backtest
from forecaster.staffing.cost_backtest import BUFFER, FORESIGHT, LAST_WEEK, OURS, Bill
from tests.panels import FIRST, bare, fold, spec

FIVE = (0.1, 0.3, 0.5, 0.7, 0.9)


def staffed(**more: Any) -> Spec:
    costs = {"orders_per_driver": 10, "cost_short": 30, "cost_idle": 10, **more}
    return Spec.model_validate({**spec().model_dump(exclude_unset=True), "staffing": costs})


def day(number: int) -> date:
    date_: date = (FIRST + number).astype(object)
    return date_


def weeks(counts: list[float], **closed: Any) -> Panel:
    """A depot with the same count on all days of a week, for each week."""
    return bare(np.repeat(counts, 7)[None], **closed)


def week_fold(orders: list[float], actual: Any, after: int) -> Fold:
    """Forecast with the same quantiles for each day of the week after `after` weeks, and its
    actuals."""
    return fold([[orders] * 7], [actual], levels=FIVE, cutoff=day(7 * after - 1))


def charged(folds: list[Fold], earlier: list[Fold], panel: Panel, how: Spec | None = None) -> dict[str, Bill]:
    result = cost_backtest.backtest_costs(folds, earlier, panel, panel.at, how or staffed())
    assert [bill.cost for bill in result.bills] == sorted(bill.cost for bill in result.bills)
    return {bill.roster: bill for bill in result.bills}


def test_each_missing_and_each_idle_driver_is_billed() -> None:
    """The ratio of 0.75 is between 55 at level 0.7 and 75 at 0.9: 60, six drivers; five to seven
    were needed.

    Last week needed three a day. The week before, the best buffer was two more drivers than the
    median's four.
    """
    quantiles = [20, 30, 40, 55, 75]
    actuals = [50, 60, 60, 65, 41, 55, np.nan]
    panel = weeks([60, 60, 30, 60])
    bills = charged([week_fold(quantiles, actuals, 3)], [week_fold(quantiles, [60] * 7, 2)], panel)
    assert bills[OURS] == Bill(OURS, 2 * 10 + 30, 1, 2, 1 / 6, 6, hours=6 * 6 * 8)
    assert bills[LAST_WEEK] == Bill(LAST_WEEK, (2 + 3 + 3 + 4 + 2 + 3) * 30, 17, 0, 1, 6, hours=6 * 3 * 8)
    assert bills[BUFFER] == Bill(BUFFER, 2 * 10 + 30, 1, 2, 1 / 6, 6, hours=6 * 6 * 8)
    assert bills[FORESIGHT] == Bill(FORESIGHT, 0, 0, 0, 0, 6, hours=(5 + 6 + 6 + 7 + 5 + 6) * 8)


def test_the_buffer_is_chosen_on_the_days_before_and_never_on_its_own() -> None:
    quantiles = [20, 30, 40, 55, 75]
    panel = weeks([40] * 8)
    early, late = week_fold(quantiles, [40] * 7, 4), week_fold(quantiles, [80] * 7, 5)
    first = cost_backtest.backtest_costs([late], [early], panel, panel.at, staffed())
    # the day before needed the median's four; of all buffers that keep four the lowest is taken
    assert first.buffers == ("-24%",)
    assert {bill.roster: bill for bill in first.bills}[BUFFER].short == 4 * 7
    second = cost_backtest.backtest_costs(
        [late, week_fold(quantiles, [80] * 7, 6)], [early], panel, panel.at, staffed()
    )
    assert second.buffers == ("-24%", "+76%")  # eight drivers, from the first week on that needed them
    assert {bill.roster: bill for bill in second.bills}[BUFFER].short == 4 * 7


def test_last_week_uses_the_last_known_open_same_weekday() -> None:
    counts = np.array([[10.0, 20, 30, 40, 50, 60, 70] * 3])
    counts[0, 14:16] = np.nan
    panel = bare(counts, closed=[(0, 16)])
    actuals = [10, 20, 30, 40, 50, 60, 70]
    bills = charged([week_fold([1, 2, 3, 4, 5], actuals, 3)], [week_fold([1, 2, 3, 4, 5], actuals, 2)], panel)
    assert bills[LAST_WEEK].cost == 0


def test_closed_days_cost_nothing_and_limits_apply_to_all_rosters() -> None:
    panel = weeks([80] * 4)
    week = week_fold([80, 80, 80, 80, 80], [80] * 6 + [np.nan], 3)
    bills = charged([week], [week], panel, staffed(crew={"max": 6}))
    assert {bill.cost for bill in bills.values()} == {2 * 6 * 30}


def test_all_rosters_have_the_same_vans() -> None:
    """Six vans for two depots that need four each: two drivers are missing a day in every roster."""
    both = fold([[[40] * 5] * 7] * 2, [[40] * 7] * 2, levels=FIVE, cutoff=day(20))
    panel = bare(np.full((2, 28), 40.0))
    bills = charged([both], [both], panel, staffed(vans={"total": 6}))
    assert {(bill.short, bill.idle) for bill in bills.values()} == {(14, 0)}


def test_table_lists_the_bills() -> None:
    week = week_fold([20, 30, 40, 55, 75], [60] * 7, 3)
    result = cost_backtest.backtest_costs([week], [week], weeks([60] * 4), weeks([60] * 4).at, staffed())
    lines = result.lines()
    assert lines[0].split() == ["cost", "a", "day", "hours", "missing", "idle", "days", "short"]
    assert all(line.split()[-6:] == ["0", "0.00", "336", "0", "0", "0.0%"] for line in lines[1:5])
    assert lines[5] == "Buffers, chosen on the days before: +26%."
    assert result.to_json()["buffers"] == ["+26%"]


def test_missing_costs_are_reported_with_an_example() -> None:
    with pytest.raises(SpecError, match="found no section staffing in the pipeline file, wanted costs, as in"):
        cost_backtest.holdout_spec(spec(), None, staffing=True)
    assert cost_backtest.holdout_spec(staffed(), None, staffing=True).backtest.days == 56
    assert cost_backtest.holdout_spec(staffed(), 21, staffing=True).backtest.days == 21
    assert cost_backtest.holdout_spec(spec(), 21, staffing=False).backtest.days == 21
    assert timedelta(days=cost_backtest.DEFAULT_DAYS) == timedelta(weeks=8)
