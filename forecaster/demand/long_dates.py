"""Normalize long dates such as Tuesday, 5th March 2024."""

from __future__ import annotations

import re
import unicodedata
from typing import Any

Column = Any  # a pandas Series
_MONTHS = {  # first letters of months in German, French, Spanish and Italian, without accents
    "January": "ja|ene|gen", "February": "fe", "March": "mar|maer|mrz", "April": "apr|avr|abr", "May": "mai|may|mag",
    "June": "juin|jun|giu", "July": "juil|jul|lug", "August": "aug|aou|ago", "September": "sep|set",
    "October": "oct|okt|ott", "November": "nov", "December": "dec|dez|dic",
}  # fmt: skip


def plain_dates(text: Column, form: str = "%B") -> Column:
    """Long dates such as Tuesday, 5th March 2024, without weekday and ordinal suffix and with
    English months, abbreviated if the format has %b."""
    if "%a" not in form.lower():
        text = text.str.replace(r"^[^\W\d_]+\.?,?\s+(?=[0-9]{1,2}\S*\s+[^\W\d_])", "", regex=True)
        text = text.str.replace(r"^[^\W\d_]+,\s+(?=[^\W\d_]+\.?\s+[0-9])", "", regex=True)
    text = text.str.replace(r"(?<=[0-9])(?:st|nd|rd|th|er|[º°ª])(?![^\W_])|(?<=\s)de\s+", "", regex=True)
    if not form.startswith("%d."):
        text = text.str.replace(r"^([0-9]{1,2})\.(?=\s)", r"\1", regex=True)
    names = {*_MONTHS} | {name[:3] for name in _MONTHS}

    def english(word: re.Match[str]) -> str:
        letters = unicodedata.normalize("NFKD", word[0].lower()).encode("ascii", "ignore").decode()
        fit = [name for name, starts in _MONTHS.items() if re.match(rf"(?:{starts})[a-z]*\.?$", letters)]
        if word[0].title() in names or not fit:
            return word[0]
        return fit[0][:3] if "%b" in form else fit[0]

    return text.str.replace(r"[^\W\d_]{3,}\.?", english, regex=True)
