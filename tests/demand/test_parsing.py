from __future__ import annotations

from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from forecaster.demand import parsing

NEW_YORK = ZoneInfo("America/New_York")


def test_the_same_ids_again_share_their_categories() -> None:
    ids = parsing.Ids()
    first, again = (ids(pd.Series(["b", " a", None, "a"], dtype="str").astype("category")) for _ in range(2))
    assert first.tolist() == again.tolist() == ["b", "a", "", "a"]
    assert first.cat.categories is again.cat.categories
    other = ids(pd.Series(["a", "c"], dtype="str").astype("category"))
    assert other.tolist() == ["a", "c"]


def test_ids_that_are_equal_but_written_otherwise_are_others() -> None:
    ids = parsing.Ids()
    assert ids(pd.Series([1, 2], dtype=object)).tolist() == ["1", "2"]
    assert ids(pd.Series([True, 2], dtype=object)).tolist() == ["True", "2"]
    assert ids(pd.Series([1.5, 2.0])).tolist() == ["1.5", "2"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_typed_day_is_that_of_its_timestamp_before_1970_too(unit: str) -> None:
    stamps = ["1969-12-31T23:00", "1970-01-01", "2024-02-29T00:00:01", "NaT"]
    days = parsing.days(pd.Series(np.array(stamps, f"datetime64[{unit}]")), NEW_YORK)
    assert days.dt.strftime("%Y-%m-%d").fillna("").tolist() == ["1969-12-31", "1970-01-01", "2024-02-29", ""]


def test_a_declared_form_of_days_is_the_only_one_that_is_read() -> None:
    texts = pd.Series(["05.03.2024", " 29.02.2024 ", "2024-03-05", "31.02.2024", "", None], dtype="str")
    days = parsing.days(texts, NEW_YORK, parsing.Notation(date_format="%d.%m.%Y"))
    assert days.dt.strftime("%Y-%m-%d").fillna("").tolist() == ["2024-03-05", "2024-02-29", "", "", "", ""]
    timed = parsing.days(pd.Series(["05.03.24 23:59"]), NEW_YORK, parsing.Notation(date_format="%d.%m.%y %H:%M"))
    assert timed.tolist() == [pd.Timestamp("2024-03-05")]


@pytest.mark.parametrize("far", [[], ["1970-01-01"]], ids=["few days", "many days"])
def test_each_day_is_asked_for_its_instant(far: list[str]) -> None:
    def midnight(day: pd.Series) -> pd.Series:
        return parsing.localize(day.astype("datetime64[us]"), NEW_YORK).dt.tz_convert("UTC")

    days = pd.Series(np.array(["2054-01-09", "NaT", "2054-07-01", *far], "datetime64[s]"))
    instants = parsing.each_day(days, midnight).astype("datetime64[h]").astype("str").tolist()
    assert instants[:3] == ["2054-01-09T05", "NaT", "2054-07-01T04"]
    assert instants[3:] == ["1970-01-01T05"] * len(far)


def test_no_day_has_no_instant() -> None:
    nothing = pd.Series(np.array(["NaT"], "datetime64[s]"))
    assert np.isnat(parsing.each_day(nothing, lambda day: day.dt.tz_localize("UTC"))).tolist() == [True]


def days(*texts: str, form: str | None = None, zone: str = "Europe/Berlin") -> list[str]:
    read = parsing.days(pd.Series(texts, dtype="str"), ZoneInfo(zone), parsing.Notation(date_format=form))
    return read.dt.strftime("%Y-%m-%d").fillna("").tolist()


def test_midnight_as_24_00_ends_the_day_that_is_written() -> None:
    assert days("2026-10-18 24:00", "2026-10-18T24:00:00", "2026-10-18 24:01") == ["2026-10-18", "2026-10-18", ""]
    assert days("18.10.2026 24:00", form="%d.%m.%Y %H:%M") == ["2026-10-18"]


def test_an_ordinal_is_a_day_of_a_month_by_name() -> None:
    assert days("3rd January 2026", "12th January 2026", form="%d %B %Y") == ["2026-01-03", "2026-01-12"]


def test_a_year_of_the_buddhist_era_is_no_date() -> None:
    assert days("2569-09-01", "9999-12-31") == ["", "9999-12-31"]
    assert parsing.days(pd.Series(np.array(["2569-09-01"], "datetime64[s]")), ZoneInfo("UTC")).isna().tolist() == [True]


def test_a_stamp_in_utc_falls_on_the_local_day() -> None:
    assert days("2026-10-18 00:30:00 UTC", form="%Y-%m-%d %H:%M:%S %Z", zone="America/New_York") == ["2026-10-17"]
