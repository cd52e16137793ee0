"""Translate sentences into the reader's language, with the catalogue
`locale/LANGUAGE/LC_MESSAGES/forecaster.po`.

    with use_language("de"):
        _("{depot} expects {orders} orders.", depot=depot, orders=orders)
        ngettext("{n} driver", "{n} drivers", count, n=count)

The text in the code is English and needs no catalogue. Each call has a whole sentence with named
placeholders, so that translators can reorder it. `make messages` collects new sentences.
"""

from __future__ import annotations

from forecaster.core.language.catalogue import (
    ENGLISH,
    LANGUAGES,
    N_,
    RIGHT_TO_LEFT,
    _,
    direction,
    filled,
    language,
    ngettext,
    pgettext,
    use_language,
)

__all__ = [
    "ENGLISH",
    "LANGUAGES",
    "N_",
    "RIGHT_TO_LEFT",
    "_",
    "direction",
    "filled",
    "language",
    "ngettext",
    "pgettext",
    "use_language",
]
