"""Location of depots: the country's code, and the time zone of most of it."""

from __future__ import annotations

import os
import zoneinfo
from collections import defaultdict
from functools import lru_cache
from importlib import resources
from pathlib import Path

from forecaster.core import timezones
from forecaster.demand.panel import holiday_codes
from forecaster.errors import SpecError

# For countries with several zones, the most populated one.
_MAIN = {
    "AR": "America/Argentina/Buenos_Aires",
    "AU": "Australia/Sydney",
    "BR": "America/Sao_Paulo",
    "CA": "America/Toronto",
    "CD": "Africa/Kinshasa",
    "CL": "America/Santiago",
    "CN": "Asia/Shanghai",
    "CY": "Asia/Nicosia",
    "DE": "Europe/Berlin",
    "EC": "America/Guayaquil",
    "ES": "Europe/Madrid",
    "ID": "Asia/Jakarta",
    "KZ": "Asia/Almaty",
    "MN": "Asia/Ulaanbaatar",
    "MX": "America/Mexico_City",
    "MY": "Asia/Kuala_Lumpur",
    "NZ": "Pacific/Auckland",
    "PT": "Europe/Lisbon",
    "RU": "Europe/Moscow",
    "UA": "Europe/Kyiv",
    "US": "America/New_York",
    "UZ": "Asia/Tashkent",
    "VN": "Asia/Ho_Chi_Minh",
}
_OTHERS_ARE_SMALL = {"CN", "CY", "DE", "MY", "UA", "UZ", "VN"}
_MEANT = {"UK": "GB", "EN": "GB", "EL": "GR"}


def country(text: str) -> str:
    """ISO 3166 code, in capitals, from a code or a country's name. Raises SpecError for a country
    without a holiday calendar."""
    import holidays

    code = _MEANT.get(text.strip().upper(), text.strip().upper())
    countries = holidays.list_supported_countries(include_aliases=True)
    if len(code) == 2 and code in countries:
        return code
    if country_code := holiday_codes.country_named(text):
        return country_code
    raise SpecError(
        f"country: found {text!r}; wanted a two-letter code, as in DE or US, or a name"
        f"{holiday_codes.country_hint(text)}"
    )


def time_zone(country_code: str) -> tuple[str, bool] | None:
    """Main time zone of the country, and whether it has others; None if none is known."""
    zones = _zones().get(country_code, ())
    main = _MAIN.get(country_code) or next(iter(zones), None)
    return (main, len(zones) > 1 and country_code not in _OTHERS_ARE_SMALL) if main else None


def time_zone_of_machine() -> str | None:
    """Time zone of this machine; None if its name is unknown, or if it is UTC, as on servers."""
    link = Path("/etc/localtime")
    name = os.environ.get("TZ") or (str(link.resolve()).partition("zoneinfo/")[2] if link.is_symlink() else "")
    return name if "/" in name and not name.startswith("Etc/") and timezones.exists(name) else None


@lru_cache(1)
def _zones() -> dict[str, list[str]]:
    """Zones of each country in the time zone database."""
    zones = defaultdict(list)
    for line in _table().splitlines():
        if line and not line.startswith("#"):
            code, _, name = line.split("\t")[:3]
            zones[code].append(name)
    return zones


def _table() -> str:
    for folder in zoneinfo.TZPATH:
        if (file := Path(folder) / "zone.tab").is_file():
            return file.read_text("utf-8")
    try:
        return resources.files("tzdata").joinpath("zoneinfo/zone.tab").read_text("utf-8")
    except (ModuleNotFoundError, FileNotFoundError):
        return ""
