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
    """Data quality finding: something the night noticed in its input; data, not a log line."""

    rule: str
    severity: str  # "quarantine", "warn" or "stop"
    count: int
    message: str  # names file, row, depot, what was found and what was wanted
    # depot and ISO date of the first it concerns, where it is about days
    places: tuple[tuple[str, str], ...] = ()


def finding_of_row(row: Mapping[str, Any]) -> Finding:
    """The finding as a run's row has it in the ledger."""
    return Finding(**{**unpacked(row), "places": tuple((depot, day) for depot, day in row.get("places", ()))})


@dataclass(frozen=True)
class Knowledge:
    """Point-in-time view of the lake: what it knew at one instant, which is the input of the
    panel."""

    as_of: datetime
    # DataFrame depot_id, date, demand, open?, covariates…: one row a depot and day, the latest
    # known
    demand: Any
    depots: Any  # DataFrame depot_id, static attributes…, opened, closed, timezone?
    events: Any  # DataFrame date, kind, name, depot_id?, city?, subdivision?, country?
    versions: Mapping[str, int]  # lake table → Delta version read
    quarantined: Any = (
        # DataFrame depot_id, date, is_word of readings in quarantine: a row came, and its count is
        # not known, or a word
        None
    )
    # DataFrame depot_id, day (since 1970) and orders, an array of the 48 half hours of its day, where
    # they tell what was still to come of a day that sold out
    half_hours: Any = None
    # where the history ends, though no count be known of that day; None = the last counted
    cutoff: date | None = None
    # what could not be read and is not needed to forecast, in sentences
    lacking: tuple[str, ...] = ()
