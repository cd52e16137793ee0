"""Hints for codes of countries and subdivisions with holidays: the likely code for an unknown word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

import holidays
from holidays.registry import COUNTRIES

from forecaster.core.language.near_words import did_you_mean, nearest_word, plain

# similarity of a misspelled name to the right one; codes are too short for less
_SPELLING = 0.85
# in use in addition to the English names of ISO 3166: languages, other codes, parts of a country,
# native names
_NAMES = {
    "AE": "uae emirates",
    "AT": "at osterreich",
    "BE": "belgie belgique",
    "BR": "brasil",
    "CH": "sui schweiz suisse svizzera",
    "CZ": "cesko czechia",
    "DE": "ger deutschland allemagne alemania germania",
    "DK": "den danmark",
    "ES": "sp espana spanien",
    "FI": "suomi",
    "FR": "frankreich francia",
    "GB": "en eng england scotland wales northernireland britain greatbritain",
    "GR": "el gre hellas",
    "IT": "italia italien",
    "JP": "jap nippon",
    "KR": "korea",
    "NL": "ned nederland holland",
    "NO": "norge",
    "PL": "polska",
    "PT": "por",
    "RU": "russianfederation",
    "SA": "ksa",
    "SE": "sverige",
    "TR": "turkey turkiye",
    "US": "america unitedstatesofamerica",
    "ZA": "rsa",
}


def country_named(word: str) -> str | None:
    """Two-letter code of the country with exactly this name, in English or its own language, or
    this three-letter code; None if there is none."""
    threes = {names[2]: names[1] for names in COUNTRIES.values()}
    return _names().get(plain(word)) or threes.get(word.strip().upper())


def country_hint(word: str) -> str:
    """Suggested country code for a word without a holiday calendar, for the end of a sentence; of a
    compound code only the country part is used."""
    codes = holidays.list_supported_countries(include_aliases=True)
    # DE-BY, or de_DE
    compound = re.fullmatch(r"([A-Z]{2})-\w+|[a-z]{2,3}[-_]([A-Za-z]{2})", word.strip())
    part = ((compound[1] or compound[2]) if compound else word).upper()
    code = next((code for code in (part, plain(word).upper()) if code in codes), None) or _names().get(plain(word))
    if code is None and len(plain(word)) > 3:
        code = nearest_word(word, codes, _SPELLING)
        name = nearest_word(word, _names(), _SPELLING)
        code = code or (_names()[name] if name else None)
    return did_you_mean(code)


def subdivision_hint(word: str, country: str) -> str:
    """Suggested subdivision code for an unknown word, for the end of a sentence."""
    calendar = holidays.country_holidays(country)
    codes, names = calendar.subdivisions, {plain(name): code for name, code in calendar.subdivisions_aliases.items()}
    short = re.sub(rf"^{re.escape(country)}[-_ ]", "", word.strip(), flags=re.IGNORECASE).upper()
    code = short if short in codes else names.get(plain(word))
    code = code or nearest_word(word, [code for code in codes if len(plain(word)) > 2 or len(code) > 2])
    if code is None and (name := nearest_word(word, names, _SPELLING)):
        code = names[name]
    return did_you_mean(code)


@cache
def _names() -> Mapping[str, str]:
    """Plain names of countries, and their codes in ISO 3166."""
    return {
        **{plain(name): names[1] for name, names in COUNTRIES.items()},
        **{name: code for code, names in _NAMES.items() for name in names.split()},
    }
