"""Query of the week board: the shown part of a publication, its order, and the counts to compare
with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any
from urllib.parse import urlencode

from forecaster.core.language import N_

SORTS: Mapping[str, str] = {
    "attention": N_("what needs attention first"),
    "depot": N_("by name"),
    "city": N_("by city"),
    "change": N_("largest change first"),
}
FILTERS: Mapping[str, str] = {
    "short": N_("likely short"),
    "overridden": N_("overridden"),
    "fallback": N_("without a model of their own"),
}
ACTUAL = "actual"
BESIDE: Mapping[str, str] = {
    "last-week": N_("Compared with the week before"),
    ACTUAL: N_("Compared with actuals"),
}
LONGEST = 200  # characters of a city or a search


@dataclass(frozen=True)
class BoardQuery:
    """Parameters of the board; unknown values mean the default.

    `sort` is a key of `SORTS`, or the ISO date of a shown day to sort by its orders; `only` is a
    key of `FILTERS`; `beside` is a key of `BESIDE`; `week` counts from 1; `as_of` is an ISO date.
    """

    sort: str = "attention"
    city: str = ""
    search: str = ""
    only: str = ""
    beside: str = ""
    week: int = 1
    page: int = 1
    as_of: str = ""
    level: str = "city"  # column of the depots source that groups the depots; `city` is one of its values

    @classmethod
    def of(cls, query: Mapping[str, str]) -> BoardQuery:
        sort, only, comparison = (query.get(name, "") for name in ("sort", "only", "beside"))
        return cls(
            sort if sort in SORTS or is_day(sort) else "attention",
            query.get("city", "")[:LONGEST],
            query.get("q", "").strip()[:LONGEST],
            only if only in FILTERS else "",
            comparison if comparison in BESIDE else "",
            _number(query.get("week", "")),
            _number(query.get("page", "")),
            query.get("as_of", "")[:64],
            query.get("by", "")[:LONGEST] or "city",
        )

    def to(self, **changes: Any) -> str:
        """Return the address with changed parameters; unless `page` is given, it leads to the first
        page."""
        parameters = {**USUAL, **{name: getattr(self, field) for name, field in FIELDS.items()}, "page": 1, **changes}
        query = urlencode({name: value for name, value in parameters.items() if value != USUAL[name]})
        return f"/?{query}" if query else "/"


FIELDS = {"sort": "sort", "city": "city", "q": "search", "only": "only", "beside": "beside", "week": "week"}
FIELDS |= {"page": "page", "as_of": "as_of", "by": "level"}
USUAL: Mapping[str, Any] = {name: getattr(BoardQuery(), field) for name, field in FIELDS.items()}


def is_day(word: str) -> bool:
    """True if a word is an ISO date, as in 2026-11-28."""
    try:
        return date.fromisoformat(word).isoformat() == word
    except ValueError:
        return False


def _number(word: str) -> int:
    return max(int(word), 1) if word.isascii() and word.isdigit() and len(word) < 6 else 1
