"""Sentences that are stored in English and shown in the reader's language: text that knows its own
template.

    objection = sentence(N_("{metric} is {value}, wanted at most {limit}"), metric="wape", value="0.31", limit="0.30")

A `Sentence` is an English str, for logs and storage. `stored` returns its template and values,
which are kept next to the text as JSON; `restored` rebuilds the same str from both, and `retold`
translates it. Text that an earlier version stored has no template and is shown as written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from functools import cache
from string import Formatter
from typing import Any

from forecaster.core.language.catalogue import ENGLISH, N_, _, language, ngettext
from forecaster.errors import ForecasterError

MADE_OF = "made_of"  # key or column, next to a text, that has its template and values


class Sentence(str):
    """An English sentence with its origin, as JSON: `{"id": template, "values": {…}}`, `{"parts":
    […], "between": …}` for several in a row, `{"number": …, "form": …}` for a number."""

    made_of: dict[str, Any]


def sentence(template: str, /, **values: object) -> Sentence:
    """Return the sentence with its placeholders filled in. A value may itself be a sentence; whole
    numbers and days are formatted for the reader, and any other value is shown as it is."""
    if not values:
        return as_sentence(template)
    text = template.format(**{name: _english(value) for name, value in values.items()})
    return _made(text, {"id": template, "values": {name: _stored_value(value) for name, value in values.items()}})


def as_sentence(text: str) -> Sentence:
    """Return a catalogue text without placeholders as a sentence; a sentence is returned unchanged."""
    return text if isinstance(text, Sentence) else _made(text, {"id": text, "values": {}})


def counted(number: int, singular: str, plural: str) -> Sentence:
    """Return a number with its noun: "1 day", "12 days"; the catalogue has both forms as one
    `ngettext`."""
    text = (singular if number == 1 else plural).format(n=f"{number:,}")
    return _made(text, {"id": singular, "values": {"n": int(number)}, "plural": plural})


def amount(value: float, form: str) -> Sentence:
    """Return a number in a form of `format`, such as "+,.2f" or ".1%", which is shown with the
    reader's separators."""
    return _made(format(value, form), {"number": float(value), "form": form})


def joined(texts: Iterable[str], between: str = "; ") -> Sentence | None:
    """Join the non-empty sentences; None if there are none. `between` is in the catalogue, or
    blank."""
    parts = [text for text in texts if text]
    if not parts:
        return None
    return _made(between.join(parts), {"parts": [_stored_value(part) for part in parts], "between": between})


def and_more(names: Iterable[str], more: int) -> Sentence | str:
    """Return a row of names and the number of further, unnamed ones: "A, B and 3 more"."""
    row = joined(names, ", ") or ""
    return sentence(N_("{names} and {n} more"), names=row, n=more) if more > 0 else row


def without_start(text: str, start: str) -> str:
    """Return the text without its first sentence; the text itself if it starts with another one."""
    if not start or not text.startswith(start):
        return text
    rest, made_of = text.removeprefix(start).strip(), stored(text) or {}
    parts = made_of.get("parts", ())
    if len(parts) < 2 or parts[0] != _stored_value(start):
        return rest
    return _made(rest, {"parts": parts[1:], "between": made_of["between"]})


def recognised(text: str, templates: Iterable[str]) -> str:
    """Return the sentence that one of the templates made, from text that was stored alone; the text
    itself if none did."""
    for template in templates:
        if match := _pattern(template).fullmatch(text):
            return _made(text, {"id": template, "values": match.groupdict()})
    return text


def of_error(error: BaseException) -> str:
    """Return the text of an error, after its class name unless it is one of ours; a `Sentence` if
    it was raised with one."""
    if not isinstance(error, ForecasterError):
        return f"{type(error).__name__}: {error}"
    first = error.args[0] if error.args else None
    return first if isinstance(first, Sentence) and str(first) == str(error) else str(error)


def stored(text: str | None) -> dict[str, Any] | None:
    """Return template and values of a sentence, as JSON; None for other text."""
    return text.made_of if isinstance(text, Sentence) else None


def restored(made_of: object, text: str) -> str:
    """Rebuild a sentence from its text and what `stored` returned; the text alone if there is
    nothing else."""
    return _made(text, made_of) if isinstance(made_of, dict) else text


def packed(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values for JSON, with the origins of sentences next to them under `MADE_OF`."""
    parts = {name: made_of for name, value in values.items() if (made_of := stored(value)) is not None}
    return {**values, MADE_OF: parts} if parts else dict(values)


def unpacked(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values that were `packed`, including sentences."""
    parts = values.get(MADE_OF)
    parts_by_name = parts if isinstance(parts, Mapping) else {}
    return {
        name: restored(parts_by_name.get(name), value) if isinstance(value, str) else value
        for name, value in values.items()
        if name != MADE_OF
    }


def as_argument(text: str) -> str:
    """Return a sentence for a command line, as JSON with its origin; other text unchanged."""
    return json.dumps(packed({"text": text})) if isinstance(text, Sentence) else text


def from_argument(argument: str) -> str:
    """Return the sentence from `as_argument`, or text that a person typed."""
    try:
        text = unpacked(json.loads(argument))["text"]
    except (ValueError, AttributeError, KeyError):
        return argument
    return text if isinstance(text, str) else argument


Number = Callable[[float, str], str]
Day = Callable[[date], str]


def retold(made_of: object, text: str, *, number: Number = format, day: Day = str) -> str:
    """Return the sentence in the reader's language from what `stored` returned; `text` if that is
    unusable, and in English. `number` writes a number in a form of `format` for the reader, `day` a
    day."""
    if language() == ENGLISH:
        return text
    try:
        return _told(made_of, number, day)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError):
        return text


def _told(made_of: Any, number: Number, day: Day) -> str:
    if "number" in made_of:
        return number(float(made_of["number"]), made_of["form"])
    if "day" in made_of:
        return day(date.fromisoformat(made_of["day"]))
    if "parts" in made_of:
        return _told_in_a_row(made_of["parts"], made_of["between"], number, day)
    template, plural = made_of["id"], made_of.get("plural")
    values = {name: _told_value(value, number, day) for name, value in made_of["values"].items()}
    if plural:
        return ngettext(template, plural, int(made_of["values"]["n"]), **values)
    text = _(template, **values)
    if "{" in text and not values:
        raise KeyError(template)
    return text


def _told_in_a_row(parts: Sequence[Any], between: str, number: Number, day: Day) -> str:
    return (_(between) if between.strip() else between).join(_told_value(part, number, day) for part in parts)


def _told_value(value: Any, number: Number, day: Day) -> str:
    if isinstance(value, dict):
        return _told(value, number, day)
    return number(value, ",") if isinstance(value, int) else str(value)


@cache
def _pattern(template: str) -> re.Pattern[str]:
    """Return a regular expression that matches a template's sentences."""
    parts = ((re.escape(text), f"(?P<{name}>.*?)" if name else "") for text, name, _, _ in Formatter().parse(template))
    return re.compile("".join(part for pair in parts for part in pair), re.DOTALL)


def _english(value: object) -> object:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else value


def _stored_value(value: object) -> Any:
    """Return a value in its JSON form."""
    if isinstance(value, Sentence):
        return value.made_of
    if isinstance(value, date):
        return {"day": value.isoformat()}
    return value if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _made(text: str, made_of: dict[str, Any]) -> Sentence:
    result = Sentence(text)
    result.made_of = made_of
    return result
