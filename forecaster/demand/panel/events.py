"""Event features and marks on the grid: the kinds of events of each depot and day, and their names
for pages.

Events with the same address share one list of depots, so that neither events nor marks are stored
per depot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd
from numpy.typing import NDArray

from forecaster.core.arrays import Ints
from forecaster.core.language.near_words import fold
from forecaster.core.marks import EVERYONE, Mark
from forecaster.demand.panel.event_scope import ADDRESS, EventScope, addresses
from forecaster.demand.panel.grid import Grid

EVENT = ["date", "kind", "name", *ADDRESS]
"""Columns that identify an event."""


@dataclass(frozen=True)
class AnnouncedEvents:
    """Events on the panel's days, and the depots that each concerns."""

    # kind as written, kind folded, name, day (column in the grid, -1 outside), audience
    events: pd.DataFrame
    audiences: tuple[Ints, ...]  # rows of the grid, ascending
    depots: int

    def paint(self, cells: NDArray[Any], kind: str, value: float) -> None:
        """Set `value` in (depots, days) where a depot has an event of this kind, ignoring case."""
        occurrences = self.events[(self.events["folded"] == fold(kind)) & (self.events["day"] >= 0)]
        occurrences = occurrences[["audience", "day"]].drop_duplicates()
        single = occurrences["audience"].map(lambda audience: len(self.audiences[audience]) == 1).to_numpy(bool)
        rows = [self.audiences[audience][0] for audience in occurrences["audience"][single]]
        cells[rows, occurrences["day"][single]] = value
        for audience, days in occurrences[~single].groupby("audience")["day"]:
            rows_ = self.audiences[audience]  # type: ignore[index]  # a group's name is what was grouped by
            cells[slice(None) if len(rows_) == self.depots else rows_[:, None], days.to_numpy()] = value

    def marks(self, grid: Grid, first: int) -> list[tuple[Mark, int]]:
        """A mark and its audience for each event from column `first` on."""
        visible = self.events[self.events["day"] >= max(first, 0)]
        days = grid.days[visible["day"]].tolist()
        return [
            (Mark(day, kind, name), EVERYONE if len(self.audiences[audience]) == self.depots else audience)
            for day, kind, name, audience in zip(
                days, visible["kind"], visible["name"], visible["audience"], strict=True
            )
            if len(self.audiences[audience])
        ]


def announced_events(events: pd.DataFrame, scope: EventScope, grid: Grid) -> AnnouncedEvents:
    """Place events with date, kind, name and an address, whose columns are optional, on the grid."""
    event_addresses = addresses(events)
    audience = event_addresses.groupby(list(ADDRESS), sort=False).ngroup().to_numpy()
    distinct = event_addresses.drop_duplicates().itertuples(index=False, name=None)
    kinds = events["kind"].astype("str")
    table = pd.DataFrame(
        {
            "kind": kinds.to_numpy(),
            "folded": kinds.map({kind: fold(kind) for kind in kinds.unique()}).to_numpy(),
            "name": events["name"].astype("str").to_numpy(),
            "day": grid.columns(events["date"]),
            "audience": audience,
        }
    )
    return AnnouncedEvents(table, tuple(scope.rows(address) for address in distinct), len(grid.depots))
