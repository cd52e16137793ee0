"""Names of public holidays: as stored, and in the reader's language if their calendar has it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import date
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from forecaster.core.language.catalogue import ENGLISH, language

_WRITTEN = ("en_US", "en_GB", "en")


class HolidayRegion(NamedTuple):
    """Region of a depot's public holidays: codes of ISO 3166, empty where none is declared."""

    country: str = ""
    subdivision: str = ""


NOWHERE = HolidayRegion()


def region_of(attributes: Mapping[str, str], home: HolidayRegion) -> HolidayRegion:
    """Return a depot's own region; without a country, it is in the pipeline's. In the pipeline's
    country, a missing subdivision is the pipeline's."""
    country, subdivision = attributes.get("country") or "", attributes.get("subdivision") or ""
    if not subdivision and country in ("", home.country):
        subdivision = home.subdivision
    return HolidayRegion(country or home.country, subdivision)


def written_language(languages: Collection[str]) -> str | None:
    """Return the language, of a calendar's languages, in which names are stored: English; None for
    the calendar's own."""
    return next((code for code in _WRITTEN if code in languages), None)


def translated_holiday(day: date, name: str, region: HolidayRegion) -> str:
    """Return the name of that day's holiday in the reader's language; the name itself if it is no
    public holiday of the region, or its calendar lacks the language."""
    if language() == ENGLISH or not region.country or not _may_have(region.country, language()):
        return name
    return _names(*region, day.year, language()).get((day, name), name)


@cache
def _may_have(country: str, reader: str) -> bool:
    """Return False if the calendar of a country has catalogues, but none in a language. This avoids
    querying the calendar, which loads those of all countries, 16 MB."""
    package = find_spec("holidays")
    assert package is not None
    assert package.origin is not None
    catalogues = Path(package.origin).parent.glob(f"locale/*/LC_MESSAGES/{country}.mo")
    codes = {file.parts[-3].partition("_")[0] for file in catalogues}
    return not codes or reader in codes


@lru_cache(maxsize=1024)
def _names(country: str, subdivision: str, year: int, reader: str) -> Mapping[tuple[date, str], str]:
    """Return the names of a year in a language, by date and stored name; empty if there are none."""
    import holidays  # only for readers of a language other than English

    try:
        languages = holidays.country_holidays(country).supported_languages
        spoken = next((code for code in languages if code.partition("_")[0] == reader), None)
        if spoken is None:
            return {}
        stored_names, translated = (
            holidays.country_holidays(country, subdiv=subdivision or None, years=[year], language=code)
            for code in (written_language(languages), spoken)
        )
    except NotImplementedError:  # no such country or subdivision
        return {}
    return {(day, name): translated[day] for day, name in stored_names.items() if day in translated}
