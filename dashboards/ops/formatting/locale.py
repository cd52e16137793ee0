"""Locale of numbers: the separators of thousands and decimals in a reader's language (Accept-Language, CLDR)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class NumberFormat:
    group: str = ","
    decimal: str = "."
    tag: str = "en"  # of the language, by which money is written


ENGLISH = NumberFormat()
MOST = 8  # languages of a header that are looked at
_current: ContextVar[NumberFormat] = ContextVar("marks", default=ENGLISH)


def current() -> NumberFormat:
    """The number format of the reader for whom a page is being made."""
    return _current.get()


@contextmanager
def active(style: NumberFormat) -> Iterator[None]:
    """Inside, numbers are written in this format."""
    token = _current.set(style)
    try:
        yield
    finally:
        _current.reset(token)


def number_format(accept_language: str) -> NumberFormat:
    """The format of the first language that is known; English where none is: "de-AT,de;q=0.9" writes 1.234,5."""
    for tag in _language_tags(accept_language[:200])[:MOST]:
        if (known_format := _of(tag)) is not None:
            return known_format
    return ENGLISH


def _language_tags(header: str) -> list[str]:
    """The language tags, the most wanted first."""
    weighted = []
    for part in header.split(","):
        tag, _, weight = part.strip().partition(";q=")
        try:
            weighted.append((-float(weight or 1), tag.strip()))
        except ValueError:
            continue
    return [tag for weight, tag in sorted(weighted, key=lambda pair: pair[0]) if tag and weight < 0]


@lru_cache(maxsize=256)
def _of(tag: str) -> NumberFormat | None:
    if tag.lower() in ("en", "en-us", "en-gb", "*"):
        return ENGLISH  # so that most servers never load the tables of all languages
    from babel import Locale, UnknownLocaleError

    try:
        symbols = Locale.parse(tag, sep="-").number_symbols["latn"]
    except (UnknownLocaleError, ValueError, TypeError, KeyError):
        return None
    return NumberFormat(symbols["group"], symbols["decimal"], tag)


def money_pattern(tag: str, currency: str) -> str:
    """Where a currency stands in a language, and its sign there: "€{}", "{} €", "CHF {}"; blanks do not break."""
    from babel import Locale  # only where money is written

    language = Locale.parse(tag, sep="-")
    pattern = language.currency_formats["standard"].pattern.partition(";")[0]
    symbol = language.currency_symbols.get(currency, currency)
    around = re.sub(r"[#0.,]+", "{}", pattern).replace("\N{RIGHT-TO-LEFT MARK}", "").replace("¤", symbol)
    spaced = re.sub(r"(?<=[A-Za-z])(?=\{)|(?<=\})(?=[A-Za-z])", " ", around)  # a code stands apart from its number
    return re.sub(r"\s", "\N{NO-BREAK SPACE}", spaced)
