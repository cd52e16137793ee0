"""The page of all overrides, what those of past days were worth, and what the API says of one that is saved."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import date

from dashboards.ops.formatting import display
from dashboards.ops.formatting.csv import CsvSheet
from forecaster.planning.overrides import Override, find_superseded
from forecaster.planning.value_added import Account, Added


@dataclass(frozen=True)
class OverrideRow:
    """An override, as the list of all shows it."""

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
    entries: tuple[OverrideRow, ...]  # the newest first
    everyone: Worth | None
    reasons: tuple[Worth, ...]
    planners: tuple[Worth, ...]
    unnamed: str


def book(overrides: tuple[Override, ...], account: Account, as_of: date, most: int = 200) -> OverrideBook:
    """The newest overrides, and what those of past days were worth."""
    unnamed = ""
    if account.unnamed:
        fewer = f"fewer than {display.count(account.min_days, 'day')}"
        unnamed = f"{display.count(account.unnamed, 'planner')} with {fewer} not named."
    newer = find_superseded(overrides)
    return OverrideBook(
        tuple(_override_row(override, as_of, newer.get(override.id)) for override in reversed(overrides[-most:])),
        _worth(account.everyone) if account.everyone.days else None,
        tuple(map(_worth, account.reasons)),
        tuple(map(_worth, account.planners)),
        unnamed,
    )


def _override_row(override: Override, as_of: date, newer: int | None) -> OverrideRow:
    over = override.target_date < as_of
    state = f"until {display.day(override.until)}"
    if override.withdrawn is not None:
        state = f"withdrawn on {display.day(override.withdrawn.date())}"
    elif over or not override.holds(as_of):
        state = "over"
    elif newer is not None:
        state = f"replaced by {newer}"
    return OverrideRow(
        override.id,
        override.depot_id,
        display.day(override.target_date),
        f"{override.orders:,}",
        f"{override.reason}: {override.note}" if override.note else override.reason,
        override.by,
        state,
        override.withdrawn is None and newer is None and not over,
    )


def _worth(added: Added) -> Worth:
    saved = "–" if added.per_hundred != added.per_hundred else f"{added.per_hundred:+.1f}".replace("-", "−")
    return Worth(added.of, f"{added.days:,}", f"{added.helped:,}", saved)


def worth_sheet(account: Account) -> CsvSheet:
    """A row for all, for each reason, and for each planner who is told of."""
    names = tuple(field.name for field in fields(Added))
    parts = [("all", account.everyone), *(("reason", reason) for reason in account.reasons)]
    parts += [("planner", planner) for planner in account.planners]
    rows = [(part, *(getattr(added, name) for name in names)) for part, added in parts]
    return CsvSheet(("part", *names), rows)


@dataclass(frozen=True)
class SavedOut:
    """What was written down; `said` is a sentence about it and about what the page shows."""

    override: Override
    said: str


@dataclass(frozen=True)
class GroupOut:
    """What was written down of a group; `closed` are days of the wish that are closed and stay so."""

    overrides: list[Override]
    closed: int
    said: str


@dataclass(frozen=True)
class OverridesOut:
    overrides: list[Override]
