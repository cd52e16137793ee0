"""The language of a reader: sentences come from a catalogue,
`locale/LANGUAGE/LC_MESSAGES/forecaster.po`.

    with use_language("de"):
        _("{depot} expects {orders} orders.", depot=depot, orders=orders)
        ngettext("{n} driver", "{n} drivers", count, n=count)

What is written in the code is English and needs no catalogue. A sentence stands whole in one call,
with placeholders by name: translators turn it round as their language wants. `make messages`
collects new sentences.
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
