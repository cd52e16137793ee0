"""The reader's locale: language of sentences and dates, and format of numbers (Accept-Language,
CLDR).

Sentences and dates use a language that has a catalog. Numbers follow the first language known to
CLDR, so that they read 1.234,5 even if the sentences are English. Digits are always Latin, as they
stand next to IDs such as NYC-01.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache

from forecaster.core.language import ENGLISH, LANGUAGES, use_language


@dataclass(frozen=True)
class ReaderLocale:
    group: str = ","
    decimal: str = "."
    tag: str = "en"  # language tag for the format of money
    language: str = ENGLISH  # of sentences and dates

    @property
    def dates(self) -> str:
        """Tag for the format of dates: the reader's own if it matches the language of the
        sentences."""
        return self.tag if _language_of(self.tag) == self.language else self.language


DEFAULT = ReaderLocale()
MOST = 8  # languages of a header that are considered
_current: ContextVar[ReaderLocale] = ContextVar("locale", default=DEFAULT)


def current() -> ReaderLocale:
    """Return the locale of the reader for whom a page is being made."""
    return _current.get()


@contextmanager
def active(style: ReaderLocale) -> Iterator[None]:
    """Activate this locale for numbers, dates and sentences."""
    token = _current.set(style)
    try:
        with use_language(style.language):
            yield
    finally:
        _current.reset(token)


def reader_locale(accept_language: str, choice: str = "", default: str = ENGLISH) -> ReaderLocale:
    """Return a reader's locale; "de-AT,de;q=0.9" writes 1.234,5.

    The language is the chosen one, else the first accepted one that has a catalog, else the
    default.
    """
    tags = _language_tags(accept_language[:200])[:MOST]
    if choice in LANGUAGES:
        tag = next((tag for tag in tags if _language_of(tag) == choice and _of(tag)), choice)
        return replace(_of(tag) or DEFAULT, language=choice)
    language = next((code for code in map(_language_of, tags) if code in LANGUAGES), default)
    numbers = next((locale for tag in tags if (locale := _of(tag)) is not None), None)
    return replace(numbers or _of(default) or DEFAULT, language=language)


def _language_of(tag: str) -> str:
    return re.split("[-_]", tag, maxsplit=1)[0].lower()


def _language_tags(header: str) -> list[str]:
    """Return the language tags, most preferred first."""
    weighted = []
    for part in header.split(","):
        tag, _, weight = part.strip().partition(";q=")
        try:
            weighted.append((-float(weight or 1), tag.strip()))
        except ValueError:
            continue
    return [tag for weight, tag in sorted(weighted, key=lambda pair: pair[0]) if tag and weight < 0]


@lru_cache(maxsize=256)
def _of(tag: str) -> ReaderLocale | None:
    if tag.lower() in ("en", "en-us", "en-gb", "*"):
        return DEFAULT  # so that most servers never load the tables of all languages
    from babel import Locale, UnknownLocaleError

    try:
        symbols = Locale.parse(tag, sep="-").number_symbols["latn"]
    except (UnknownLocaleError, ValueError, TypeError, KeyError):
        return None
    return ReaderLocale(symbols["group"], symbols["decimal"], tag)


def money_pattern(tag: str, currency: str) -> str:
    """Return position and sign of a currency in a language: "€{}", "{} €", "CHF {}", with no-break
    spaces."""
    from babel import Locale  # only loaded where money is written

    language = Locale.parse(tag, sep="-")
    pattern = language.currency_formats["standard"].pattern.partition(";")[0]
    symbol = language.currency_symbols.get(currency, currency)
    around = re.sub(r"[#0.,]+", "{}", pattern).replace("\N{RIGHT-TO-LEFT MARK}", "").replace("¤", symbol)
    # a currency code is separated from its number
    spaced = re.sub(r"(?<=[A-Za-z])(?=\{)|(?<=\})(?=[A-Za-z])", " ", around)
    return re.sub(r"\s", "\N{NO-BREAK SPACE}", spaced)


@lru_cache(maxsize=4096)
def date_text(value: date, skeleton: str, tag: str) -> str:
    """Format a day in a language, by a CLDR skeleton ("MMMEd") or a pattern of weekdays only
    ("ccc")."""
    from babel import Locale
    from babel.dates import format_date, format_skeleton

    language = Locale.parse(tag, sep="-")
    if skeleton.startswith("c"):
        return format_date(value, skeleton, locale=language)
    return format_skeleton(skeleton, value, locale=language)
