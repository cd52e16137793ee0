"""Catalogues of sentences (gettext), and the reader's language as a context variable.

The compiled catalogue (.mo) lies next to its .po and is read once per process. A sentence is shown
as written in the code if the language is English, has no catalogue, or lacks the sentence.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

Text = TypeVar("Text", bound=str)  # keeps HTML typed as HTML
DOMAIN = "forecaster"
FOLDER = Path(__file__).parent / "locale"
ENGLISH = "en"
# code → native name
LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español", "ar": "العربية"}
RIGHT_TO_LEFT = frozenset({"ar"})
_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


@contextmanager
def use_language(code: str) -> Iterator[None]:
    """Show sentences in this language (`LANGUAGES`) inside the block, also in threads that inherit
    the context."""
    token = _language.set(code)
    try:
        yield
    finally:
        _language.reset(token)


def language() -> str:
    """Return the code of the current language."""
    return _language.get()


def direction() -> str:
    """Return the writing direction of the current language, as in HTML: "ltr" or "rtl"."""
    return "rtl" if language() in RIGHT_TO_LEFT else "ltr"


def _(message: str, /, **values: object) -> str:
    """Return the sentence in the reader's language, with its placeholders filled in: `_("{depot} is
    closed", depot="NYC-01")`."""
    return filled(_catalogue(language()).gettext(message), values)


def ngettext(singular: str, plural: str, number: float, /, **values: object) -> str:
    """Return the plural form of a sentence for a number: of two forms in English, of six in Arabic.

    The formatted number is one of the values: `ngettext("{n} van", "{n} vans", vans, n=vans)`.
    """
    return filled(_catalogue(language()).ngettext(singular, plural, _whole(number)), values)


def pgettext(context: str, message: str, /, **values: object) -> str:
    """Translate a word with several meanings, like `_`; the context selects the meaning."""
    return filled(_catalogue(language()).pgettext(context, message), values)


def N_(message: str) -> str:
    """Mark a constant sentence for the catalogue; `_` translates it when it is shown."""
    return message


def filled(text: Text, values: Mapping[str, object]) -> Text:
    """Return the text with its placeholders filled in. A value that ends with a full stop, such as
    the abbreviated "1. Dez.", is not followed by another one."""
    for name, value in values.items():
        if isinstance(value, str) and value.endswith("."):
            text = cast(Text, text.replace(f"{{{name}}}.", f"{{{name}}}"))
    return cast(Text, text.format(**values)) if values else text


def _whole(number: float) -> int:
    """Return the number that selects the plural form: 1.5 selects the plural, as 2 does."""
    return int(number) if number == int(number) else max(int(number), 1) + 1


@cache
def _catalogue(code: str) -> gettext.NullTranslations:
    return gettext.translation(DOMAIN, FOLDER, [code], fallback=True)
