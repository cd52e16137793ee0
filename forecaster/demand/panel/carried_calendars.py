"""Holiday calendars carried by a bundle, so that its inputs can be built without an installed table
of holidays.

Only the features of `COLUMNS` need such a table. A calendar is named after its country and
subdivision ("US-MA", "DE", "" without holidays), and holds the days on which one of them is not 0,
as text with values separated by blanks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from forecaster.core.arrays import Days, Floats, Ints
from forecaster.demand.panel import calendar
from forecaster.errors import BundleError

COLUMNS = ("holiday", "before_holiday", "after_holiday", "day_off", "counterpart")
PLACES = [calendar.NAMES.index(name) for name in COLUMNS]
YEAR = 366

Pair = tuple[str | None, str | None]  # country, subdivision


def carry(pairs: Sequence[Pair], group: Ints, cutoff: date, lookback: int) -> dict[str, Any]:
    """Calendars of depots, from a year before the days that a model reads to two years after the
    cutoff.

    `group` is each depot's position among the pairs; `of_depots` names its calendar, in the same
    order.
    """
    last = np.datetime64(cutoff, "D")
    days = np.arange(last - (lookback + YEAR), last + 2 * YEAR)
    calendars = {}
    for pair in pairs:
        values = calendar.features(days, *pair)[:, PLACES].astype(int)
        rows = np.flatnonzero(values.any(axis=1))
        calendars[_name(*pair)] = {str(days[row]): " ".join(map(str, values[row])) for row in rows}
    return {
        "first": str(days[0]),
        "last": str(days[-1]),
        "columns": list(COLUMNS),
        "of_depots": [_name(*pairs[place]) for place in group],
        "days": calendars,
    }


def features(carried: Mapping[str, Any], days: Days, country: str | None, subdivision: str | None) -> Floats:
    """`calendar.features` of the days, from carried calendars; days before their first day have no
    holiday.

    Raises BundleError for a country or subdivision that is not among them, and for days after their
    last day.
    """
    name = _name(country, subdivision)
    if name not in carried["days"]:
        carried_names = ", ".join(carried["days"])
        raise BundleError(
            f"the model carries the holidays of {carried_names}; found a depot in {name}: train it with this depot"
        )
    if str(days[-1]) > carried["last"]:
        raise BundleError(
            f"the model carries holidays up to {carried['last']}, and is asked for {days[-1]}: load a newer version"
        )
    result = calendar.features(days, None, None)
    place = {str(day): row for row, day in enumerate(days)}
    for day, values in carried["days"][name].items():
        if day in place:
            result[place[day], PLACES] = [float(value) for value in values.split(" ")]
    return result


def _name(country: str | None, subdivision: str | None) -> str:
    return "-".join(filter(None, (country, subdivision)))
