from __future__ import annotations

from datetime import date

import numpy as np
import pytest

from forecaster.demand.calendar import NAMES, features, holiday_names
from forecaster.errors import SpecError


def span(start: str, end: str) -> np.ndarray:
    return np.arange(start, end, dtype="datetime64[D]")


def feature(name: str, days: np.ndarray, country: str | None = None, subdivision: str | None = None) -> list[float]:
    return [float(value) for value in features(days, country, subdivision)[:, NAMES.index(name)]]


def test_a_week_has_one_of_each_weekday() -> None:
    week = features(span("2024-03-04", "2024-03-11"), None, None)  # Monday to Sunday
    assert week.dtype == np.float32
    assert week.shape == (7, len(NAMES)) == (7, 16)
    np.testing.assert_array_equal(week[:, :7], np.eye(7))
    assert feature("thursday", span("1969-12-31", "1970-01-02")) == [0, 1]


def test_the_yearly_cycle_closes_in_leap_years_too() -> None:
    for start, middle in (("2023-01-01", "2023-07-02"), ("2024-01-01", "2024-07-02")):
        days = np.array([start, middle], "datetime64[D]")
        assert feature("year_sin_1", days)[0] == 0
        assert feature("year_cos_1", days)[0] == 1
        assert feature("year_cos_1", days)[1] == pytest.approx(-1, abs=1e-3)
    quarter = np.array(["2024-04-01T00:00"], "datetime64[m]")  # day 91 of 366: just before a quarter of the year
    assert feature("year_sin_1", quarter)[0] == pytest.approx(np.sin(2 * np.pi * 91 / 366), abs=1e-6)
    assert feature("year_cos_3", quarter)[0] == pytest.approx(np.cos(6 * np.pi * 91 / 366), abs=1e-6)


def test_thanksgiving_is_the_fourth_thursday_of_november() -> None:
    days = span("2024-11-26", "2024-12-01")  # Tuesday to Saturday; the Thursdays are 7, 14, 21 and 28
    assert holiday_names(days, "US", None) == {date(2024, 11, 28): "Thanksgiving Day"}
    assert feature("holiday", days, "US") == [0, 0, 1, 0, 0]
    assert feature("before_holiday", days, "US") == [0, 1, 0, 0, 0]
    assert feature("after_holiday", days, "US") == [0, 0, 0, 1, 0]


def test_easter_moves_and_brings_two_holidays_in_germany() -> None:
    # Easter Sunday was 31 March 2024 and 20 April 2025
    assert holiday_names(span("2024-03-25", "2024-04-06"), "DE", "NW") == {
        date(2024, 3, 29): "Good Friday",
        date(2024, 4, 1): "Easter Monday",
    }
    assert list(holiday_names(span("2025-04-14", "2025-04-28"), "DE", "NW")) == [date(2025, 4, 18), date(2025, 4, 21)]


def test_holidays_around_the_first_and_last_day_count() -> None:
    assert feature("after_holiday", span("2024-01-02", "2024-01-03"), "US") == [1]
    assert feature("before_holiday", span("2024-12-31", "2025-01-01"), "US") == [1]


def test_subdivisions_have_holidays_of_their_own() -> None:
    epiphany = span("2024-01-06", "2024-01-07")
    assert feature("holiday", epiphany, "DE", "BY") == [1]
    assert feature("holiday", epiphany, "DE", "NW") == [0]


def test_without_a_country_no_day_is_a_holiday() -> None:
    assert holiday_names(span("2024-01-01", "2025-01-01"), None, None) == {}
    assert not any(feature("holiday", span("2024-01-01", "2025-01-01")))


def test_an_unknown_country_or_subdivision_is_answered_with_the_nearest() -> None:
    with pytest.raises(SpecError, match=r"country 'ECU2'; did you mean 'ECU'\?"):
        features(span("2024-01-01", "2024-01-02"), "ECU2", None)
    with pytest.raises(SpecError, match=r"subdivision 'NYC' of US; did you mean 'NY'\?; wanted one of AK"):
        features(span("2024-01-01", "2024-01-02"), "US", "NYC")
