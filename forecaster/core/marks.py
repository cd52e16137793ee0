"""Marked days: holidays, events and closures, each stored once for all affected depots."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Ints


@dataclass(frozen=True)
class Mark:
    """A marked day on a page: a holiday, an event, a closure. `depot_id` None means every depot."""

    date: date
    kind: str
    name: str
    depot_id: str | None = None


EVERYONE = -1
CLOSED_WEEKDAY = "closed_weekday"
"""Kind of a day that is closed only because of its weekday; a planner may open it."""


@dataclass(frozen=True, eq=False)
class Marks:
    """Marked days, each stored once for all affected depots."""

    depot_ids: tuple[str, ...] = ()
    audiences: tuple[Ints, ...] = ()  # positions of depots; many marks share one audience
    entries: tuple[tuple[Mark, int], ...] = ()  # a mark and the index of its audience, or EVERYONE

    def of(self, depot: int) -> tuple[Mark, ...]:
        """Marks of the depot at a position, by date, kind and name."""
        start, end = self._starts[depot : depot + 2]
        groups = (EVERYONE, *self._memberships[start:end].tolist())
        return tuple(sorted((mark for group in groups for mark in self._by_audience.get(group, ())), key=_when))

    def __iter__(self) -> Iterator[Mark]:
        """Yield each mark of everyone once, and every other mark once for each affected depot, with
        its `depot_id`."""
        for mark, audience in sorted(self.entries, key=lambda pair: _when(pair[0])):
            if audience == EVERYONE:
                yield mark
            else:
                yield from (replace(mark, depot_id=self.depot_ids[depot]) for depot in self.audiences[audience])

    @cached_property
    def _by_audience(self) -> Mapping[int, list[Mark]]:
        by_audience: dict[int, list[Mark]] = {}
        for mark, audience in self.entries:
            by_audience.setdefault(audience, []).append(mark)
        return by_audience

    @cached_property
    def _memberships(self) -> Ints:
        """Audiences of the first depot, then those of the second, and so on."""
        sizes = [len(audience) for audience in self.audiences]
        return np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)[np.argsort(self._members, kind="stable")]

    @cached_property
    def _starts(self) -> NDArray[np.intp]:
        """Start of each depot's memberships, and the end of the last one's."""
        return np.searchsorted(np.sort(self._members), np.arange(len(self.depot_ids) + 1))

    @property
    def _members(self) -> Ints:
        return np.concatenate([np.zeros(0, np.int32), *self.audiences])


def _when(mark: Mark) -> tuple[date, str, str]:
    return mark.date, mark.kind, mark.name
