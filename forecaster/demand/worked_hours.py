"""Read the hours worked from a time clock, to compare with rosters; unreadable rows become
findings.

Each nightly run reads the whole source; nothing of it is stored except the cost of those crews
(`track_value`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import Spec
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand import parsing, sources
from forecaster.demand.history import aliases
from forecaster.demand.validation.reference_tables import LEFT_OUT, RowFindings

MOST_HOURS = 1_000_000  # per row
KEY = ["date", "depot_id", "shift"]


@dataclass(frozen=True)
class WorkedHours:
    """Sums of hours by day: rows of depot_id, shift ("" without shifts) and hours, in this order."""

    days: Mapping[date, pd.DataFrame]

    def crews(
        self, day: date, depot_ids: Sequence[str], shifts: Sequence[str], hours: Doubles
    ) -> tuple[Ints, Bools] | None:
        """Drivers (shifts, depots, 1) who worked on a day, and the depots with known hours,
        (depots,); None if there are none. `hours` is the length of each shift, (shifts,); `shifts`
        is empty if a day has only one."""
        if day not in self.days:
            return None
        rows, hours_worked = self.days[day], np.zeros((len(hours), len(depot_ids)))
        depot = pd.Index(depot_ids).get_indexer(pd.Index(rows["depot_id"]))
        shift = pd.Index(shifts).get_indexer(pd.Index(rows["shift"])) if shifts else np.zeros(len(rows), int)
        hours_worked[shift[depot >= 0], depot[depot >= 0]] = rows["hours"].to_numpy()[depot >= 0]
        is_known = np.zeros(len(depot_ids), bool)
        is_known[depot[depot >= 0]] = True
        return np.floor(hours_worked / hours[:, None] + 0.5).astype(np.int32)[:, :, None], is_known

    def digest(self, day: date) -> str:
        """Digest of a day's hours; empty where none are known."""
        if day not in self.days:
            return ""
        return sha256(self.days[day].to_csv(index=False).encode()).hexdigest()[:16]


def worked_hours(
    spec: Spec, depot_ids: Sequence[str], former: pd.DataFrame, findings: list[Finding]
) -> WorkedHours | None:
    """Hours worked at these depots; None if no table is declared. `former` are resolved aliases.
    Raises SourceError and its subclasses, as `sources.read` does."""
    if spec.staffing is None or spec.staffing.worked_hours is None:
        return None
    source, columns = spec.staffing.worked_hours.source, spec.staffing.worked_hours.columns
    rows, notation = sources.read(source, spec, columns.required), parsing.Notation.of(source)
    row_findings, names = RowFindings(spec, findings), [shift.name for shift in spec.staffing.shifts]
    table = pd.DataFrame(
        {
            "date": row_findings.days(rows, columns.date, notation),
            "depot_id": aliases.current(parsing.words(rows[columns.depot_id]), former),
            "shift": parsing.words(rows[columns.shift]).str.strip() if columns.shift else "",
            "hours": parsing.numbers(rows[columns.hours], notation),
        },
        rows.index,
    )
    is_valid = rows[sources.FAULT] == ""
    row_findings("worked_form", rows[~is_valid], columns.depot_id, N_("as many fields as the header"), LEFT_OUT)
    of_shifts = sentence(N_("a shift of staffing.shifts: {names}"), names=", ".join(names))
    # each row is reported once, for its first fault
    for column, fits, requirement in (
        (columns.date, table["date"].notna(), sentence(N_("a date such as {day}"), day=notation.day)),
        (columns.depot_id, table["depot_id"].isin(depot_ids), N_("a depot that counts")),
        (columns.shift, table["shift"].isin(names) | (columns.shift is None), of_shifts),
        (columns.hours, table["hours"].between(0, MOST_HOURS), N_("a number from 0 to 1,000,000")),
    ):
        row_findings("worked_form", rows[is_valid & ~fits], column or "", requirement, LEFT_OUT)
        is_valid &= fits
    by_day: Any = table[is_valid].groupby(KEY, as_index=False)["hours"].sum().groupby("date")
    return WorkedHours({day.date(): of_day.drop(columns="date") for day, of_day in by_day})
