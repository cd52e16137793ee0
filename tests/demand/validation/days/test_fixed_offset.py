"""Stamps that keep one offset from UTC all year, while the clocks of the depots change."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pandas as pd
import pytest

from forecaster.demand.validation.days.fixed_offset import of_column
from forecaster.demand.validation.days.stamps import zone_of_fixed_offset
from tests.demand.validation.days.test_stamps import day_stamps, first_day

AUTUMN = pd.date_range("2026-09-01", "2026-11-23")  # summer time ends on 25 October, on 1 November in America
BERLIN, NEW_YORK = ZoneInfo("Europe/Berlin"), ZoneInfo("America/New_York")


def written(time: str, days: pd.DatetimeIndex = AUTUMN) -> pd.Series[str]:
    return pd.Series([f"{day:%Y-%m-%d}T{time}" for day in days], dtype="str")


@pytest.mark.parametrize(
    ("time", "zone", "key"),
    [
        ("23:30:00+01:00", BERLIN, "Etc/GMT-1"),  # standard time, 0:30 in summer
        ("23:30+0100", BERLIN, "Etc/GMT-1"),
        ("00:00:00+02:00", BERLIN, "Etc/GMT-2"),  # summer time, 23:00 of the day before in winter
        ("23:15:00-05:00", NEW_YORK, "Etc/GMT+5"),
        ("23:30:00+09:30", ZoneInfo("Australia/Adelaide"), "Australia/Darwin"),
        ("00:00:00+01:00", BERLIN, None),  # 1:00 in summer, on the same day
        ("20:00:00-05:00", NEW_YORK, None),
        ("23:30:00+03:00", BERLIN, None),  # local time of another place
        ("23:30:00", BERLIN, None),
        ("22:30:00Z", BERLIN, None),  # may be an instant
    ],
)
def test_zone_of_the_offset_determines_the_days(time: str, zone: ZoneInfo, key: str | None) -> None:
    assert zone_of_fixed_offset(written(time), zone) == key


def test_several_offsets_follow_the_local_clock() -> None:
    stamps = [day.replace(hour=23, minute=30).tz_localize("Europe/Berlin").isoformat() for day in AUTUMN]
    assert of_column(pd.Series(stamps, dtype="str"), BERLIN) is None


def test_few_times_of_day_are_checked_and_many_are_instants() -> None:
    few = pd.concat([written("23:30:00+01:00", AUTUMN[::2]), written("23:00:00+01:00", AUTUMN[1::2])])
    many = pd.concat([written(f"23:{minute}:00+01:00", AUTUMN[:30]) for minute in range(10, 20)])
    assert zone_of_fixed_offset(few, BERLIN) == "Etc/GMT-1"
    assert of_column(many, BERLIN) is None


def test_closing_times_in_winter_time_all_year_stop_the_batch_and_name_the_key(tmp_path: Path) -> None:
    finding = day_stamps(tmp_path, written("23:30:00+01:00"), "Europe/Berlin")
    assert finding is not None
    assert finding.severity == "stop"
    assert finding.message.startswith(
        "found the offset UTC+01:00 at all times of the year, such as 2026-10-24 23:30, which is 2026-10-25 00:30 "
        "in Europe/Berlin; set demand.date_zone: Etc/GMT-1; wanted "
    )
    assert day_stamps(tmp_path, written("23:30:00+01:00"), "Europe/Berlin", ", date_zone: Etc/GMT-1") is None
    assert first_day(tmp_path) == "2026-09-01"


@pytest.mark.parametrize("stamps", [written("22:00:00Z"), pd.Series(AUTUMN.tz_localize("UTC") + pd.Timedelta("22h"))])
def test_utc_midnights_of_half_the_year_are_days_too(tmp_path: Path, stamps: Any) -> None:
    finding = day_stamps(tmp_path, stamps, "Europe/Berlin")
    assert finding is not None
    assert finding.severity == "warn"  # a clock in UTC may have counted
    assert "such as 2026-11-24 00:00, which is 2026-11-23 23:00 in Europe/Berlin" in finding.message
    assert "set demand.date_zone: Etc/GMT-2" in finding.message


@pytest.mark.parametrize("time", ["23:00:00Z", "12:00:00Z", "23:30:00Z"])
def test_one_utc_time_on_consecutive_days_is_accepted(tmp_path: Path, time: str) -> None:
    assert day_stamps(tmp_path, written(time), "Europe/Berlin") is None


def test_local_midnights_in_winter_time_without_a_zone_stop_the_batch(tmp_path: Path) -> None:
    midnights = [day.tz_localize("Europe/Berlin").tz_convert("Etc/GMT-1").tz_localize(None) for day in AUTUMN]
    finding = day_stamps(tmp_path, pd.Series([f"{stamp:%Y-%m-%d %H:%M}" for stamp in midnights]), "Europe/Berlin")
    assert finding is not None
    assert finding.severity == "stop"
    assert (
        "midnights in Europe/Berlin if they are in UTC+01:00, as 2026-10-24 23:00 is of 2026-10-25" in finding.message
    )
    assert "write them with their zone, as in 2026-10-24T23:00:00+01:00" in finding.message
