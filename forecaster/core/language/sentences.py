"""Sentences that are written down in English and told in the reader's language: text that knows its own template.

    objection = sentence(N_("{metric} is {value}, wanted at most {limit}"), metric="wape", value="0.31", limit="0.30")

It is a str, in English, for whoever logs or keeps it. `stored` gives the template and what fills it, to be kept beside
the text as JSON; `retold` makes the sentence of these in the reader's language. What was kept by an earlier version has
no template, and is told as it was written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forecaster.core.language.catalogue import _, ngettext


class Sentence(str):
    """An English sentence with the template that it was made of, as the catalogue has it."""

    template: str
    plural: str | None = None  # the template for several, where the number `n` decides
    values: Mapping[str, object]


def sentence(template: str, /, **values: object) -> Sentence:
    """The sentence, its placeholders filled; a value may be a sentence itself."""
    text = Sentence(template.format(**values))
    text.template, text.values = template, values
    return text


def counted(number: int, singular: str, plural: str) -> Sentence:
    """A number with its noun: "1 day", "12 days"; both forms stand in the catalogue as those of one `ngettext`."""
    text = Sentence((singular if number == 1 else plural).format(n=f"{number:,}"))
    text.template, text.plural, text.values = singular, plural, {"n": number}
    return text


def stored(text: str) -> dict[str, Any] | None:
    """What a sentence was made of, as JSON; None of a text that does not know."""
    if not isinstance(text, Sentence):
        return None
    values = {
        name: stored(value) or str(value) if isinstance(value, str) else value for name, value in text.values.items()
    }
    return {"id": text.template, "values": values} | ({"plural": text.plural} if text.plural else {})


def retold(made_of: object, text: str) -> str:
    """The sentence in the reader's language from what was `stored` of it; `text` where that cannot be told."""
    try:
        return _told(made_of)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return text


def _told(made_of: Any) -> str:
    template, plural = made_of["id"], made_of.get("plural")
    values = {name: _told(value) if isinstance(value, dict) else value for name, value in made_of["values"].items()}
    if plural:
        number = int(values["n"])
        return ngettext(template, plural, number, n=f"{number:,}")
    text = _(template, **values)
    if "{" in text and not values:
        raise KeyError(template)
    return text
