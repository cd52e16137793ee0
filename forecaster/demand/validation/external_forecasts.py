"""Read the forecasts of another system for comparison; unreadable rows become findings.

Each nightly run reads the whole source; nothing of it is stored except the accuracy of its
forecasts (`track_accuracy`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.near_words import did_you_mean
from forecaster.core.language.sentences import sentence
from forecaster.core.panel import Panel
from forecaster.demand import parsing, sources
from forecaster.demand.history import aliases
from forecaster.demand.validation import similar_ids
from forecaster.demand.validation.reference_tables import LEFT_OUT, RowFindings

FOREVER = 100_000  # days since 1970, later than any real day
UNDATED = 0  # day assumed for forecasts without one: before all others


@dataclass(frozen=True, eq=False)
class ExternalForecasts:
    """Forecasts in ascending order of `key`: depot and day of a panel, then the order in which they
    were made."""

    key: NDArray[np.int64]
    orders: NDArray[np.float64]
    history: int  # days of the panel

    def by(self, depot: NDArray[np.intp], day: NDArray[np.intp], morning: NDArray[np.int64]) -> NDArray[np.float64]:
        """Last forecast of each depot and day made by a morning (days since 1970); NaN if there is
        none."""
        if not len(self.key):
            return np.full(len(depot), np.nan)
        keys = _key(depot, day, morning, self.history)
        place = np.searchsorted(self.key, keys, side="right") - 1
        is_made = (place >= 0) & (self.key[place] // FOREVER == keys // FOREVER)
        return np.where(is_made, self.orders[place], np.nan)


def external_forecasts(
    spec: Spec, panel: Panel, former: pd.DataFrame, findings: list[Finding]
) -> ExternalForecasts | None:
    """Forecasts of the declared system for the panel's days; None if none is declared. `former` are
    resolved aliases.

    Raises SourceError and its subclasses, as `sources.read` does.
    """
    if spec.legacy is None:
        return None
    source, columns = spec.legacy.source, spec.legacy.columns
    rows = sources.read(source, spec, columns.required)
    depot_id = aliases.current(parsing.words(rows[columns.depot_id]), former)
    notation = parsing.Notation.of(source)
    row_findings = RowFindings(spec, findings)
    date, orders = row_findings.days(rows, columns.date, notation), parsing.numbers(rows[columns.forecast], notation)
    made_on = parsing.days(rows[columns.made_on], spec.zone, notation) if columns.made_on else None
    is_whole = rows[sources.FAULT] == ""
    row_findings("row_form", rows[~is_whole], columns.depot_id, N_("as many fields as the header"), LEFT_OUT)
    is_valid = is_whole
    dated = sentence(N_("a date such as {day}"), day=notation.day)
    # each row is reported once, for its first fault
    for column, fits, form in (
        (columns.date, date.notna(), dated),
        (columns.forecast, np.isfinite(orders) & (orders >= 0), N_("a number of 0 or more")),
        (
            columns.made_on,
            pd.Series(True, rows.index) if made_on is None else made_on.notna(),
            dated,
        ),
    ):
        row_findings("legacy_form", rows[is_valid & ~fits], column or "", form, LEFT_OUT)
        is_valid = is_valid & fits
    row = depot_id.map({depot: number for number, depot in enumerate(panel.depot_ids)}).fillna(-1).astype(np.int64)
    unmatched = is_valid & (row < 0)
    similar_id = similar_ids.same(str(depot_id[unmatched].iloc[0]), panel.depot_ids) if unmatched.any() else None
    then = sentence(N_("the row is left out{hint}"), hint=did_you_mean(similar_id))
    row_findings("legacy_depot", rows[unmatched], columns.depot_id, N_("a depot that counts"), then)
    day = parsing.day_numbers(date.to_numpy()) - panel.days[0].astype("datetime64[D]").astype(np.int64)
    usable = (is_valid & (row >= 0)).to_numpy() & (day >= 0) & (day < panel.history)
    on = np.full(len(rows), UNDATED) if made_on is None else parsing.day_numbers(made_on.to_numpy())
    key = _key(row.to_numpy()[usable], day[usable], on[usable], panel.history)
    order = np.argsort(key, kind="stable")  # for the same day, the later row counts
    return ExternalForecasts(key[order], orders.to_numpy()[usable][order], panel.history)


def _key(
    depot: NDArray[np.int64], day: NDArray[np.int64], made_on: NDArray[np.int64], history: int
) -> NDArray[np.int64]:
    return (depot * history + day) * FOREVER + np.clip(made_on, UNDATED, FOREVER - 1)
