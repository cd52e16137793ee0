"""Scope of events: the depots that match every given part of an event's address."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from forecaster.config import Spec
from forecaster.core.arrays import Ints

ADDRESS = ("depot_id", "city", "subdivision", "country")
"""Parts of an event's address; empty parts match every depot."""


@dataclass(frozen=True)
class EventScope:
    """Locations of depots, to match the addresses of events."""

    homes: pd.DataFrame  # depot_id, city, subdivision, country as words, "" if unknown

    def rows(self, address: tuple[str, ...]) -> Ints:
        """Positions of the depots that an address (in the order of `ADDRESS`) concerns, ascending."""
        rows = None
        for name, word in zip(ADDRESS, address, strict=True):
            if word:
                matches = self._depot(word) if name == "depot_id" else self._of[name].get(word, _NOBODY)
                rows = matches if rows is None else np.intersect1d(rows, matches, assume_unique=True)
        return np.arange(len(self.homes), dtype=np.int32) if rows is None else rows

    def _depot(self, depot_id: str) -> Ints:
        place = self._ids.get(depot_id)
        return _NOBODY if place is None else np.array([place], np.int32)

    @cached_property
    def _ids(self) -> Mapping[str, int]:
        return {depot_id: place for place, depot_id in enumerate(self.homes["depot_id"])}

    @cached_property
    def _of(self) -> Mapping[str, Mapping[str, Ints]]:
        return {
            name: {str(word): np.asarray(rows, np.int32) for word, rows in self.homes.groupby(name).indices.items()}
            for name in ADDRESS[1:]
        }


_NOBODY: Ints = np.zeros(0, np.int32)


def event_scope(depots: pd.DataFrame, spec: Spec) -> EventScope:
    """Scope over depots with the columns depot_id and, if known, city, subdivision and country.

    A depot without a country is in the pipeline's country; one in the pipeline's country without a
    subdivision is in the pipeline's subdivision.
    """
    table = addresses(depots).reset_index(drop=True)
    country, subdivision = spec.calendar.country or "", spec.calendar.subdivision or ""
    at_home = (table["subdivision"] == "") & table["country"].isin(["", country])
    table["subdivision"] = table["subdivision"].where(~at_home, subdivision)
    table["country"] = table["country"].where(table["country"] != "", country)
    return EventScope(table)


def addresses(table: pd.DataFrame) -> pd.DataFrame:
    """Address columns of events or depots as words, "" if not given."""
    return table.reindex(columns=list(ADDRESS)).astype("object").fillna("").astype("str")
