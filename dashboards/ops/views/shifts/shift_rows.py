"""API schema of the weekly plans: one row per shift of a person, and per open shift."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime

from dashboards.ops.reading.editions import Edition
from dashboards.ops.views.api_schema import AboutOut, about
from dashboards.ops.views.shifts.week import NoPlans, week_file
from forecaster.staffing.people.roster_files import COLUMNS, OPEN, shift_rows


@dataclass(frozen=True)
class PersonShiftRow:
    """A person's shift, or an open one (then `person` is null); times are local to the depot, with
    their offset."""

    depot: str
    city: str | None
    person: str | None
    contract: str | None
    date: date
    shift: str
    start: datetime
    end: datetime
    hours: float


@dataclass(frozen=True)
class PersonShiftsOut:
    about: AboutOut
    rows: list[PersonShiftRow]


def person_shifts(edition: Edition) -> PersonShiftsOut:
    """Return the rows of all depots that the reader sees; none if no people are planned."""
    try:
        weeks = week_file(edition).weeks
    except NoPlans:
        weeks = ()
    rows = []
    for values in shift_rows(weeks):
        row = dict(zip(COLUMNS, values, strict=True))
        person = None if row["person"] == OPEN else row["person"]
        replacements = {"person": person, "city": row["city"] or None, "contract": row["contract"] or None}
        rows.append(PersonShiftRow(**{**row, **replacements}))
    return PersonShiftsOut(about(edition.head, edition.front), rows)
