"""Terminal escaping: what others wrote is shown with its control characters in plain letters (ANSI injection)."""

from __future__ import annotations


def escaped(text: str) -> str:
    r"""One line for a terminal: whatever is not to be seen, such as `\x1b`, `\n` or a sign that turns the direction of
    writing, stands as Python writes it."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def escaped_lines(text: str) -> str:
    """A text of several lines for a terminal."""
    return "\n".join(map(escaped, text.split("\n")))
