"""The language of a digest: its sentences, and how numbers are written in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dashboards.ops.formatting import locale
from forecaster.core.language import ENGLISH, LANGUAGES, use_language


@contextmanager
def in_language(tag: str | None) -> Iterator[None]:
    """Inside, sentences are in the language of a tag as de-AT, where there is a catalogue, and numbers as there.

    None: English.
    """
    tag = tag or ENGLISH
    code = tag.partition("-")[0].lower()
    with use_language(code if code in LANGUAGES else ENGLISH), locale.active(locale.number_format(tag)):
        yield
