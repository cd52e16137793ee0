"""Text for people: numbers with their nouns, and what others wrote, which a terminal shows with its
control characters in plain letters (ANSI injection)."""

from __future__ import annotations


def count(number: float, noun: str, plural: str = "") -> str:
    """A number and what it counts: "1 depot", "1,115 depots"; `plural` where an s does not make it,
    as of "city"."""
    digits = f"{number:,}"
    return f"{digits} {noun if digits == '1' else plural or noun + 's'}"


def escaped(text: str) -> str:
    r"""One line for a terminal: whatever is not to be seen, such as `\x1b`, `\n` or a sign that
    turns the direction of writing, stands as Python writes it."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def escaped_lines(text: str) -> str:
    """A text of several lines for a terminal."""
    return "\n".join(map(escaped, text.split("\n")))
