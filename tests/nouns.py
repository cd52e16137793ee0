"""Find numbers that do not agree with their nouns: "1 depots"."""

from __future__ import annotations

import re

_NO_PLURALS = {
    "is",
    "was",
    "has",
    "does",
    "as",
    "this",
    "its",
    "needs",
    "stays",
    "holds",
    "begins",
}  # verbs and other words after a single thing


def wrong_plurals(text: str) -> list[str]:
    """Return each "1 things" of a text."""
    pairs = re.finditer(r"(?<![\w.,:/+−–-])1[  ]((?:open |closed |old |cached )?([a-z]{2,}s))\b(?![-.]\w)", text)
    return [pair[0] for pair in pairs if pair[2] not in _NO_PLURALS and not pair[2].endswith("ss")]
