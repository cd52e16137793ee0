"""Validation and suggestions of time zone names."""

from __future__ import annotations

from zoneinfo import available_timezones

import pytest

from forecaster.core import timezones


def test_every_zone_of_this_machine_is_known() -> None:
    assert {"Europe/Berlin", "America/New_York", "UTC"} <= available_timezones()
    assert all(map(timezones.exists, available_timezones()))


@pytest.mark.parametrize(
    "name", ["", " ", "Mars/Olympus", "Europe", "zone.tab", "../etc/passwd", "/etc/passwd", "a\0b"]
)
def test_what_is_no_zone_is_not_known(name: str) -> None:
    assert not timezones.exists(name)


@pytest.mark.parametrize("name", ["CEST", "AEST", "EDT", "CST", "ABCD"])
def test_an_abbreviation_of_many_zones_is_told_to_be_no_zone(name: str) -> None:
    assert timezones.hint(name).startswith("; an abbreviation is no time zone, as several share it")
    assert "did you mean" not in timezones.hint(name)


def test_an_abbreviation_of_few_zones_names_them() -> None:
    for name, zone in {"PST": "America/Los_Angeles", "IST": "Asia/Kolkata", "jst": "Asia/Tokyo"}.items():
        assert f"'{name}' is in use in " in timezones.hint(name)
        assert zone in timezones.hint(name)


@pytest.mark.parametrize("name", ["UTC+1", "GMT-5", "+02:00", "-0500", "gmt2"])
def test_an_offset_gets_no_suggestion_as_it_has_no_summer_time(name: str) -> None:
    assert timezones.hint(name).startswith("; an offset is no time zone")


@pytest.mark.parametrize(
    ("name", "zone"),
    [
        ("Europe/Berln", "Europe/Berlin"),
        ("europe/berlin", "Europe/Berlin"),
        ("Berlin", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("utc", "UTC"),
    ],
)
def test_a_misspelt_zone_or_a_place_alone_is_answered_with_the_zone(name: str, zone: str) -> None:
    assert timezones.hint(name) == f"; did you mean '{zone}'?"


@pytest.mark.parametrize("name", ["", " ", "W. Europe Standard Time", "Mars/Olympus", "Germany"])
def test_nothing_is_made_of_a_word_that_is_near_to_no_zone(name: str) -> None:
    assert timezones.hint(name) == ""


def test_a_zone_without_summer_time_that_sounds_like_one_with_it_is_told() -> None:
    assert timezones.caveat("EST") == (
        "The time zone EST is 5 hours behind UTC all year, without summer time; a zone with the name of a place, such "
        "as America/New_York, has it."
    )
    assert "is 2 hours behind UTC" in (timezones.caveat("Etc/GMT+2") or "")  # its sign is inverted
    assert not any(map(timezones.caveat, ["UTC", "GMT", "Etc/GMT", "Europe/Berlin", "America/Phoenix", "Asia/Tokyo"]))
