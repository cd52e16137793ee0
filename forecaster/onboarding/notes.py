"""Notes of a guessed pipeline file: what may be otherwise than it was taken, for the screen and the
file."""

from __future__ import annotations

from forecaster.onboarding import facts, sheets
from forecaster.onboarding.days.record_times import RecordedAt
from forecaster.onboarding.facts import DayParts, Facts
from forecaster.onboarding.layout import Readings
from forecaster.onboarding.tables import FileTable

_SHOWN = 5  # values that a note names


def of(table: FileTable, readings: Readings, seen: Facts, stamps: RecordedAt, day_parts: DayParts | None) -> list[str]:
    """Sentences on what was guessed and may be otherwise, and on what readers of the file would not
    see in its keys."""
    notes = [*sheets.notes(table, readings), *([stamps.note] if stamps.note else [])]
    if readings.rival_form:
        notes.append(
            f"days are read as '{readings.date_form}', and '{readings.rival_form}' would read them all as well"
        )
    if others := facts.other_days(table, readings):
        quoted = " and ".join(f"'{name}'" for name in others)
        notes.append(f"days are those of '{readings.date_column}'; {quoted} hold{'s' * (len(others) == 1)} days, too")
    if day_parts:
        shown = ", ".join(f"'{value}'" for value in day_parts.values[:_SHOWN])
        more = f" and {len(day_parts.values) - _SHOWN} more" if len(day_parts.values) > _SHOWN else ""
        notes.append(f"the rows of a depot and day are added up over '{day_parts.column}': {shown}{more}")
        if day_parts.total is not None:
            notes.append(
                f"'{day_parts.total}' in '{day_parts.column}' is the sum of the others, so that each day counts twice: "
                "leave its rows out of the file"
            )
    if readings.no_depots:
        reasons = (f"'{name}' ({reason})" for name, reason in readings.no_depots.items())
        notes.append(f"columns that are taken for no depot: {', '.join(reasons)}")
    if readings.doubtful:
        names = ", ".join(f"'{name}'" for name in readings.doubtful)
        notes.append(f"taken for depots, by their counts, whatever their names say: {names}")
    if readings.layout == "single":
        notes.append("one series without a column that names a depot: its depot is called as its column is")
    if seen.closed:
        notes.append(
            f"no depot has a reading on a {' or '.join(seen.closed)}: taken as closed; `demand.weekdays` says otherwise"
        )
    if seen.spacing > 1:
        notes.append(f"readings come every {seen.spacing} days: daily counts are wanted")
    return notes
