"""Published schedules in words: the state of each week, and each later change with its premium."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from zoneinfo import ZoneInfo

from dashboards.ops.formatting import display
from dashboards.ops.reading.editions import Edition
from dashboards.ops.reading.header import cell_href
from forecaster.config import Spec
from forecaster.core.language import _, ngettext
from forecaster.planning import schedules
from forecaster.planning.schedules import ScheduleChange, WeekState

MOST_CHANGES = 100  # on the page


@dataclass(frozen=True)
class WeekRow:
    """A week of the publication."""

    monday: str
    name: str
    state: str  # in words
    has_drafts: bool  # True if some days were not announced


@dataclass(frozen=True)
class ChangeRow:
    """A change of a published day, in words."""

    href: str
    name: str
    text: str


@dataclass(frozen=True)
class SchedulePage:
    """Weeks of the publication, and changes since they were published, newest first."""

    weeks: tuple[WeekRow, ...]
    changes: tuple[ChangeRow, ...]
    more: int  # changes not shown on the page


@dataclass(frozen=True)
class ScheduleOut:
    """Published schedule of the days ahead: the state of each week, and each publication and change
    of a depot's day, oldest first; money is in the unit of the declared costs."""

    weeks: list[WeekState]
    changes: list[ScheduleChange]


def schedule_out(edition: Edition) -> ScheduleOut:
    """Return the schedule of the depots and days that a reader sees."""
    cells = {(depot.depot_id, day.target_date) for depot in edition.outline() for day in depot.days}
    first = min((day for _depot, day in cells), default=edition.head.cutoff)
    with edition.ledger.transaction() as connection:
        changes = schedules.read_changes(connection, edition.head.pipeline, first)
    visible = [change for change in changes if (change.depot_id, change.target_date) in cells]
    return ScheduleOut(schedules.week_states(visible, cells), visible)


def schedule_page(edition: Edition, spec: Spec) -> SchedulePage:
    """Return the content of the page."""
    content = schedule_out(edition)
    zone, currency = ZoneInfo(edition.head.timezone), spec.staffing.currency if spec.staffing else None
    since = [change for change in reversed(content.changes) if change.premium is not None]
    return SchedulePage(
        tuple(_week(week, edition, zone, currency) for week in content.weeks),
        tuple(_change(change, zone, currency) for change in since[:MOST_CHANGES]),
        max(len(since) - MOST_CHANGES, 0),
    )


def schedule_lines(edition: Edition, spec: Spec) -> tuple[str, ...]:
    """Return one line per week of the publication, with its state."""
    rows = schedule_page(edition, spec).weeks
    return tuple(_("{week}: {state}", week=row.name, state=row.state) for row in rows)


def _week(week: WeekState, edition: Edition, zone: ZoneInfo, currency: str | None) -> WeekRow:
    target_dates = edition.front.target_dates
    days: Sequence[date] = [day for day in target_dates if week.monday <= day < week.monday + timedelta(days=7)]
    return WeekRow(week.monday.isoformat(), display.days(days), _state(week, zone, currency), week.drafts > 0)


def _state(week: WeekState, zone: ZoneInfo, currency: str | None) -> str:
    if week.at is None:
        return _("draft")
    published = _(
        "published {instant} by {name}, to {depots}",
        instant=display.instant(week.at, zone),
        name=display.listed(week.by),
        depots=display.depots(week.depots),
    )
    drafts = _("still a draft: {days}", days=display.depot_days(week.drafts)) if week.drafts else ""
    changed = ngettext(
        "{n} change since, premium {amount}",
        "{n} changes since, premiums {amount}",
        week.changes,
        n=display.number(week.changes),
        amount=display.money(week.premium, currency, 2),
    )
    return display.clauses(published, changed if week.state == "changed" else "", drafts)


def _change(change: ScheduleChange, zone: ZoneInfo, currency: str | None) -> ChangeRow:
    parts = [_moved(change, name) for name in change.crews if change.crews[name] != change.before.get(name, 0)]
    text = _(
        "{change}: saves {saving}, premium {premium}; {instant}, {who}",
        change=display.listed(parts) or _("other people in the same crew"),
        saving=display.money(change.saving or 0.0, currency),
        premium=display.money(change.premium or 0.0, currency, 2),
        instant=display.instant(change.at, zone),
        who=change.by,
    )
    name = _("{depot}, {day}", depot=change.depot_id, day=display.day(change.target_date))
    return ChangeRow(cell_href(change.depot_id, change.target_date), name, text)


def _moved(change: ScheduleChange, shift: str) -> str:
    before, after = change.before.get(shift, 0), change.crews[shift]
    moved = ngettext("from {before} to {n} driver", "from {before} to {n} drivers", after, before=before, n=after)
    return _("{shift} {change}", shift=shift, change=moved) if shift else moved
