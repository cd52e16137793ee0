"""The page of all overrides, the value of past ones, and the API's answer to a saved one."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.formatting.csv import CsvSheet
from dashboards.ops.views.planning.override_text import reason_text, why_text
from forecaster.core.language import _, ngettext
from forecaster.ledger.records import Head
from forecaster.planning.overrides import Override, as_of_day, find_superseded
from forecaster.planning.value_added import Account, Added


@dataclass(frozen=True)
class OverrideRow:
    """An override, as the list shows it."""

    number: int
    depot_id: str
    day: str
    orders: str
    why: str
    by: str
    state: str
    withdrawable: bool


@dataclass(frozen=True)
class Worth:
    of: str
    days: str
    helped: str
    saved: str


@dataclass(frozen=True)
class OverrideBook:
    entries: tuple[OverrideRow, ...]  # newest first
    more: str  # total number, if not all are listed; else empty
    everyone: Worth | None
    reasons: tuple[Worth, ...]
    planners: tuple[Worth, ...]
    unnamed: str


def book(overrides: tuple[Override, ...], account: Account, head: Head, most: int = 200) -> OverrideBook:
    """Return the newest overrides, and the value of those for past days, in the time zone of the
    publication."""
    as_of, zone = as_of_day(head), ZoneInfo(head.timezone)
    unnamed = ""
    if account.unnamed:
        fewer = ngettext(
            "fewer than {n} day", "fewer than {n} days", account.min_days, n=display.number(account.min_days)
        )
        unnamed = ngettext(
            "{n} planner with {fewer_days} not named.",
            "{n} planners with {fewer_days} not named.",
            account.unnamed,
            n=display.number(account.unnamed),
            fewer_days=fewer,
        )
    newer = find_superseded(overrides)
    return OverrideBook(
        tuple(_override_row(override, as_of, zone, newer.get(override.id)) for override in reversed(overrides[-most:])),
        _("The {n} newest are listed; the API has all {total}.", n=display.number(most), total=display.number(total))
        if (total := len(overrides)) > most
        else "",
        _worth(account.everyone) if account.everyone.days else None,
        tuple(map(_worth, account.reasons)),
        tuple(map(_worth, account.planners)),
        unnamed,
    )


def _override_row(override: Override, as_of: date, zone: ZoneInfo, newer: int | None) -> OverrideRow:
    over = override.target_date < as_of
    state = _("until {day}", day=display.day(override.until))
    if override.withdrawn is not None:
        state = _("withdrawn on {day}", day=display.day(override.withdrawn.astimezone(zone).date()))
    elif over or not override.holds(as_of):
        state = _("over")
    elif newer is not None:
        state = _("replaced by {number}", number=newer)
    return OverrideRow(
        override.id,
        override.depot_id,
        display.day(override.target_date),
        display.orders(override.orders),
        why_text(override.reason, override.note),
        override.by,
        state,
        override.withdrawn is None and newer is None and not over,
    )


def _worth(added: Added) -> Worth:
    rate = added.per_hundred
    saved = "–" if rate != rate else display.with_sign(-1 if rate < 0 else 1, display.number(abs(rate), 1))
    return Worth(_of(added.of), display.number(added.days), display.number(added.helped), saved)


def _of(whose: str) -> str:
    return _("all") if whose == "all" else reason_text(whose)


def worth_sheet(account: Account) -> CsvSheet:
    """Return one row for all, one per reason, and one per named planner."""
    names = tuple(field.name for field in fields(Added))
    parts = [("all", account.everyone), *(("reason", reason) for reason in account.reasons)]
    parts += [("planner", planner) for planner in account.planners]
    rows = [(part, *(getattr(added, name) for name in names)) for part, added in parts]
    return CsvSheet(("part", *names), rows)


@dataclass(frozen=True)
class SavedOut:
    """Stored override; `said` is a sentence about it and its effect on the page."""

    override: Override
    said: str


@dataclass(frozen=True)
class GroupOut:
    """Stored overrides of a group; `closed` is the number of requested days that are closed and
    stay so."""

    overrides: list[Override]
    closed: int
    said: str


@dataclass(frozen=True)
class OverridesOut:
    overrides: list[Override]
