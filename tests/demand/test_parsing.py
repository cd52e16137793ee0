from __future__ import annotations

from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from forecaster.demand import parsing

NEW_YORK = ZoneInfo("America/New_York")


def test_same_ids_share_their_categories() -> None:
    ids = parsing.Ids()
    first, again = (ids(pd.Series(["b", " a", None, "a"], dtype="str").astype("category")) for _ in range(2))
    assert first.tolist() == again.tolist() == ["b", "a", "", "a"]
    assert first.cat.categories is again.cat.categories
    other = ids(pd.Series(["a", "c"], dtype="str").astype("category"))
    assert other.tolist() == ["a", "c"]


def test_equal_ids_written_differently_stay_distinct() -> None:
    ids = parsing.Ids()
    assert ids(pd.Series([1, 2], dtype=object)).tolist() == ["1", "2"]
    assert ids(pd.Series([True, 2], dtype=object)).tolist() == ["True", "2"]
    assert ids(pd.Series([1.5, 2.0])).tolist() == ["1.5", "2"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_typed_timestamp_falls_on_its_day_also_before_1970(unit: str) -> None:
    stamps = ["1969-12-31T23:00", "1970-01-01", "2024-02-29T00:00:01", "NaT"]
    days = parsing.days(pd.Series(np.array(stamps, f"datetime64[{unit}]")), NEW_YORK)
    assert days.dt.strftime("%Y-%m-%d").fillna("").tolist() == ["1969-12-31", "1970-01-01", "2024-02-29", ""]


def test_only_the_declared_date_form_is_read() -> None:
    texts = pd.Series(["05.03.2024", " 29.02.2024 ", "2024-03-05", "31.02.2024", "", None], dtype="str")
    days = parsing.days(texts, NEW_YORK, parsing.Notation(date_format="%d.%m.%Y"))
    assert days.dt.strftime("%Y-%m-%d").fillna("").tolist() == ["2024-03-05", "2024-02-29", "", "", "", ""]
    timed = parsing.days(pd.Series(["05.03.24 23:59"]), NEW_YORK, parsing.Notation(date_format="%d.%m.%y %H:%M"))
    assert timed.tolist() == [pd.Timestamp("2024-03-05")]


@pytest.mark.parametrize("far", [[], ["1970-01-01"]], ids=["few days", "many days"])
def test_each_day_is_converted_to_its_instant(far: list[str]) -> None:
    def midnight(day: pd.Series) -> pd.Series:
        return parsing.localize(day.astype("datetime64[us]"), NEW_YORK).dt.tz_convert("UTC")

    days = pd.Series(np.array(["2054-01-09", "NaT", "2054-07-01", *far], "datetime64[s]"))
    instants = parsing.each_day(days, midnight).astype("datetime64[h]").astype("str").tolist()
    assert instants[:3] == ["2054-01-09T05", "NaT", "2054-07-01T04"]
    assert instants[3:] == ["1970-01-01T05"] * len(far)


def test_missing_day_has_no_instant() -> None:
    nothing = pd.Series(np.array(["NaT"], "datetime64[s]"))
    assert np.isnat(parsing.each_day(nothing, lambda day: day.dt.tz_localize("UTC"))).tolist() == [True]


def days(*texts: str, form: str | None = None, zone: str = "Europe/Berlin") -> list[str]:
    read = parsing.days(pd.Series(texts, dtype="str"), ZoneInfo(zone), parsing.Notation(date_format=form))
    return read.dt.strftime("%Y-%m-%d").fillna("").tolist()


def test_midnight_as_24_00_ends_the_written_day() -> None:
    assert days("2026-10-18 24:00", "2026-10-18T24:00:00", "2026-10-18 24:01") == ["2026-10-18", "2026-10-18", ""]
    assert days("18.10.2026 24:00", form="%d.%m.%Y %H:%M") == ["2026-10-18"]


def test_reads_ordinal_days_with_month_names() -> None:
    assert days("3rd January 2026", "12th January 2026", form="%d %B %Y") == ["2026-01-03", "2026-01-12"]


def test_rejects_years_of_the_buddhist_era() -> None:
    assert days("2569-09-01", "9999-12-31") == ["", "9999-12-31"]
    assert parsing.days(pd.Series(np.array(["2569-09-01"], "datetime64[s]")), ZoneInfo("UTC")).isna().tolist() == [True]


def test_utc_timestamp_falls_on_the_local_day() -> None:
    assert days("2026-10-18 00:30:00 UTC", form="%Y-%m-%d %H:%M:%S %Z", zone="America/New_York") == ["2026-10-17"]


def numbers(*texts: str, thousands: str | None = None) -> list[float]:
    return parsing.numbers(pd.Series(texts, dtype="str"), parsing.Notation(thousands)).tolist()


def test_negative_numbers_are_read_in_every_notation() -> None:
    assert numbers("12-", "(12)", "'-12", "\u221212", "'12", "7") == [-12, -12, -12, -12, 12, 7]
    assert numbers("12--", "(1", "-12-") == [np.inf] * 3


def test_mark_shared_by_all_numbers_of_a_column_is_removed() -> None:
    assert numbers("$1,234", "$940.50", "($3)", "-$4", thousands=",") == [1234, 940.5, -3, -4]
    assert numbers("1 234 €", "94 €", thousands=" ") == [1234, 94]
    assert numbers("12 kg", "3 kg", "n/a") == [12, 3, np.inf]


@pytest.mark.parametrize("texts", [["12 %", "9 %"], ["12 kg", "9 lb"], ["12k", "9k"], ["5 Mio", "2 Mio"], ["S-12"],
                                   ["12A", "13A"], [">12", ">9"], ["9 PM"], ["3 Tsd.", "4 Tsd."]])  # fmt: skip
def test_mark_that_may_change_the_number_is_not_removed(texts: list[str]) -> None:
    assert numbers(*texts) == [np.inf] * len(texts)


def test_number_without_the_mark_of_the_others_is_not_read() -> None:
    assert numbers(*(f"{n} kg" for n in range(20)), "7")[-1] == np.inf


def test_formula_that_keeps_leading_zeros_is_read_as_text() -> None:
    assert parsing.words(pd.Series(['="002"', "002"])).tolist() == ["002", "002"]


def test_timestamp_ending_in_utc_is_an_instant() -> None:
    utc = ["2026-11-20 12:00:00 UTC", "2026-11-20 00:00:00 UTC"]
    assert days(*utc, zone="America/New_York") == ["2026-11-20", "2026-11-19"]


def test_reads_long_dates_with_weekday_ordinal_and_foreign_months() -> None:
    long = ["3rd March 2024", "Sunday, 3 March 2024", "Sonntag, 3. März 2024", "3 de marzo de 2024", "3 mars 2024"]
    assert days(*long, "3 Maerz 2024", "3 stycznia 2024", form="%d %B %Y") == ["2024-03-03"] * 6 + [""]
    short = ["Sun 3 Mar 2024", "1er févr. 2024", "3. Dez. 2024"]
    assert days(*short, form="%d %b %Y") == ["2024-03-03", "2024-02-01", "2024-12-03"]
    assert days("Sunday, March 3, 2024", "March 3rd, 2024", form="%B %d, %Y") == ["2024-03-03"] * 2
