"""The language of a digest: its sentences and number formats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dashboards.ops.formatting import locale
from forecaster.core.language import ENGLISH


@contextmanager
def in_language(tag: str | None) -> Iterator[None]:
    """Activate the language of a tag such as de-AT, if there is a catalog, and its number format.

    None: English.
    """
    with locale.active(locale.reader_locale(tag or ENGLISH)):
        yield
