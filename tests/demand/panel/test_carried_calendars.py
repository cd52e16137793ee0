"""A carried calendar gives the same features of a day as the installed table of holidays."""

from __future__ import annotations

import json
from datetime import date

import numpy as np
import pytest

from forecaster.core.arrays import Days
from forecaster.demand.panel import calendar, carried_calendars
from forecaster.errors import BundleError

PAIRS = [("DE", "BY"), ("US", "MA"), ("SA", None), (None, None)]
CUTOFF = date(2026, 3, 1)
CARRIED = json.loads(json.dumps(carried_calendars.carry(PAIRS, np.array([1, 1, 0], np.int32), CUTOFF, 448)))


def days(first: str, last: str) -> Days:
    return np.arange(np.datetime64(first), np.datetime64(last) + 1)


@pytest.mark.parametrize("pair", PAIRS)
def test_carried_calendar_gives_the_same_features_as_the_table(pair: tuple[str | None, str | None]) -> None:
    around = days("2024-06-01", "2027-12-31")
    carried = carried_calendars.features(CARRIED, around, *pair)
    np.testing.assert_array_equal(carried, calendar.features(around, *pair))


def test_each_depot_has_its_calendar() -> None:
    assert CARRIED["of_depots"] == ["US-MA", "US-MA", "DE-BY"]
    assert CARRIED["days"]["US-MA"]["2026-12-25"] == "1 0 0 1 365"
    assert CARRIED["days"][""] == {}


def test_rejects_days_and_countries_that_are_not_carried() -> None:
    with pytest.raises(BundleError, match=f"holidays up to {CARRIED['last']}, and is asked for 2029-03-07"):
        carried_calendars.features(CARRIED, days("2029-03-01", "2029-03-07"), "DE", "BY")
    with pytest.raises(BundleError, match="the model carries the holidays of DE-BY, US-MA, SA, ; found a depot in FR"):
        carried_calendars.features(CARRIED, days("2026-03-01", "2026-03-07"), "FR", None)
