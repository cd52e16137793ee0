"""Geometry of the charts."""

from __future__ import annotations

from datetime import date, timedelta
from itertools import pairwise

from dashboards.ops.formatting.charts import Ahead, chart, nice, trend
from forecaster.ledger.publication import RecentDay


def test_the_axis_ends_on_a_round_number_above_all_values() -> None:
    assert nice(163) == (0, 50, 100, 150, 200)
    assert nice(200) == (0, 50, 100, 150, 200)
    assert nice(0) == (0, 1)
    assert nice(0.4) == (0, 1)
    assert nice(23) == (0, 5, 10, 15, 20, 25)
    assert nice(4100) == (0, 1000, 2000, 3000, 4000, 5000)


def test_lines_break_at_closed_and_unknown_days() -> None:
    first = date(2025, 6, 9)  # a Monday
    past = [RecentDay(first + timedelta(days=i), demand, is_open) for i, (demand, is_open) in enumerate(
        [(50, True), (100, True), (None, True), (80, True), (0, False)]
    )]  # fmt: skip
    ahead = [
        Ahead(date(2025, 6, 14), 90, 60, 100, True),
        Ahead(date(2025, 6, 15), 0, 0, 0, False),
        Ahead(date(2025, 6, 16), 50, 40, 60, True),
        Ahead(date(2025, 6, 17), 50, 40, 60, True),
    ]
    # 9 days of 10 pixels from 44; 0 orders at y = 134, 100 orders at y = 34
    picture = chart(past, ahead, [(date(2025, 6, 15), "Fair")], width=142, height=176, past_days=5)
    assert picture.actuals == ("49.0,84.0 59.0,34.0",)
    assert picture.dots == ((49.0, 84.0), (59.0, 34.0), (79.0, 54.0))
    assert picture.closed == ((84.0, 10.0), (104.0, 10.0))
    assert picture.border == 94.0
    assert picture.medians == ("119.0,84.0 129.0,84.0",)
    assert picture.points == ((99.0, 44.0), (119.0, 84.0), (129.0, 84.0))
    assert picture.bands == (
        "96.0,34.0 102.0,34.0 102.0,74.0 96.0,74.0",
        "119.0,74.0 129.0,74.0 129.0,94.0 119.0,94.0",
    )
    assert picture.marks == ((109.0, 1, "Fair", 109.0),)
    assert [tick.text for tick in picture.weekdays] == ["M", "T", "W", "T", "F", "S", "S", "M", "T"]
    assert [tick.text for tick in picture.weeks] == ["9 Jun", "16 Jun"]


def test_days_ahead_may_be_wider_and_narrow_days_have_no_letter() -> None:
    ahead = [Ahead(date(2025, 6, 14) + timedelta(days=i), 10, 5, 15, True) for i in range(2)]
    # 5 pixels per past day, 10 per day ahead
    picture = chart([], ahead, [], width=142, height=176, past_days=14, stretch=2.0)
    assert picture.border == 114.0
    assert [point[0] for point in picture.points] == [119.0, 129.0]
    assert [(tick.at, tick.text) for tick in picture.weekdays] == [(119.0, "S"), (129.0, "S")]


def test_dates_and_numbers_of_many_days_ahead_do_not_overlap() -> None:
    first = date(2025, 6, 14)
    ahead = [Ahead(first + timedelta(days=i), 10, 5, 15, True) for i in range(61)]
    fair = [(first + timedelta(days=i), "Fair") for i in (3, 4, 5, 58, 59, 60)]
    picture = chart([], ahead, fair, width=360, height=270, past_days=21)
    at = [tick.at for tick in picture.weeks]
    assert all(later - before >= 46 for before, later in pairwise(at))
    assert len(at) > 4
    numbers = [mark[3] for mark in picture.marks]
    assert all(later - before >= 17 for before, later in pairwise(numbers))
    assert numbers[-1] <= picture.right
    assert picture.points == ()  # they would hide the line
    assert len(picture.medians[0].split()) == 61


def test_rates_over_weeks_start_at_zero_and_omit_unknown_values() -> None:
    picture = trend(["1 Jun", "8 Jun", "15 Jun"], [0.1, None, 0.2], [0.2, 0.2, 0.2], width=166, height=136)
    assert picture.ours == "44.0,60.0 144.0,10.0"
    assert picture.rival == "44.0,10.0 94.0,10.0 144.0,10.0"
    assert [row.text for row in picture.rows] == ["0 %", "5 %", "10 %", "15 %", "20 %"]
    assert [week.text for week in picture.weeks] == ["1 Jun", "15 Jun"]
