"""The language of a digest: its sentences, and how numbers are written in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dashboards.ops.formatting import locale
from forecaster.core.language import ENGLISH


@contextmanager
def in_language(tag: str | None) -> Iterator[None]:
    """Inside, sentences are in the language of a tag as de-AT, where there is a catalogue, and
    numbers as there.

    None: English.
    """
    with locale.active(locale.reader_locale(tag or ENGLISH)):
        yield
