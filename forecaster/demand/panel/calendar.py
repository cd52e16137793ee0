"""Calendar features: weekday, Fourier terms of year and month, public holidays and the days around
them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Literal

import numpy as np

from forecaster.core.arrays import Days, Doubles, Floats
from forecaster.core.language.holiday_names import written_language
from forecaster.errors import SpecError

HARMONICS, MONTH_HARMONICS = 3, 2
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
NAMES: tuple[str, ...] = (
    *_WEEKDAYS,
    *(f"year_{wave}_{harmonic}" for harmonic in range(1, HARMONICS + 1) for wave in ("sin", "cos")),
    *(f"month_{wave}_{harmonic}" for harmonic in range(1, MONTH_HARMONICS + 1) for wave in ("sin", "cos")),
    "holiday",
    "before_holiday",
    "after_holiday",
    "day_off",
    "counterpart",
)
"""Features in the order of the last axis, ending with those of holidays."""

# days before and after a holiday that belong to it: shopping before Christmas, on the same dates
# each year
NEAR = 4
# days from a holiday back to the same one a year before: Easter moves by a month
LEAST_BACK, MOST_BACK = 330, 400
# minimum days between two occasions with the same name; closer ones are days of one occasion
_APART = 30
_DAY = np.timedelta64(1, "D")
_NAME = re.compile(
    r"(?P<lieu>Alternative holiday for )?(?P<name>.*?)"
    r"(?: \((?:(?P<suffix>observed|in lieu|substitute day)(?:, )?)?(?:estimated)?\))?"
)


@dataclass(frozen=True)
class _Occasion:
    """A holiday in one year: the days that bear its name, and the days off that it causes. They are
    the same unless another day is free instead, such as the Monday after a Christmas on Sunday."""

    dates: Sequence[date]
    off: Sequence[date]


def features(days: Days, country: str | None, subdivision: str | None) -> Floats:
    """Calendar features of each day, (days, features) in the order of `NAMES`; without a country
    there are no holidays.

    The yearly cycle starts on 1 January and has the length of that year, the monthly one on the 1st
    with the length of that month. `day_off` marks a holiday, or the day that is free instead.
    `counterpart` is the number of days back to the day with which a day near a holiday is compared:
    the day at the same distance from the same holiday a year before, `LEAST_BACK` to `MOST_BACK`
    days back, and a moved day off with the day off; 0 if no holiday is near. Raises SpecError for a
    country or subdivision without a holiday calendar.
    """
    days = days.astype("datetime64[D]")
    weekday = (days.astype(np.int64) + 3) % 7  # 1970-01-01 was a Thursday
    waves = [*_waves(days, "Y", HARMONICS), *_waves(days, "M", MONTH_HARMONICS)]
    around = np.concatenate([days - _DAY, days, days + _DAY])
    off = np.fromiter(holiday_names(around, country, subdivision), "datetime64[D]")
    rest = [np.isin(days, off), np.isin(days + _DAY, off), np.isin(days - _DAY, off)]
    occasions = _occasions(days, country, subdivision)
    free = {day for years in occasions.values() for year in years for day in year.off}
    rest.append(np.isin(days, np.fromiter(free, "datetime64[D]")))
    back = _counterparts(days, occasions)
    return np.column_stack([np.eye(7)[weekday], *waves, *rest, back]).astype(np.float32)


def _occasions(days: Days, country: str | None, subdivision: str | None) -> dict[str, list[_Occasion]]:
    """Holidays near the days and near their counterparts, in order, by name."""
    if not country or not len(days):
        return {}
    first, last = days.min() - (MOST_BACK + NEAR + _APART), days.max() + NEAR + _APART
    # days, and whether they are free in place of others
    runs: dict[str, list[list[tuple[date, bool]]]] = {}
    for day, names in sorted(holiday_names(np.arange(first, last + _DAY), country, subdivision).items()):
        for full_name in names.split("; "):
            parsed = _NAME.fullmatch(full_name)
            assert parsed  # the pattern matches any text
            of_name = runs.setdefault(parsed["name"], [])
            if not of_name or (day - of_name[-1][-1][0]).days >= _APART:
                of_name.append([])
            of_name[-1].append((day, bool(parsed["lieu"] or parsed["suffix"])))
    return {name: [_occasion(run) for run in of_name] for name, of_name in runs.items()}


def _occasion(run: Sequence[tuple[date, bool]]) -> _Occasion:
    every = [day for day, _ in run]
    dates, instead = ([day for day, lieu in run if lieu is moved] for moved in (False, True))
    return _Occasion(dates or every, instead or every)


def _counterparts(days: Days, occasions: Mapping[str, Sequence[_Occasion]]) -> Doubles:
    """Days back to each day's counterpart of the year before, (days,); 0 if there is none."""
    back_days, distance = np.zeros(len(days)), np.full(len(days), NEAR + 1)
    place = {day: index for index, day in enumerate(days.tolist())}

    def hold(day: date, against: date, far: int) -> None:
        index, back = place.get(day), (day - against).days
        if index is not None and far < distance[index] and LEAST_BACK <= back <= MOST_BACK:
            back_days[index], distance[index] = back, far

    for before, now in (pair for years in occasions.values() for pair in pairwise(years)):
        back, length = now.dates[0] - before.dates[0], (now.dates[-1] - now.dates[0]).days
        for off in range(-NEAR, length + NEAR + 1):
            day = now.dates[0] + timedelta(days=off)
            hold(day, day - back, max(-off, off - length, 0))
        if now.off != now.dates or before.off != before.dates:
            for number, day in enumerate(now.off):
                hold(day, before.off[min(number, len(before.off) - 1)], -1)
    return back_days


def _waves(days: Days, unit: Literal["Y", "M"], harmonics: int) -> list[Doubles]:
    """Sine and cosine of each day's position in its year or month."""
    period = days.astype(f"datetime64[{unit}]")
    first, following = period.astype("datetime64[D]"), (period + 1).astype("datetime64[D]")
    phase = 2 * np.pi * ((days - first) / (following - first))
    return [wave(harmonic * phase) for harmonic in range(1, harmonics + 1) for wave in (np.sin, np.cos)]


def holiday_names(days: Days, country: str | None, subdivision: str | None) -> dict[date, str]:
    """Public holidays among the days, by date, with English names if the calendar has them.

    Raises SpecError for a country or subdivision without a holiday calendar.
    """
    if not country or not len(days):
        return {}
    dates = set(days.astype("datetime64[D]").tolist())
    names: dict[date, str] = {}
    for year in sorted({day.year for day in dates}):
        names |= {day: name for day, name in _year(country, subdivision or None, year) if day in dates}
    return names


@lru_cache(maxsize=4096)
def _year(country: str, subdivision: str | None, year: int) -> tuple[tuple[date, str], ...]:
    import holidays  # not needed where a model's own calendars are used

    from forecaster.demand.panel.holiday_codes import country_hint, subdivision_hint

    countries = holidays.list_supported_countries(include_aliases=True)
    if country not in countries:
        hint = country_hint(country)
        raise SpecError(f"no holidays are known for country {country!r}{hint}; wanted its code in ISO 3166, as in DE")
    # without a language, the machine's locale would choose it
    languages = holidays.country_holidays(country).supported_languages
    language = written_language(languages)
    try:
        named_days = holidays.country_holidays(country, subdiv=subdivision, years=[year], language=language)
    except NotImplementedError:
        subdivisions = countries[country]
        requirement = f"wanted one of {', '.join(subdivisions)}" if subdivisions else "it has none"
        hint = subdivision_hint(str(subdivision), country)
        raise SpecError(
            f"no holidays are known for subdivision {subdivision!r} of {country}{hint}; {requirement}"
        ) from None
    return tuple(sorted(named_days.items()))
