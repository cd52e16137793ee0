"""Staleness of forecasts, as every page shows it."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from dashboards.ops.reading.header import stale
from tests.dashboards.seed import CUTOFF


@pytest.mark.parametrize(
    ("today", "sentence"),
    [
        (date(2025, 6, 18), None),
        (date(2025, 6, 19), "Forecasts made for Tue 17 Jun – Mon 23 Jun; newest reading is 3 days old."),
        (date(2025, 6, 24), "Forecasts made for Tue 17 Jun – Mon 23 Jun; newest reading is 8 days old."),
    ],
)
def test_forecasts_are_stale_when_over_or_when_the_newest_reading_is_over_two_days_old(
    today: date, sentence: str | None
) -> None:
    targets = tuple(CUTOFF + timedelta(days=step) for step in range(1, 8))
    assert stale(targets, CUTOFF, today) == sentence


def test_a_forecast_of_one_day_is_stale_when_that_day_is_over() -> None:
    assert stale((CUTOFF + timedelta(days=1),), CUTOFF, CUTOFF + timedelta(days=2)) is not None
