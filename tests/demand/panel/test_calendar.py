from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from forecaster.demand.panel.calendar import NAMES, features, holiday_names
from forecaster.errors import SpecError


def span(start: str, end: str) -> np.ndarray:
    return np.arange(start, end, dtype="datetime64[D]")


def feature(name: str, days: np.ndarray, country: str | None = None, subdivision: str | None = None) -> list[float]:
    return [float(value) for value in features(days, country, subdivision)[:, NAMES.index(name)]]


def test_week_has_one_of_each_weekday() -> None:
    week = features(span("2024-03-04", "2024-03-11"), None, None)  # Monday to Sunday
    assert week.dtype == np.float32
    assert week.shape == (7, len(NAMES)) == (7, 22)
    np.testing.assert_array_equal(week[:, :7], np.eye(7))
    assert feature("thursday", span("1969-12-31", "1970-01-02")) == [0, 1]


def test_yearly_cycle_closes_in_leap_years_too() -> None:
    for start, middle in (("2023-01-01", "2023-07-02"), ("2024-01-01", "2024-07-02")):
        days = np.array([start, middle], "datetime64[D]")
        assert feature("year_sin_1", days)[0] == 0
        assert feature("year_cos_1", days)[0] == 1
        assert feature("year_cos_1", days)[1] == pytest.approx(-1, abs=1e-3)
    quarter = np.array(["2024-04-01T00:00"], "datetime64[m]")  # day 91 of 366: just before a quarter of the year
    assert feature("year_sin_1", quarter)[0] == pytest.approx(np.sin(2 * np.pi * 91 / 366), abs=1e-6)
    assert feature("year_cos_3", quarter)[0] == pytest.approx(np.cos(6 * np.pi * 91 / 366), abs=1e-6)


def test_monthly_cycle_has_the_length_of_its_month() -> None:
    firsts = np.array(["2023-02-01", "2024-02-01", "2024-03-01"], "datetime64[D]")
    np.testing.assert_array_equal(feature("month_sin_1", firsts), [0, 0, 0])
    np.testing.assert_array_equal(feature("month_cos_2", firsts), [1, 1, 1])
    middle = np.array(["2023-02-15", "2024-04-16"], "datetime64[D]")  # the days after 14 of 28 and 15 of 30
    assert feature("month_cos_1", middle) == pytest.approx([-1, -1], abs=1e-6)
    assert feature("month_cos_2", middle) == pytest.approx([1, 1], abs=1e-6)
    last = np.array(["2023-02-28", "2024-02-29", "2024-01-31"], "datetime64[D]")
    expected = [np.sin(2 * np.pi * before / length) for before, length in ((27, 28), (28, 29), (30, 31))]
    assert feature("month_sin_1", last) == pytest.approx(expected, abs=1e-6)


def test_leap_day_has_regular_features() -> None:
    leap = features(span("2024-02-28", "2024-03-02"), "US", None)
    assert leap.shape == (3, len(NAMES))
    assert np.isfinite(leap).all()
    assert len(np.unique(leap[:, NAMES.index("year_sin_1")])) == 3
    assert feature("thursday", span("2024-02-29", "2024-03-01")) == [1]


def test_last_features_are_those_of_holidays() -> None:
    assert NAMES[-5:] == ("holiday", "before_holiday", "after_holiday", "day_off", "counterpart")


def back(first: str, end: str, country: str | None) -> dict[str, int]:
    days = span(first, end)
    days_back = features(days, country, None)[:, NAMES.index("counterpart")].astype(int).tolist()
    return {str(day): value for day, value in zip(days, days_back, strict=True) if value}


def test_day_near_a_holiday_is_compared_with_the_same_holiday_of_the_year_before() -> None:
    # Memorial Day: 25 May 2015 and 30 May 2016; four days around it belong to it.
    assert back("2016-05-20", "2016-06-10", "US") == {f"2016-05-{day}": 371 for day in range(26, 32)} | {
        f"2016-06-0{day}": 371 for day in range(1, 4)
    }
    christmas = back("2018-12-18", "2019-01-08", "US")
    assert set(christmas.values()) == {365}
    assert (min(christmas), max(christmas)) == ("2018-12-21", "2019-01-05")
    easter = back("2024-03-25", "2024-04-05", "DE")  # Easter Monday: 10 April 2023 and 1 April 2024
    assert easter["2024-04-01"] == easter["2024-03-25"] == (date(2024, 4, 1) - date(2023, 4, 10)).days == 357


def test_substitute_day_off_is_compared_with_the_day_off_of_the_year_before() -> None:
    # Independence Day was a Friday in 2014, a Saturday with a free Friday in 2015, a Monday in 2016.
    assert [feature("holiday", span(f"{year}-07-03", f"{year}-07-05"), "US") for year in (2014, 2015, 2016)] == [
        [0, 1],
        [1, 1],
        [0, 1],
    ]
    assert [feature("day_off", span(f"{year}-07-03", f"{year}-07-05"), "US") for year in (2014, 2015, 2016)] == [
        [0, 1],
        [1, 0],
        [0, 1],
    ]
    assert back("2015-07-02", "2015-07-06", "US") == dict(
        zip(("2015-07-02", "2015-07-03", "2015-07-04", "2015-07-05"), (365, 364, 365, 365), strict=True)
    )
    assert back("2016-07-03", "2016-07-06", "US") == dict(
        zip(("2016-07-03", "2016-07-04", "2016-07-05"), (366, 367, 366), strict=True)
    )


@pytest.mark.parametrize(
    ("country", "day", "against"),
    [
        ("KR", "2021-08-16", "2020-08-15"),  # Alternative holiday for Liberation Day
        ("TH", "2022-05-02", "2021-05-03"),  # National Labor Day (in lieu), a year before as well
        ("GG", "2021-12-27", "2020-12-25"),  # Christmas Day (substitute day)
        ("CM", "2024-06-17", "2023-06-28"),  # Eid al-Adha (observed, estimated)
    ],
)
def test_substitute_day_is_recognized_by_the_suffix_of_its_name(country: str, day: str, against: str) -> None:
    days = span(day, str(np.datetime64(day) + 1))
    assert feature("day_off", days, country) == [1]
    assert feature("counterpart", days, country) == [(date.fromisoformat(day) - date.fromisoformat(against)).days]


def test_holiday_without_a_substitute_is_a_day_off_on_a_weekend_too() -> None:
    assert feature("day_off", span("2022-05-01", "2022-05-02"), "DE") == [1]  # a Sunday


def test_no_counterpart_without_a_holiday_near_or_a_year_before() -> None:
    assert not back("2016-06-10", "2016-06-20", "US")
    assert not back("2016-05-20", "2016-06-10", None)
    # The first Juneteenth as a public holiday had none before it.
    assert not back("2021-06-14", "2021-06-24", "US")
    assert back("2022-06-14", "2022-06-22", "US")["2022-06-19"] == 365


def test_days_of_a_long_holiday_have_the_same_offset_to_the_year_before() -> None:
    feast = back("2024-04-06", "2024-04-18", "TR")  # Ramadan Feast: 21 to 23 April 2023 and 10 to 12 April 2024
    assert {feast[f"2024-04-{day}"] for day in (10, 11, 12)} == {355}


def test_estimated_holiday_is_matched_with_the_same_one_of_the_year_before() -> None:
    names = holiday_names(span("2027-03-01", "2027-04-01"), "EG", None)
    first = min(day for day, name in names.items() if name == "Eid al-Fitr (estimated)")
    last_year = holiday_names(span("2026-03-01", "2026-04-01"), "EG", None)
    before = min(day for day, name in last_year.items() if name.startswith("Eid al-Fitr"))
    assert back("2027-03-01", "2027-04-01", "EG")[str(first)] == (first - before).days


MOVING = [  # worked by hand: Easter from the paschal full moon, the new moons of January and February, nth weekdays
    ("DE", None, "Easter Monday", ["2023-04-10", "2024-04-01", "2025-04-21", "2026-04-06"]),
    ("DE", None, "Ascension Day", ["2023-05-18", "2024-05-09", "2025-05-29"]),  # 39 days after Easter Sunday
    ("GB", "ENG", "Good Friday", ["2023-04-07", "2024-03-29", "2025-04-18"]),
    ("US", None, "Thanksgiving Day", ["2023-11-23", "2024-11-28", "2025-11-27"]),  # the fourth Thursday
    ("US", "MA", "Patriots' Day", ["2023-04-17", "2024-04-15", "2025-04-21"]),  # the third Monday
    ("SG", None, "Chinese New Year", ["2023-01-22", "2024-02-10", "2025-01-29"]),
    ("KR", None, "Korean New Year", ["2023-01-22", "2024-02-10", "2025-01-29"]),
    ("HK", None, "Chinese New Year", ["2024-02-10", "2025-01-29"]),
    ("JP", None, "Coming of Age Day", ["2023-01-09", "2024-01-08", "2025-01-13"]),  # the second Monday
    ("JP", None, "Vernal Equinox Day", ["2023-03-21", "2024-03-20", "2025-03-20"]),
    ("JP", None, "Respect for the Aged Day", ["2023-09-18", "2024-09-16", "2025-09-15"]),  # the third Monday
    ("DE", "BB", "Reformation Day", ["2023-10-31", "2024-10-31", "2025-10-31"]),
]


@pytest.mark.parametrize(("country", "subdivision", "name", "dates"), MOVING, ids=[row[2] for row in MOVING])
def test_holidays_are_on_their_dates(country: str, subdivision: str | None, name: str, dates: list[str]) -> None:
    holidays = holiday_names(span("2023-01-01", "2027-01-01"), country, subdivision)
    years: dict[int, date] = {}  # a feast of several days begins with its first
    for day in sorted(day for day, holiday in holidays.items() if holiday == name):
        years.setdefault(day.year, day)
    assert [years[int(day[:4])].isoformat() for day in dates] == dates


@pytest.mark.parametrize(
    ("day", "country", "has", "lacks"),
    [
        ("2024-10-31", "DE", "BB", "NW"),  # Reformationstag
        ("2024-04-15", "US", "MA", "NY"),  # Patriots' Day
        ("2024-04-01", "GB", "ENG", "SCT"),  # Easter Monday
    ],
)
def test_subdivision_has_a_holiday_that_its_neighbor_lacks(day: str, country: str, has: str, lacks: str) -> None:
    days = np.array([day], "datetime64[D]")
    assert feature("holiday", days, country, has) == [1]
    assert feature("holiday", days, country, lacks) == [0]


def test_japanese_holiday_on_a_sunday_moves_to_monday() -> None:
    holidays = holiday_names(span("2024-02-10", "2024-02-14"), "JP", None)
    assert holidays == {date(2024, 2, 11): "Foundation Day", date(2024, 2, 12): "Substitute Holiday"}


def test_thanksgiving_is_the_fourth_thursday_of_november() -> None:
    days = span("2024-11-26", "2024-12-01")  # Tuesday to Saturday; the Thursdays are 7, 14, 21 and 28
    assert holiday_names(days, "US", None) == {date(2024, 11, 28): "Thanksgiving Day"}
    assert feature("holiday", days, "US") == [0, 0, 1, 0, 0]
    assert feature("before_holiday", days, "US") == [0, 1, 0, 0, 0]
    assert feature("after_holiday", days, "US") == [0, 0, 0, 1, 0]


def test_easter_moves_and_gives_two_holidays_in_germany() -> None:
    # Easter Sunday was 31 March 2024 and 20 April 2025
    assert holiday_names(span("2024-03-25", "2024-04-06"), "DE", "NW") == {
        date(2024, 3, 29): "Good Friday",
        date(2024, 4, 1): "Easter Monday",
    }
    assert list(holiday_names(span("2025-04-14", "2025-04-28"), "DE", "NW")) == [date(2025, 4, 18), date(2025, 4, 21)]


def test_holidays_just_outside_the_first_and_last_day_count() -> None:
    assert feature("after_holiday", span("2024-01-02", "2024-01-03"), "US") == [1]
    assert feature("before_holiday", span("2024-12-31", "2025-01-01"), "US") == [1]


def test_subdivisions_have_their_own_holidays() -> None:
    epiphany = span("2024-01-06", "2024-01-07")
    assert feature("holiday", epiphany, "DE", "BY") == [1]
    assert feature("holiday", epiphany, "DE", "NW") == [0]


def test_without_a_country_no_day_is_a_holiday() -> None:
    assert holiday_names(span("2024-01-01", "2025-01-01"), None, None) == {}
    assert not any(feature("holiday", span("2024-01-01", "2025-01-01")))


def test_unknown_country_or_subdivision_suggests_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"country 'ECU2'; did you mean 'ECU'\?"):
        features(span("2024-01-01", "2024-01-02"), "ECU2", None)
    with pytest.raises(SpecError, match=r"subdivision 'NYC' of US; did you mean 'NY'\?; wanted one of AK"):
        features(span("2024-01-01", "2024-01-02"), "US", "NYC")
