"""Whole numbers in the headers of a request, which strangers write: digits alone, within bounds."""

from __future__ import annotations


def whole_number(text: str, least: int, most: int) -> int | None:
    """The number that decimal digits say; None where it is none, or not from `least` to `most`."""
    if not (text.isascii() and text.isdecimal()):
        return None
    digits = text.lstrip("0") or "0"  # of which Python reads so many and no more
    number = int(digits) if len(digits) <= len(str(most)) else most + 1
    return number if least <= number <= most else None
