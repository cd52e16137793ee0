"""Text for people: numbers with their nouns, and untrusted text with its control characters escaped
for a terminal (ANSI injection)."""

from __future__ import annotations


def count(number: float, noun: str, plural: str = "") -> str:
    """Return a number with its noun: "1 depot", "1,115 depots"; `plural` if it is not formed with
    an s, such as "cities"."""
    digits = f"{number:,}"
    return f"{digits} {noun if digits == '1' else plural or noun + 's'}"


def escaped(text: str) -> str:
    r"""Return one line for a terminal: non-printable characters, such as `\x1b`, `\n` or a mark
    that changes the writing direction, are escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def escaped_lines(text: str) -> str:
    """Escape a text of several lines for a terminal."""
    return "\n".join(map(escaped, text.split("\n")))
