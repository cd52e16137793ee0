"""Which words name a time zone."""

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
