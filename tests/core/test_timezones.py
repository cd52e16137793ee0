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
def test_invalid_names_are_not_zones(name: str) -> None:
    assert not timezones.exists(name)


@pytest.mark.parametrize("name", ["CEST", "AEST", "EDT", "CST", "ABCD"])
def test_an_ambiguous_abbreviation_is_reported_as_no_zone(name: str) -> None:
    assert timezones.hint(name).startswith("; an abbreviation is not a time zone: several zones share it")
    assert "did you mean" not in timezones.hint(name)


def test_an_abbreviation_of_few_zones_names_them() -> None:
    for name, zone in {"PST": "America/Los_Angeles", "IST": "Asia/Kolkata", "jst": "Asia/Tokyo"}.items():
        assert f"'{name}' is used in " in timezones.hint(name)
        assert zone in timezones.hint(name)


@pytest.mark.parametrize("name", ["UTC+1", "GMT-5", "+02:00", "-0500", "gmt2"])
def test_an_offset_gets_no_suggestion(name: str) -> None:
    assert timezones.hint(name).startswith("; an offset is not a time zone")


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
def test_a_misspelled_zone_or_a_place_alone_gets_a_suggestion(name: str, zone: str) -> None:
    assert timezones.hint(name) == f"; did you mean '{zone}'?"


@pytest.mark.parametrize("name", ["", " ", "W. Europe Standard Time", "Mars/Olympus", "Germany"])
def test_a_word_near_no_zone_gets_no_suggestion(name: str) -> None:
    assert timezones.hint(name) == ""


def test_a_zone_with_a_fixed_offset_and_a_misleading_name_is_reported() -> None:
    assert timezones.caveat("EST") == (
        "The time zone EST is 5 hours behind UTC all year, without summer time; a zone with the name of a place, such "
        "as America/New_York, has it."
    )
    assert "is 2 hours behind UTC" in (timezones.caveat("Etc/GMT+2") or "")  # its sign is inverted
    assert not any(map(timezones.caveat, ["UTC", "GMT", "Etc/GMT", "Europe/Berlin", "America/Phoenix", "Asia/Tokyo"]))
