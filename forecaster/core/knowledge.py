"""Point-in-time knowledge: the demand history, depots and events as known at one instant, and
findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from forecaster.core.language.sentences import unpacked


@dataclass(frozen=True)
class Finding:
    """Data quality finding about the input of a night; data, not a log line."""

    rule: str
    severity: str  # "quarantine", "warn" or "stop"
    count: int
    message: str  # names file, row, depot, what was found and what was wanted
    # depot and ISO date of the first affected days, if it is about days
    places: tuple[tuple[str, str], ...] = ()


def finding_of_row(row: Mapping[str, Any]) -> Finding:
    """Return the finding of a run's row in the ledger."""
    return Finding(**{**unpacked(row), "places": tuple((depot, day) for depot, day in row.get("places", ()))})


@dataclass(frozen=True)
class Knowledge:
    """Point-in-time view of the lake: its content at one instant, the input of the panel."""

    as_of: datetime
    # DataFrame depot_id, date, demand, open?, covariates…: one row per depot and day, the latest
    # known
    demand: Any
    depots: Any  # DataFrame depot_id, static attributes…, opened, closed, timezone?
    events: Any  # DataFrame date, kind, name, depot_id?, city?, subdivision?, country?
    versions: Mapping[str, int]  # lake table → Delta version read
    quarantined: Any = (
        # DataFrame depot_id, date, is_word of quarantined readings: a row arrived, but its count is
        # unknown or a word
        None
    )
    # DataFrame depot_id, day (since 1970) and orders, an array of the 48 half hours of its day;
    # used to estimate the rest of a day that sold out
    half_hours: Any = None
    # end of the history, even without a known count of that day; None = the last counted day
    cutoff: date | None = None
    # sentences about inputs that could not be read and are not needed to forecast
    lacking: tuple[str, ...] = ()
