"""Files of a week's plan, read back by independent libraries."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from icalendar import Calendar
from python_calamine import CalamineWorkbook

from forecaster.ledger.week_plan import WeekPlan
from forecaster.staffing.people.roster_files import COLUMNS, DepotWeek, WeekFile
from forecaster.staffing.people.week_planner import Staff
from tests.staffing.people.weeks import EARLY, NIGHT, NOW, days_from, plan_week, staff, wanted

SATURDAY = date(2026, 10, 31)  # the night to Sunday is an hour longer in New York
DAY = timedelta(days=1)
ZONE = "America/New_York"
FORMULA = "=HYPERLINK('x')"


def plan(depot: str = "NYC-01", *crew: Staff, before: WeekPlan | None = None, second: float = 20.0) -> WeekPlan:
    """Two days: early shifts of one and two drivers, and a night shift of one."""
    days = days_from(SATURDAY, 2)
    shifts = [
        wanted(EARLY, SATURDAY, 30, zone=ZONE),
        wanted(NIGHT, SATURDAY, 30, zone=ZONE),
        wanted(EARLY, SATURDAY + DAY, 30, second, zone=ZONE),
    ]
    at = NOW if before is None else NOW + DAY
    return plan_week(depot, days, shifts, crew or (staff(2),), at=at, before=before)


def file(*plans: WeekPlan) -> WeekFile:
    return WeekFile("harbor", NOW, tuple(DepotWeek(each_plan, "New York", ZONE) for each_plan in plans or (plan(),)))


def rows(content: bytes) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(content.decode())))


def events(content: bytes) -> dict[str, Any]:
    """Events of a calendar by their UID."""
    return {str(event["uid"]): event for event in Calendar.from_ical(content).walk("VEVENT")}


def test_csv_has_a_row_for_each_shift_of_a_person_and_each_open_one() -> None:
    table = rows(file().write("csv"))
    assert tuple(table[0]) == COLUMNS
    assert [(row["person"], row["shift"], row["start"], row["end"], row["hours"]) for row in table] == [
        ("full-time 1", "early", "2026-10-31T06:00:00-04:00", "2026-10-31T14:00:00-04:00", "8.0"),
        ("full-time 2", "night", "2026-10-31T22:00:00-04:00", "2026-11-01T06:00:00-05:00", "9.0"),
        ("full-time 1", "early", "2026-11-01T06:00:00-05:00", "2026-11-01T14:00:00-05:00", "8.0"),
        ("open", "early", "2026-11-01T06:00:00-05:00", "2026-11-01T14:00:00-05:00", "8.0"),
    ]


def test_workbook_has_the_week_its_shifts_and_open_shifts() -> None:
    book = CalamineWorkbook.from_filelike(io.BytesIO(file().write("xlsx")))
    assert book.sheet_names == ["Week", "Shifts", "Open shifts", "Published"]
    planned = book.get_sheet_by_name("Published").to_python()
    assert planned[3:5] == [
        ["NYC-01", "full-time 2", str(SATURDAY + DAY), ""],
        ["NYC-01", "early: planned of wanted", str(SATURDAY), "1 of 1"],
    ]
    week = book.get_sheet_by_name("Week").to_python()
    assert week[0] == ["depot", "person", SATURDAY, SATURDAY + DAY]
    assert week[1:] == [
        ["NYC-01", "full-time 1", "early", "early"],
        ["NYC-01", "full-time 2", "night", ""],
        ["NYC-01", "early: planned of wanted", "1 of 1", "1 of 2"],
        ["NYC-01", "night: planned of wanted", "1 of 1", "closed"],
    ]
    shifts = book.get_sheet_by_name("Shifts").to_python()
    assert shifts[2][4:] == [SATURDAY, "night", datetime(2026, 10, 31, 22), datetime(2026, 11, 1, 6), 9.0]
    assert [row[2] for row in book.get_sheet_by_name("Open shifts").to_python()] == ["person", "open"]


def test_calendar_uses_utc_even_when_clocks_go_back() -> None:
    calendar = Calendar.from_ical(file().write("ics"))
    assert (calendar["version"], calendar["method"]) == ("2.0", "PUBLISH")
    night = next(event for event in calendar.walk("VEVENT") if "night" in event["summary"])
    assert night.decoded("dtstart") == datetime(2026, 11, 1, 2, tzinfo=UTC)
    assert night.decoded("dtend") == datetime(2026, 11, 1, 11, tzinfo=UTC)
    assert night["summary"] == "night: full-time 2, NYC-01"
    assert b"DTSTART:20261101T020000Z" in file().write("ics")
    assert all(len(line) <= 75 for line in file().write("ics").split(b"\r\n"))


def test_importing_a_calendar_again_updates_its_events() -> None:
    """Sunday's second driver is dropped: unchanged shifts keep their events, and dropped ones are
    cancelled."""
    first = plan("NYC-01", staff(3))
    then = plan("NYC-01", staff(3), before=first, second=-5.0)
    shorter = replace(then, shifts=then.shifts)
    earlier, later = events(file(first).write("ics")), events(file(shorter).write("ics"))
    assert set(earlier) == set(later)
    again = events(file(plan("NYC-01", staff(3), before=first)).write("ics"))
    assert {uid: (event["sequence"], event["last-modified"].dt) for uid, event in again.items()} == {
        uid: (event["sequence"], event["last-modified"].dt) for uid, event in earlier.items()
    }
    other_night = plan_week(
        "NYC-01",
        days_from(SATURDAY, 2),
        [wanted(EARLY, SATURDAY, 30, zone=ZONE)],
        [staff(3)],
        at=NOW + DAY,
        before=first,
    )
    after = events(file(other_night).write("ics"))
    assert set(after) == set(earlier)
    cancelled = {uid for uid, event in after.items() if event["status"] == "CANCELLED"}
    assert len(cancelled) == len(earlier) - 1
    for uid in cancelled:
        assert int(after[uid]["sequence"]) > int(earlier[uid]["sequence"])
        assert after[uid]["last-modified"].dt == NOW + DAY


def test_events_differ_by_depot_person_and_day() -> None:
    both = events(file(plan("NYC-01"), plan("NYC-02")).write("ics"))
    assert len(both) == 6
    assert len(events(file(plan("NYC-01"), plan("NYC-02")).of_person("full-time 2").write("ics"))) == 2


def test_formula_like_names_are_text_in_every_format() -> None:
    odd = file(plan(FORMULA, staff(2, "@contract, with; commas")))
    assert {row["depot"] for row in rows(odd.write("csv"))} == {f"'{FORMULA}"}
    sheet = CalamineWorkbook.from_filelike(io.BytesIO(odd.write("xlsx"))).get_sheet_by_name("Week").to_python()
    assert {row[0] for row in sheet[1:]} == {f"'{FORMULA}"}
    assert sheet[1][1] == "'@contract, with; commas 1"
    [summary] = {str(event["summary"]) for event in events(odd.write("ics")).values() if "night" in event["summary"]}
    assert summary == f"night: @contract, with; commas 2, {FORMULA}"


@pytest.mark.parametrize("form", ["csv", "ics", "xlsx"])
def test_same_plan_gives_the_same_file(form: Any) -> None:
    assert file().write(form) == file().write(form)
