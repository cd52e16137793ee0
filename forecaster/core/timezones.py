"""Time zone names: check that the IANA database of this machine has a zone, and suggest one for
other words."""

from __future__ import annotations

import re
from datetime import datetime
from zoneinfo import ZoneInfo, available_timezones

from forecaster.core.language import N_
from forecaster.core.language.near_words import did_you_mean, fold, nearest_word, plain
from forecaster.core.language.sentences import as_sentence, sentence

MOST_NAMED = 6  # largest number of zones listed for an abbreviation
_SPELLING = 0.8  # smallest similarity of a misspelled name and the right one
_SEASONS = (datetime(2024, 1, 1), datetime(2024, 7, 1))
# aliases of zones, or zones without a place
_LINKS = ("Etc/", "US/", "Canada/", "Mexico/", "Brazil/", "Chile/", "SystemV/")


def exists(name: str) -> bool:
    """Return True if this machine has the zone. Listing all zones would open hundreds of files."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # no such name; not a file name in the zones' folder; a folder
        return False
    return True


def hint(name: str) -> str:
    """Return a suggestion for a word that names no zone, for the end of a sentence.

    An abbreviation or an offset is never treated as a misspelling: a similar one is another time,
    at least in summer.
    """
    if not plain(name):
        return ""
    zones = sorted(zone for zone in available_timezones() if "/" in zone and not zone.startswith(_LINKS))
    if re.fullmatch(r"(utc|gmt|z|zulu)?\s*[+-]?[0-9]{0,2}:?[0-9]{0,2}", fold(name)):
        is_utc = plain(name) in ("utc", "gmt", "z", "zulu")
        offset = N_("; an offset is not a time zone: it does not define daylight saving time")
        return did_you_mean("UTC") if is_utc else as_sentence(offset)
    if place := next((zone for zone in zones if plain(name) in (plain(zone), plain(zone.rsplit("/", 1)[-1]))), None):
        return did_you_mean(place)
    if re.fullmatch(r"[A-Za-z]{2,5}", name.strip()):
        return _abbreviation_hint(name.strip(), zones)
    return did_you_mean(nearest_word(name, zones, _SPELLING))


def caveat(name: str) -> str | None:
    """Return a sentence about a zone with a fixed offset from UTC, if its name suggests otherwise;
    None for other zones, and for UTC."""
    fixed = re.fullmatch(r"EST|MST|HST|(Etc/)?GMT[+-]?[0-9]+", name)
    offset = _SEASONS[0].replace(tzinfo=ZoneInfo(name)).utcoffset() if fixed else None
    if not offset:
        return None
    hours = offset.total_seconds() / 3600
    return (
        f"The time zone {name} is {abs(hours):g} hours {'behind' if hours < 0 else 'ahead of'} UTC all year, without "
        "summer time; a zone with the name of a place, such as America/New_York, has it."
    )


def _abbreviation_hint(name: str, zones: list[str]) -> str:
    """Return a hint with the zones that use an abbreviation, if they are few."""
    using = [
        zone for zone in zones if name.upper() in {day.replace(tzinfo=ZoneInfo(zone)).tzname() for day in _SEASONS}
    ]
    if 0 < len(using) <= MOST_NAMED:
        template = N_("; an abbreviation is not a time zone: '{name}' is used in {zones}")
        return sentence(template, name=name, zones=", ".join(using))
    return as_sentence(
        N_("; an abbreviation is not a time zone: several zones share it, and it does not define daylight saving time")
    )
