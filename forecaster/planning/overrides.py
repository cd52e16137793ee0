"""Judgmental overrides: a planner's numbers for days, and which of them are in force; `apply`
applies them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from zoneinfo import ZoneInfo

from forecaster.core.language import _
from forecaster.errors import OverrideError
from forecaster.ledger.publication import Publication, PublishedOverride
from forecaster.ledger.records import Head

MAX_ORDERS = 10_000_000  # exact in float32
MAX_LETTERS = 500  # maximum number of characters of a note
LARGEST_ID = 2**31 - 1
_SHOWN = 80  # characters of user input repeated in a message
# characters that no table or page can hold
_NO_LETTERS = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")

Cell = tuple[str, date]  # a depot and a day


@dataclass(frozen=True)
class Override:
    """A stored planner's number for a depot's day; `withdrawn` is the instant of its withdrawal, if
    any."""

    id: int
    at: datetime
    pipeline: str
    depot_id: str
    target_date: date
    orders: int
    reason: str
    note: str
    by: str
    until: date
    withdrawn: datetime | None = None

    def holds(self, day: date) -> bool:
        """Return true if it is in force for a publication as of a local day."""
        return self.withdrawn is None and day <= self.until

    def to_published(self, quantiles: Sequence[float]) -> PublishedOverride:
        """Published form, next to the model's quantiles."""
        return PublishedOverride(
            self.id, self.orders, tuple(quantiles), self.reason, self.note, self.by, self.at, self.until
        )


@dataclass(frozen=True)
class ProposedOverride:
    """A number that a planner requests; invalid values are rejected on construction."""

    depot_id: str
    target_date: date
    orders: int
    reason: str
    by: str
    note: str = ""
    until: date | None = None  # None: up to the day itself

    def __post_init__(self) -> None:
        if not 0 <= self.orders <= MAX_ORDERS:
            orders = self.orders if abs(self.orders) < 10**_SHOWN else "a number of many digits"
            raise OverrideError(
                _(
                    "orders: found {orders}, wanted a whole number from 0 to {max_orders}",
                    orders=orders,
                    max_orders=f"{MAX_ORDERS:,}",
                )
            )
        check_words(self.by, self.note)

    @property
    def last(self) -> date:
        """The last local day for whose publications it is in force."""
        return self.until or self.target_date

    def check(self, reasons: Sequence[str], as_of: date) -> None:
        """Raises OverrideError for an undeclared reason, and for days that are over."""
        if self.reason not in reasons:
            raise OverrideError(
                _(
                    "reason: found {reason}, wanted one of {reasons}",
                    reason=shown(self.reason),
                    reasons=", ".join(reasons),
                )
            )
        if self.target_date < as_of:
            raise OverrideError(
                _(
                    "date: found {target_date}, which is over; wanted {as_of} or a later day",
                    target_date=self.target_date,
                    as_of=as_of,
                )
            )
        if self.last < as_of:
            raise OverrideError(
                _("until: found {last}, which is over; wanted {as_of} or a later day", last=self.last, as_of=as_of)
            )


def check_words(by: str, note: str) -> None:
    """Raises OverrideError for an author or note that is missing, too long or contains control
    characters."""
    if not by.strip():
        raise OverrideError(_("by: found nothing, wanted the name of the person who decides"))
    if len(note) > MAX_LETTERS or len(by) > MAX_LETTERS:
        raise OverrideError(
            _("note: found more than {max_letters} letters, wanted a sentence or two", max_letters=MAX_LETTERS)
        )
    for name, text in (("by", by), ("note", note)):
        if not is_text(text):
            raise OverrideError(_("{name}: found {text}, wanted letters", name=name, text=shown(text)))


def is_text(text: str) -> bool:
    """Return true if there are only letters, blanks and line ends, which every table and page can
    hold."""
    return _NO_LETTERS.search(text) is None


def shown(text: object) -> str:
    """Return user input in quotes, shortened for a message."""
    literal = repr(text)
    return literal if len(literal) <= _SHOWN else literal[: _SHOWN - 1] + "…"


def active_overrides(overrides: Iterable[Override], day: date) -> dict[Cell, Override]:
    """Overrides in force for a publication as of a local day: the newest of each depot and day.

    If that one has expired or was withdrawn there is none; an older one never comes back.
    """
    newest: dict[Cell, Override] = {}
    for override in _by_id(overrides):
        newest[override.depot_id, override.target_date] = override
    return {cell: override for cell, override in newest.items() if override.holds(day)}


def find_superseded(overrides: Iterable[Override]) -> dict[int, int]:
    """Id of each override permanently replaced by a newer one of the same day → id of the newest."""
    ordered = _by_id(overrides)
    newest = {(override.depot_id, override.target_date): override.id for override in ordered}
    replacements = {override.id: newest[override.depot_id, override.target_date] for override in ordered}
    return {number: newer for number, newer in replacements.items() if newer != number}


def _by_id(overrides: Iterable[Override]) -> list[Override]:
    """Overrides, oldest first."""
    return sorted(overrides, key=lambda override: override.id)


def as_of_day(publication: Publication | Head) -> date:
    """Local day as of which a publication was made."""
    return publication.as_of.astimezone(ZoneInfo(publication.timezone)).date()
