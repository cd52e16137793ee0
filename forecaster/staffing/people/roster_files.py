"""Plans of the week in formats of planners' tools: CSV, an Excel workbook (XLSX), and a calendar
(iCalendar, RFC 5545).

Calendars hold instants in UTC, which are unambiguous without time zone rules, even when clocks
change during a shift. An event is identified by depot, person and day, so that importing a calendar
again updates it: an event whose shift changed has the same UID and a higher SEQUENCE, and a dropped
one is included as cancelled.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from hashlib import sha256
from typing import Any, Literal
from zoneinfo import ZoneInfo

from forecaster.core.language import N_
from forecaster.core.language.near_words import did_you_mean, nearest_word
from forecaster.core.language.sentences import sentence
from forecaster.errors import MissingExtra, NoSuchRow
from forecaster.ledger.week_plan import EPOCH, Duty, Position, ShiftCover, WeekPlan
from forecaster.staffing.csv_sheet import CsvSheet, harmless

Form = Literal["xlsx", "ics", "csv"]
MEDIA_TYPES: Mapping[Form, str] = {
    "csv": "text/csv; charset=utf-8; header=present",
    "ics": "text/calendar; charset=utf-8",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
COLUMNS = ("depot", "city", "person", "contract", "date", "shift", "start", "end", "hours")
OPEN = "open"  # stands for a person: nobody is planned
WEEK, PUBLISHED = "Week", "Published"  # sheets of a workbook; the second is hidden
OFF, PLANNED_OF_WANTED = "off", ": planned of wanted"  # text of a day off; suffix of the label of a shift's row
# column widths, in characters
WIDTHS = {"depot": 18, "city": 18, "person": 18, "contract": 14, "start": 17, "end": 17}


@dataclass(frozen=True)
class DepotWeek:
    """Plan of a depot, its city, and the zone of its local days."""

    plan: WeekPlan
    city: str
    timezone: str


@dataclass(frozen=True)
class WeekFile:
    """Plans of some depots of a publication, to be written as files."""

    pipeline: str
    published_at: datetime
    weeks: tuple[DepotWeek, ...]

    def of_person(self, person: str) -> WeekFile:
        """Return only this person's shifts, without open ones; `person` is a name, or the key used
        in URLs. Raises NoSuchRow if nobody is planned under it."""

        def narrow(week: DepotWeek) -> DepotWeek:
            depot = week.plan.depot_id
            positions = tuple(who for who in week.plan.positions if person in (who.name, who.key(depot)))
            return replace(week, plan=replace(week.plan, positions=positions, shifts=()))

        weeks = tuple(map(narrow, self.weeks))
        if not any(week.plan.positions for week in weeks):
            names = sorted({who.name for week in self.weeks for who in week.plan.positions})
            near = did_you_mean(nearest_word(person, names))
            wanted = N_("person: found {person}, wanted one of those that are planned{near}")
            raise NoSuchRow(sentence(wanted, person=repr(person[:80]), near=near))
        return replace(self, weeks=weeks)

    def write(self, form: Form) -> bytes:
        """Return the file's content. Raises MissingExtra if the library for the format is not
        installed."""
        writers: dict[Form, Callable[[WeekFile], bytes]] = {"csv": _csv, "ics": _calendar, "xlsx": _workbook}
        return writers[form](self)


def shift_rows(weeks: Iterable[DepotWeek]) -> list[list[Any]]:
    """Rows of `COLUMNS`: one for each person's shift and each missing driver, by depot and time;
    local times with UTC offset."""
    rows = []
    for week in weeks:
        zone = ZoneInfo(week.timezone)
        planned: list[tuple[Duty | ShiftCover, str, str]] = [
            (duty, position.name, position.contract) for position in week.plan.positions for duty in position.duties
        ]
        missing: list[tuple[Duty | ShiftCover, str, str]] = [
            (cover, OPEN, "") for cover in week.plan.shifts for _ in range(cover.wanted - cover.planned)
        ]
        for duty, person, contract in sorted([*planned, *missing], key=lambda row: row[0].start):
            start, end = duty.start.astimezone(zone), duty.end.astimezone(zone)
            hours = (duty.end - duty.start).total_seconds() / 3600
            rows.append([week.plan.depot_id, week.city, person, contract, duty.date, duty.shift, start, end, hours])
    return rows


def _csv(file: WeekFile) -> bytes:
    return CsvSheet(COLUMNS, shift_rows(file.weeks)).csv()


def _calendar(file: WeekFile) -> bytes:
    try:
        from icalendar import Calendar, Event
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    calendar = Calendar()
    calendar.add("prodid", "-//forecaster//rosters//EN")
    calendar.add("version", "2.0")
    calendar.add("method", "PUBLISH")
    alone = [file.weeks[0].plan.depot_id] if len(file.weeks) == 1 else []
    calendar.add("x-wr-calname", " · ".join([file.pipeline, *alone]))
    for week in file.weeks:
        for position in week.plan.positions:
            for duty, status in _with_cancelled(position):
                event = Event()
                event.add("uid", _uid(file.pipeline, week.plan.depot_id, position.name, duty.date))
                event.add("dtstamp", file.published_at.astimezone(UTC).replace(microsecond=0))
                event.add("last-modified", duty.since.replace(microsecond=0))
                event.add("sequence", max(int((duty.since - EPOCH).total_seconds()), 0))
                event.add("status", status)
                event.add("summary", f"{duty.shift}: {position.name}, {week.plan.depot_id}")
                event.add("location", " · ".join(word for word in (week.plan.depot_id, week.city) if word))
                event.add("dtstart", duty.start)
                event.add("dtend", duty.end)
                calendar.add_component(event)
    content: bytes = calendar.to_ical()
    return content


def _with_cancelled(position: Position) -> list[tuple[Duty, str]]:
    events = [(duty, "CONFIRMED") for duty in position.duties] + [(duty, "CANCELLED") for duty in position.cancelled]
    return sorted(events, key=lambda event: event[0].start)


def _uid(pipeline: str, depot: str, person: str, day: date) -> str:
    key = "\0".join((pipeline, depot, person, day.isoformat()))
    return f"{sha256(key.encode()).hexdigest()[:32]}@forecaster"


def _workbook(file: WeekFile) -> bytes:
    """Make three sheets: the week with a column per day, its shifts as a list, and the open ones;
    and a hidden one with the week as published."""
    try:
        from xlsxwriter import Workbook
    except ModuleNotFoundError as error:
        raise _missing(error) from error
    out = io.BytesIO()
    with Workbook(out, {"in_memory": True}) as book:
        book.set_properties({"created": file.published_at.astimezone(UTC).replace(tzinfo=None)})
        formats = {
            "head": book.add_format({"bold": True, "bottom": 1}),
            "day": book.add_format({"num_format": "ddd d mmm", "bold": True, "bottom": 1, "align": "left"}),
            "date": book.add_format({"num_format": "yyyy-mm-dd", "align": "left"}),
            "time": book.add_format({"num_format": "yyyy-mm-dd hh:mm", "align": "left"}),
            "short": book.add_format({"bold": True, "font_color": "#9C0006", "bg_color": "#FFC7CE"}),
        }
        rows = shift_rows(file.weeks)
        _week_sheet(book.add_worksheet(WEEK), file.weeks, formats)
        _list_sheet(book.add_worksheet("Shifts"), [row for row in rows if row[2] != OPEN], formats)
        _list_sheet(book.add_worksheet("Open shifts"), [row for row in rows if row[2] == OPEN], formats)
        planned = book.add_worksheet(PUBLISHED)
        planned.hide()
        for line, row in enumerate(_planned_days(file.weeks)):
            for column, text in enumerate(row):
                planned.write_string(line, column, text)
    for page in book.worksheets():
        page.table.clear()  # breaks a reference cycle, which the page's process rarely collects
    return out.getvalue()


def _planned_days(weeks: Sequence[DepotWeek]) -> Iterator[tuple[str, str, str, str]]:
    """Depot, label, day (ISO) and text of each cell of the sheet of the week."""
    days = _days(weeks)
    for week in weeks:
        for label, cells in _week_lines(week.plan, days, None):
            for day, (text, _) in zip(days, cells, strict=True):
                yield harmless(week.plan.depot_id), harmless(label), day.isoformat(), harmless(text)


def _days(weeks: Iterable[DepotWeek]) -> list[date]:
    return sorted({day for week in weeks for day in plan_days(week.plan)})


def _shifts(position: Position, days: Sequence[date]) -> list[str]:
    """Text of each day of a person: the shift, "off" on a day off, otherwise empty."""
    shifts = dict.fromkeys(position.days_off, OFF) | {duty.date: duty.shift for duty in position.duties}
    return [shifts.get(day, "") for day in days]


def _week_sheet(page: Any, weeks: Sequence[DepotWeek], formats: Mapping[str, Any]) -> None:
    days = _days(weeks)
    for column, name in enumerate(("depot", "person")):
        page.write_string(0, column, name, formats["head"])
    for column, day in enumerate(days, 2):
        page.write_datetime(0, column, datetime.combine(day, datetime.min.time()), formats["day"])
    line = 1
    for week in weeks:
        for name, cells in _week_lines(week.plan, days, formats["short"]):
            _week_line(page, line, week, name, cells)
            line += 1
    page.set_column(0, 1, 26)
    page.set_column(2, 2 + len(days), 12)
    page.freeze_panes(1, 2)


def _week_lines(plan: WeekPlan, days: Sequence[date], short: Any) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
    """Rows of people, then of shifts: label, and text and format of each cell."""
    for position in plan.positions:
        yield position.name, [(shift, None) for shift in _shifts(position, days)]
    covers = {(cover.date, cover.shift): cover for cover in plan.shifts}
    for name in dict.fromkeys(cover.shift for cover in plan.shifts):
        yield f"{name}{PLANNED_OF_WANTED}", [_cover_cell(covers.get((day, name)), short) for day in days]


def _cover_cell(cover: ShiftCover | None, short: Any) -> tuple[str, Any]:
    if cover is None:
        return "closed", None
    return f"{cover.planned} of {cover.wanted}", short if cover.planned < cover.wanted else None


def _week_line(page: Any, line: int, week: DepotWeek, label: str, cells: Sequence[tuple[str, Any]]) -> None:
    page.write_string(line, 0, harmless(week.plan.depot_id))
    page.write_string(line, 1, harmless(label))
    for column, (text, form) in enumerate(cells, 2):
        page.write_string(line, column, harmless(text), form)


def _list_sheet(page: Any, rows: Sequence[Sequence[Any]], formats: Mapping[str, Any]) -> None:
    for column, name in enumerate(COLUMNS):
        page.write_string(0, column, name, formats["head"])
        page.set_column(column, column, WIDTHS.get(name, 11))
    for line, row in enumerate(rows, 1):
        for column, value in enumerate(row):
            if isinstance(value, datetime):
                page.write_datetime(line, column, value.replace(tzinfo=None), formats["time"])
            elif isinstance(value, date):
                page.write_datetime(line, column, datetime.combine(value, datetime.min.time()), formats["date"])
            elif isinstance(value, float):
                page.write_number(line, column, value)
            else:
                page.write_string(line, column, harmless(value))
    page.freeze_panes(1, 0)


def plan_days(plan: WeekPlan) -> list[date]:
    """Days of a plan on which somebody is wanted or planned."""
    return sorted({cover.date for cover in plan.shifts})


def _missing(error: ModuleNotFoundError) -> MissingExtra:
    return MissingExtra(f"{error}; this file needs: pip install 'harbor-forecaster[shifts]'")
