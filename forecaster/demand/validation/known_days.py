"""Chunked reading of the known history that belongs to a batch, some days at a time, and the grid
for it.

This way 50 million known readings need not be in memory at once, together with as many new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Ints

CACHED = 8_000_000  # rows that stay in memory for further requests
STRETCH = 1_000_000  # rows of a stretch if there are more, give or take a day
NEVER = -1  # days since 1970


@dataclass(frozen=True)
class LastReadings:
    """Last known reading of each depot over all versions, in days since 1970; NEVER if there is
    none."""

    depots: pd.Index[Any]
    last_counted: Ints  # (depots,) last day with a known count
    # (depots,) last day with a known count, or on which the depot was closed
    last_heard: Ints

    @classmethod
    def of(cls, rows: pd.DataFrame) -> LastReadings:
        count = rows["demand"].notna().to_numpy()
        depots = rows["depot_id"].astype("category").cat
        codes, day = depots.codes.to_numpy(), rows["day"].to_numpy().astype(np.int32, copy=False)
        last_counted, last_heard = np.full((2, len(depots.categories)), NEVER, np.int32)
        np.maximum.at(last_counted, codes, np.where(count, day, np.int32(NEVER)))
        closed = np.flatnonzero((rows["open"].to_numpy() == 0) & ~count)
        np.maximum.at(last_heard, codes[closed], day[closed])
        return cls(depots.categories, last_counted, np.maximum(last_counted, last_heard))

    @property
    def heard(self) -> pd.Index[Any]:
        """Depots with a reading."""
        return self.depots[self.last_heard > NEVER]

    def beside(self, other: LastReadings) -> LastReadings:
        """Union of both."""
        if not len(self.depots):
            return other
        if self.depots is other.depots:
            depots, places = self.depots, [np.arange(len(self.depots))] * 2
        else:
            depots = self.depots.append(other.depots[self.depots.get_indexer(other.depots) < 0])
            places = [depots.get_indexer(part.depots) for part in (self, other)]
        last_counted, last_heard = np.full((2, len(depots)), NEVER, np.int32)
        for place, part in zip(places, (self, other), strict=True):
            last_counted[place] = np.maximum(last_counted[place], part.last_counted)
            last_heard[place] = np.maximum(last_heard[place], part.last_heard)
        return LastReadings(depots, last_counted, last_heard)


NO_READINGS = LastReadings(pd.Index([], dtype="str"), np.zeros(0, np.int32), np.zeros(0, np.int32))


class KnownDays:
    """Known readings of consecutive days, all versions."""

    def __init__(self, days: Ints, count: Ints, read: Callable[[int, int], pd.DataFrame]) -> None:
        """Set up the days since 1970 with known readings, ascending, and their counts of readings;
        `read` returns the readings from one day to another, as described in `readings`."""
        self.days, self.count, self._read = days, count, read
        self._whole: pd.DataFrame | None = None
        self._last_readings, self._is_read = NO_READINGS, np.zeros(len(days), np.bool_)

    @property
    def last_readings(self) -> LastReadings:
        """Last readings of each depot; reads only days not requested before."""
        for first, last in self._spans(~self._is_read):
            self._of(first, last)
        return self._last_readings

    def between(self, first: int, last: int) -> Iterator[tuple[int, int, pd.DataFrame]]:
        """First and last day of each stretch of the requested days, and its readings."""
        for begin, end in self._spans(self._are_between(first, last)):
            yield begin, end, _of_days(self._of(begin, end), begin, end)

    def _are_between(self, first: int, last: int) -> Bools:
        return (self.days >= first) & (self.days <= last)

    def _spans(self, is_needed: Bools) -> list[tuple[int, int]]:
        """First and last day of each stretch of consecutive wanted days."""
        place = np.flatnonzero(is_needed)
        if not len(place):
            return []
        part = (np.cumsum(self.count[place]) - 1) // STRETCH * (self.count.sum() > CACHED)
        ends = np.flatnonzero((np.diff(part) > 0) | (np.diff(place) > 1))
        begins, ends = np.append(0, ends + 1), np.append(ends, len(place) - 1)
        days = self.days[place]
        return [(int(days[begin]), int(days[end])) for begin, end in zip(begins, ends, strict=True)]

    def _of(self, first: int, last: int) -> pd.DataFrame:
        if self._whole is not None:
            return self._whole
        is_whole = self.count.sum() <= CACHED
        if is_whole:
            first, last = int(self.days[0]), int(self.days[-1])
        rows = self._read(first, last)
        if not self._is_read[are_read := self._are_between(first, last)].all():
            self._last_readings = self._last_readings.beside(LastReadings.of(rows))
            self._is_read |= are_read
        self._whole = rows if is_whole else None
        return rows


def _of_days(rows: pd.DataFrame, first: int, last: int) -> pd.DataFrame:
    """Readings from one day to another."""
    day = rows["day"].to_numpy()
    is_between = (day >= first) & (day <= last)
    return rows if is_between.all() else rows[is_between]


class DepotDayGrid:
    """Counts of depots on consecutive days, one row per depot; grows by depots that are added
    later.

    `counts` (depots, days), NaN = unknown; `closed` (depots, days), as declared by the source;
    `place` (depots, days from `begin` on), the column `place` of the readings, -1 if there is none.
    """

    def __init__(self, depots: pd.Index[Any], first: int, last: int, *, begin: int) -> None:
        """Create the grid for the depots of the first rows; days are counted since 1970."""
        self.depots, self.first, self._begin = depots, first, begin
        shape, days = (len(depots), last - first + 1), last - begin + 1
        self.counts, self.closed = np.full(shape, np.nan, np.float32), np.zeros(shape, np.bool_)
        self.place = np.full((shape[0], days), -1, np.int32)

    def put(self, rows: pd.DataFrame) -> None:
        """Put readings, at most one per cell, into the grid; their days must be within it."""
        depot = self._rows_of(rows["depot_id"].cat.categories)[rows["depot_id"].cat.codes.to_numpy()]
        day = rows["day"].to_numpy().astype(np.int64)
        at = depot * self.counts.shape[1] + (day - self.first)
        self.counts.ravel()[at] = rows["demand"].to_numpy(np.float32)
        closed, is_closed = self.closed.ravel(), rows["open"].to_numpy() == 0
        differs = closed[at] != is_closed
        closed[at[differs]] = is_closed[differs]  # few: memory pages that are never written take no memory
        if "place" in rows:
            self.place.ravel()[depot * self.place.shape[1] + (day - self._begin)] = rows["place"].to_numpy()

    def arrange(self, depots: pd.Index[Any]) -> None:
        """Sort the rows in the order of `depots`, some of which may be new."""
        if depots is self.depots or depots.equals(self.depots):
            return
        self._rows_of(depots)
        order, self.depots = self.depots.get_indexer(depots), depots
        for cells in (self.counts, self.place, *([self.closed] if self.closed.any() else [])):
            for day in range(cells.shape[1]):  # in place: never two copies of all counts
                cells[:, day] = cells[order, day]

    def _rows_of(self, depots: pd.Index[Any]) -> NDArray[np.int64]:
        """Row of each depot; adds new depots."""
        row = self.depots.get_indexer(depots)
        if (row < 0).any():
            new = depots[row < 0]
            self.depots = self.depots.append(new)
            self.counts = np.concatenate([self.counts, np.full((len(new), self.counts.shape[1]), np.nan, np.float32)])
            self.closed = np.concatenate([self.closed, np.zeros((len(new), self.closed.shape[1]), np.bool_)])
            self.place = np.concatenate([self.place, np.full((len(new), self.place.shape[1]), -1, np.int32)])
            row = self.depots.get_indexer(depots)
        return row.astype(np.int64)
