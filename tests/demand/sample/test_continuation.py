"""The sample after its last committed day: the same fleet, the real calendar, and earlier rows
never change."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from forecaster.demand.sample.continuation import END, last_exported, later_days

COMMITTED = Path(__file__).parents[3] / "data" / "harbor_fleet"
UNTIL = date(2026, 12, 31)


@pytest.fixture(scope="module")
def demand() -> pd.DataFrame:
    return pd.DataFrame(later_days(UNTIL).demand)


def _by_day(demand: pd.DataFrame) -> pd.Series[int]:
    last = demand.drop_duplicates(["depot", "day"], keep="last")
    total: pd.Series[int] = last["orders"].astype(int).groupby(last["day"]).sum()
    return total


def test_days_begin_after_the_file_and_end_with_the_requested_one(demand: pd.DataFrame) -> None:
    days = sorted(demand["day"].unique())
    assert (days[0], days[-1], len(days)) == ("2026-11-01", "2026-12-31", 61)
    assert later_days(END).demand["day"] == []


def test_a_later_end_only_adds_rows(demand: pd.DataFrame) -> None:
    earlier = later_days(date(2026, 11, 24))
    assert pd.DataFrame(earlier.demand).equals(demand.iloc[: len(earlier.demand["day"])])
    rows = set(zip(*later_days(UNTIL).events.values(), strict=True))
    assert set(zip(*earlier.events.values(), strict=True)) <= rows


def test_fleet_is_that_of_the_file_without_the_closed_depot(demand: pd.DataFrame) -> None:
    committed = pd.read_csv(COMMITTED / "depots.csv", keep_default_na=False)
    assert {*demand["depot"]} == {*committed.loc[committed["closed"] == "", "depot"]}


def test_holidays_sales_and_weekdays_follow_the_real_calendar(demand: pd.DataFrame) -> None:
    orders = _by_day(demand)
    thanksgiving, black_friday, week_before = orders[["2026-11-26", "2026-11-27", "2026-11-19"]]
    assert thanksgiving < 0.7 * week_before
    assert black_friday > 1.5 * thanksgiving
    assert orders["2026-12-25"] == orders.min()
    names = {*zip(*(later_days(UNTIL).events[key] for key in ("date", "name")), strict=True)}
    assert {("2026-11-27", "Black Friday"), ("2026-11-30", "Cyber Monday")} <= names


def test_level_continues_from_the_file(demand: pd.DataFrame) -> None:
    feed = pd.read_csv(COMMITTED / "demand.csv", dtype=str)
    before = feed[feed["day"].between("2026-10-18", "2026-10-31") & feed["orders"].str.fullmatch(r"\d+")]
    ratio = _by_day(demand)["2026-11-01":"2026-11-14"].mean() / _by_day(before).mean()
    assert 0.9 < ratio < 1.1


def test_rows_are_sorted_by_export_and_some_days_are_corrected_two_days_later(
    demand: pd.DataFrame,
) -> None:
    at = pd.to_datetime(demand["recorded_at"], utc=True)
    assert at.is_monotonic_increasing
    restated = demand[demand.duplicated(["depot", "day"], keep=False)].sort_values(["depot", "day"], kind="stable")
    first, last = restated.iloc[::2], restated.iloc[1::2]
    assert len(first) == len(last) > 0
    assert (first["orders"].astype(int).to_numpy() < last["orders"].astype(int).to_numpy()).all()


def test_announcements_begin_where_those_of_the_file_end() -> None:
    announced = later_days(UNTIL).events["date"]
    committed = pd.read_csv(COMMITTED / "events.csv", dtype=str)["date"]
    assert max(committed) <= (END + timedelta(days=21)).isoformat() < min(announced)
    assert max(announced) <= (UNTIL + timedelta(days=21)).isoformat()


def test_day_is_available_two_hours_after_midnight_in_new_york() -> None:
    assert last_exported(datetime(2026, 11, 25, 6, 59, tzinfo=UTC)) == date(2026, 11, 23)  # 01:59 in New York
    assert last_exported(datetime(2026, 11, 25, 7, 0, tzinfo=UTC)) == date(2026, 11, 24)
