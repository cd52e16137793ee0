"""Remove marks next to numbers, such as $ or kg, and move trailing signs to the front."""

from __future__ import annotations

from typing import Any

Column = Any  # a pandas Series
_CURRENCIES = r"(?:[A-Z]{1,3})?[$€£¥₹₽₺₩₪฿₫]|EUR|USD|GBP|CHF|PLN|CZK|SEK|NOK|DKK|JPY|CNY|INR|BRL|Rs\.?|Fr\.|kr\.?"
# letters that change the number or make it a time of day are no marks; neither is %, nor the single
# letter of an id
_TIMES_AS_MUCH = r"(?:k|m|mn|mio|mrd|mln|bn|t|th|tsd|tys|st|nd|rd|am|pm|uhr|h|x|dz|dtz|doz|dozen)\.?$"
_UNITS = rf"{_CURRENCIES}|(?!(?i:{_TIMES_AS_MUCH}))[^\W\d_]{{2,}}\.?|°[CF]"
_MARKED = (
    rf"^([+-]?)({_CURRENCIES})?\s?([+-]?)([.,]?[0-9](?:[0-9.,'\u2019\s]*[0-9])?)"
    rf"\s?((?:{_UNITS})|(?<=\s)(?!(?i:{_TIMES_AS_MUCH}))[^\W\d_])?$"
)
_BETWEEN = "\0"  # separates the marks of both sides
MARKS_SHARE = 0.9  # share of a column's distinct numbers that must have the same mark


def without_marks(text: Column, *, alone: bool) -> Column:
    """Numbers with the sign in front and, if they are the whole column (`alone`), without the mark
    that nearly all of them have."""
    signed = text.str.replace("\u2212", "-").str.replace(r"^'(?=[+(-]?[0-9])", "", regex=True)
    signed = signed.str.replace(r"^\((.*[0-9].*)\)$|^(.*[0-9].*)-$", r"-\1\2", regex=True)
    if not alone:
        return signed
    parts = signed.str.extract(_MARKED).fillna("")
    marks = parts[1] + _BETWEEN + parts[4]
    numeric = marks[parts[3] != ""]
    counts = numeric[numeric != _BETWEEN].value_counts()
    if counts.empty or counts.iloc[0] < MARKS_SHARE * len(numeric):
        return signed
    # a number without the mark may have another unit
    return (parts[0] + parts[2] + parts[3]).where(marks == counts.index[0], signed.where(parts[3] == "", "?"))
