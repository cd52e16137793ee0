"""Half hour of a row in every notation of a source, including days of 23 and 25 hours."""

from __future__ import annotations

from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forecaster.demand.half_hours.clock import MIDNIGHT, NO_TIME, half_hours
from forecaster.demand.parsing import Notation, days

BERLIN = ZoneInfo("Europe/Berlin")


def halves(*values: Any, notation: Notation | None = None, dtype: Any = None) -> list[int]:
    return half_hours(pd.Series(values, dtype=dtype), BERLIN, notation or Notation()).tolist()


def test_time_of_day_is_read_in_the_same_notation_as_the_day() -> None:
    assert halves("2024-03-05T14:30", "2024-03-05 14:29:59", "2024-03-05T23:59Z", "2024-03-05T00:00:01") == [
        29,
        28,
        1,
        0,
    ]
    assert halves("2024-03-05", "", "yesterday", "2024-03-05T00:00:00") == [NO_TIME, NO_TIME, NO_TIME, MIDNIGHT]
    stamps = pd.to_datetime(["2024-03-05T13:30Z", None], utc=True)
    assert halves(*stamps) == [29, NO_TIME]
    assert halves(pd.Timestamp("2024-03-05T14:30"), pd.Timestamp("2024-03-05")) == [29, MIDNIGHT]


@pytest.mark.parametrize(
    ("form", "written", "expected"),
    [
        ("%d.%m.%Y %H:%M", "05.03.2024 14:30", 29),
        ("%d.%m.%Y", "05.03.2024", NO_TIME),
        ("%d.%m.%Y %H:%M %z", "05.03.2024 13:30 +0000", 29),
        ("excel", "45356.604166667", 29),
        ("excel", "45356", NO_TIME),
        ("excel", "2024-03-05T14:30", 29),
        ("unix", "1709645400", 29),
        ("unix_ms", "1709645400000", 29),
    ],
)
def test_every_day_notation_may_include_a_time(form: str, written: str, expected: int) -> None:
    assert halves(written, notation=Notation(date_format=form)) == [expected]


def test_spreadsheet_times_are_fractions_of_days() -> None:
    assert halves("45356.25", "2024-03-05T06:15", notation=Notation(of_sheet=True)) == [12, 12]
    assert halves(45356.25, 45356.0, notation=Notation(of_sheet=True)) == [12, NO_TIME]


def test_repeated_hour_counts_once_and_missing_hour_shifts_forward() -> None:
    assert halves("2024-10-27T00:30Z", "2024-10-27T01:30Z") == [5, 5]
    assert halves("2024-03-31T00:59Z", "2024-03-31T01:00Z", "2024-03-31T02:30") == [3, 6, 6]


@given(
    st.datetimes(
        min_value=pd.Timestamp("2023-01-01").to_pydatetime(), max_value=pd.Timestamp("2025-12-31").to_pydatetime()
    )
)
def test_day_and_half_hour_follow_the_same_local_clock(instant: Any) -> None:
    """In every zone, both together equal local time."""
    text = pd.Series([instant.isoformat() + "Z"])
    for zone in (BERLIN, ZoneInfo("America/New_York"), ZoneInfo("Asia/Kolkata")):
        local = pd.Timestamp(instant, tz="UTC").tz_convert(zone)
        [half] = half_hours(text, zone) % MIDNIGHT
        assert half == local.hour * 2 + local.minute // 30
        assert days(text, zone)[0] == local.tz_localize(None).normalize()
