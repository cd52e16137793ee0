"""Parses an edited workbook of a depot's weekly plan: the shifts that a planner changed on its
sheet "Week".

A cell is changed if it differs from the exported value on the workbook's hidden sheet. A cell that
is not a shift, or not in the plan, is rejected with its position.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from datetime import date
from typing import Any

from dashboards.ops.formatting.csv import harmless
from dashboards.ops.views.board.board_upload import Rows, cell_fault, day_of, read_sheets, refuse
from forecaster.core.language import N_, _
from forecaster.errors import OverrideError
from forecaster.ledger.week_plan import WeekPlan
from forecaster.planning.people.shift_edits import ShiftEdit
from forecaster.staffing.people.roster_files import OFF, PUBLISHED, WEEK

NO_WEEK = N_("found no sheets “Week” and “Published”, wanted the Excel file of the depot’s week")
# text of a day of a depot's row, which is a person or the label of a shift
Planned = Mapping[tuple[str, str, date], str]


def changed_shifts(content: bytes, plan: WeekPlan, shifts: Collection[str]) -> list[ShiftEdit]:
    """Return the changed cells of a depot's week; an empty one is a free day.

    Raises OverrideError for a file without a weekly plan, for cells that are neither a shift nor a
    free day, and for changes of another depot. Raises MissingExtra.
    """
    sheets, faults = read_sheets(content, (WEEK, PUBLISHED)), list[str]()
    if not (sheets.get(WEEK) and all(len(row) == 4 for row in sheets.get(PUBLISHED) or [[]])):
        raise OverrideError(_(NO_WEEK))
    try:
        before = {(str(row[0]), str(row[1]), date.fromisoformat(row[2])): str(row[3]) for row in sheets[PUBLISHED]}
    except (ValueError, TypeError) as error:
        raise OverrideError(_(NO_WEEK)) from error
    names, edits = {harmless(who.name): who.name for who in plan.positions}, list[ShiftEdit]()
    shift_names = {shift.casefold(): shift for shift in (*shifts, OFF, "")}
    for line, column, key, cell in _changed(sheets[WEEK], before, faults):
        shift = shift_names.get(str(cell).strip().casefold())
        if (key[0], key[1]) not in {(harmless(plan.depot_id), name) for name in names}:
            expected = _("changes of people of {depot} alone", depot=plan.depot_id)
        elif shift is None:
            expected = _("one of {names}, or nothing", names=", ".join(shifts))
        else:
            edits.append(ShiftEdit(names[key[1]], key[2], "" if shift == OFF else shift))
            continue
        faults.append(cell_fault(WEEK, line, column, cell, expected))
    refuse(faults)
    return edits


def _changed(rows: Rows, before: Planned, faults: list[str]) -> Iterator[tuple[int, int, tuple[str, str, date], Any]]:
    """Yield line, column, row's day and text of each changed cell; unknown rows and days, and cells
    of columns without a day, are faults."""
    labels, days = {key[:2] for key in before}, {key[2] for key in before}
    columns = dict[int, date]()
    for column, cell in enumerate(rows[0][2:], 2):
        if (day := day_of(cell)) in days - {*columns.values()}:
            columns[column] = day
        elif cell != "":
            faults.append(cell_fault(WEEK, 0, column, cell, _("a day of the plan, once")))
    for line, row in enumerate(rows[1:], 1):
        who = str(row[0]), str(row[1])
        faults.extend(
            cell_fault(WEEK, line, column, cell, _("nothing, as the column has no day"))
            for column, cell in enumerate(row[2:], 2)
            if cell != "" and rows[0][column] == ""
        )
        if who in labels:
            labels.remove(who)
            for column, day in columns.items():
                if str(row[column]).strip() != before.get((*who, day), ""):
                    yield line, column, (*who, day), row[column]
        elif any(cell != "" for cell in row):
            faults.append(cell_fault(WEEK, line, 1, row[1], _("a person of the plan, once")))
