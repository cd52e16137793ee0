"""Catalogues of sentences (gettext), and the language in which somebody reads, as a context
variable.

The compiled catalogue (.mo) lies next to its .po and is read once in a process. A language without
one, a sentence that it lacks, and English itself are told as they stand in the code.
"""

from __future__ import annotations

import gettext
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import TypeVar, cast

Text = TypeVar("Text", bound=str)  # HTML stays HTML
DOMAIN = "forecaster"
FOLDER = Path(__file__).parent / "locale"
ENGLISH = "en"
# code → its own name
LANGUAGES = {"en": "English", "de": "Deutsch", "es": "Español", "ar": "العربية"}
RIGHT_TO_LEFT = frozenset({"ar"})
_language: ContextVar[str] = ContextVar("language", default=ENGLISH)


@contextmanager
def use_language(code: str) -> Iterator[None]:
    """Inside, sentences are shown in this language (`LANGUAGES`), here and in threads that take over
    the context."""
    token = _language.set(code)
    try:
        yield
    finally:
        _language.reset(token)


def language() -> str:
    """The code of the language in which sentences are told."""
    return _language.get()


def direction() -> str:
    """Whither the language is written, as HTML has it: "ltr" or "rtl"."""
    return "rtl" if language() in RIGHT_TO_LEFT else "ltr"


def _(message: str, /, **values: object) -> str:
    """The sentence in the reader's language, its placeholders filled: `_("{depot} is closed",
    depot="NYC-01")`."""
    return filled(_catalogue(language()).gettext(message), values)


def ngettext(singular: str, plural: str, number: float, /, **values: object) -> str:
    """The form of a sentence that goes with a number: two in English, six in Arabic.

    The number as it is to be written is one of the values: `ngettext("{n} van", "{n} vans", vans,
    n=vans)`.
    """
    return filled(_catalogue(language()).ngettext(singular, plural, _whole(number)), values)


def pgettext(context: str, message: str, /, **values: object) -> str:
    """Like `_`, for a word that means several things; the context says which."""
    return filled(_catalogue(language()).pgettext(context, message), values)


def N_(message: str) -> str:
    """Marks a sentence of a constant for the catalogue; whoever tells it asks `_` for it then."""
    return message


def filled(text: Text, values: Mapping[str, object]) -> Text:
    """The text with its placeholders filled. A value that ends with a full stop, as the abbreviated
    "1. Dez.", is not followed by another one."""
    for name, value in values.items():
        if isinstance(value, str) and value.endswith("."):
            text = cast(Text, text.replace(f"{{{name}}}.", f"{{{name}}}"))
    return cast(Text, text.format(**values)) if values else text


def _whole(number: float) -> int:
    """The number by which a form is chosen: 1.5 goes with several, as 2 does."""
    return int(number) if number == int(number) else max(int(number), 1) + 1


@cache
def _catalogue(code: str) -> gettext.NullTranslations:
    return gettext.translation(DOMAIN, FOLDER, [code], fallback=True)
