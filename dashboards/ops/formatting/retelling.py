"""Sentences of the ledger in the reader's language, with numbers and days as the reader writes
them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dashboards.ops.formatting import display, locale
from forecaster.core.language.sentences import retold, stored


def told(text: str, made_of: object = None) -> str:
    """A sentence that was written down in English, by what it was made of, which it knows where it
    is left out; one that knows nothing is told as it was written."""
    return retold(stored(text) if made_of is None else made_of, text, number=_number, day=display.dated)


def told_objections(verdict: Mapping[str, Any]) -> list[str]:
    """The objections of a gate's verdict, which a run's row has as plain text next to what they
    were made of."""
    written = [str(objection) for objection in verdict.get("objections", ())]
    # of a verdict that an earlier version wrote
    made_of = verdict.get("made_of") or [None] * len(written)
    return [told(text, parts) for parts, text in zip(made_of, written, strict=False)]


def capitalised(text: str) -> str:
    """A sentence with a capital in front, in which no % stands alone on a line."""
    return display.in_one_line(text[:1].upper() + text[1:])


def _number(value: float, form: str) -> str:
    style = locale.current()
    text = format(int(value) if float(value).is_integer() and form == "," else value, form)
    text = text.translate({ord(","): style.group, ord("."): style.decimal})
    text = re.sub(r"%$", "\N{NO-BREAK SPACE}%", text)
    return display.with_sign(1 if text[0] == "+" else -1, text[1:]) if text[0] in "+-" else text
