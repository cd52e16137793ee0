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
