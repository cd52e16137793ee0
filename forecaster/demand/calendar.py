"""What is known of a day in advance: its weekday, its place in the year, the holidays around it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from datetime import date
from functools import lru_cache

import holidays
import numpy as np

from forecaster.errors import SpecError
from forecaster.values import Days, Floats

HARMONICS = 3
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NAMES: tuple[str, ...] = (
    *_WEEKDAYS,
    *(f"year_{wave}_{harmonic}" for harmonic in range(1, HARMONICS + 1) for wave in ("sin", "cos")),
    "holiday",
    "before_holiday",
    "after_holiday",
)
"""The features in the order of the last axis."""

_DAY = np.timedelta64(1, "D")


def features(days: Days, country: str | None, subdivision: str | None) -> Floats:
    """What is known of each day, (days, features) in the order of `NAMES`; without a country there are no holidays.

    The yearly cycle starts on 1 January and takes as many days as that year has.
    Raises SpecError for a country or subdivision without a holiday calendar.
    """
    days = days.astype("datetime64[D]")
    weekday = (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday
    year = days.astype("datetime64[Y]")
    first, following = year.astype("datetime64[D]"), (year + 1).astype("datetime64[D]")
    phase = 2 * np.pi * ((days - first) / (following - first))
    waves = [wave(harmonic * phase) for harmonic in range(1, HARMONICS + 1) for wave in (np.sin, np.cos)]
    around = np.concatenate([days - _DAY, days, days + _DAY])
    off = np.fromiter(holiday_names(around, country, subdivision), "datetime64[D]")
    rest = [np.isin(days, off), np.isin(days + _DAY, off), np.isin(days - _DAY, off)]
    return np.column_stack([np.eye(7)[weekday], *waves, *rest]).astype(np.float32)


def holiday_names(days: Days, country: str | None, subdivision: str | None) -> dict[date, str]:
    """The public holidays among the days, by date, with their English names where the calendar has them.

    Raises SpecError for a country or subdivision without a holiday calendar.
    """
    if not country or not len(days):
        return {}
    wanted = set(days.astype("datetime64[D]").tolist())
    found: dict[date, str] = {}
    for year in sorted({day.year for day in wanted}):
        found |= {day: name for day, name in _year(country, subdivision or None, year) if day in wanted}
    return found


@lru_cache(maxsize=4096)
def _year(country: str, subdivision: str | None, year: int) -> tuple[tuple[date, str], ...]:
    countries = holidays.list_supported_countries(include_aliases=True)
    if country not in countries:
        raise SpecError(f"no holidays are known for country {country!r}{_nearest(country, countries)}; wanted ISO 3166")
    # the language is named, or the machine's locale would choose it
    spoken = holidays.country_holidays(country).supported_languages
    language = next((code for code in ("en_US", "en_GB", "en") if code in spoken), None)
    try:
        found = holidays.country_holidays(country, subdiv=subdivision, years=[year], language=language)
    except NotImplementedError:
        known = countries[country]
        wanted = f"wanted one of {', '.join(known)}" if known else "it has none"
        hint = _nearest(str(subdivision), known)
        raise SpecError(f"no holidays are known for subdivision {subdivision!r} of {country}{hint}; {wanted}") from None
    return tuple(sorted(found.items()))


def _nearest(word: str, words: Iterable[str]) -> str:
    close = difflib.get_close_matches(word.upper(), list(words), n=1, cutoff=0.5)
    return f"; did you mean '{close[0]}'?" if close else ""
