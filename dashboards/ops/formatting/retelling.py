"""Renders the ledger's sentences in the reader's language and number format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from dashboards.ops.formatting import display, locale
from forecaster.core.language.sentences import retold, stored


def told(text: str, made_of: object = None) -> str:
    """Translate a sentence stored in English, by its parts; by default they are looked up from the
    text. A sentence without known parts stays English."""
    return retold(stored(text) if made_of is None else made_of, text, number=_number, day=display.dated)


def told_objections(verdict: Mapping[str, Any]) -> list[str]:
    """Translate the objections of a gate's verdict, which a run's row stores as plain text along
    with their parts."""
    objections = [str(objection) for objection in verdict.get("objections", ())]
    # in verdicts of earlier versions
    made_of = verdict.get("made_of") or [None] * len(objections)
    return [told(text, parts) for parts, text in zip(made_of, objections, strict=False)]


def capitalised(text: str) -> str:
    """Capitalize a sentence, and keep each % on the line of its number."""
    return display.in_one_line(text[:1].upper() + text[1:])


def _number(value: float, form: str) -> str:
    style = locale.current()
    text = format(int(value) if float(value).is_integer() and form == "," else value, form)
    text = text.translate({ord(","): style.group, ord("."): style.decimal})
    text = re.sub(r"%$", "\N{NO-BREAK SPACE}%", text)
    return display.with_sign(1 if text[0] == "+" else -1, text[1:]) if text[0] in "+-" else text
