"""Chunked read of the known history beside a batch: a stretch of days at a time.

So 50 million known readings need not be there at once, beside as many new ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from forecaster.core.arrays import Ints

CACHED = 8_000_000  # rows that stay in memory until they are asked for again
STRETCH = 2_000_000  # rows of a stretch where there are more, give or take a day
NEVER = -1  # days since 1970


@dataclass(frozen=True)
class LastReadings:
    """What the known readings say of each depot, all versions alike; days since 1970, NEVER where there is none."""

    depots: pd.Index[Any]
    last_counted: Ints  # (depots,) the last day of which a count is known
    last_heard: Ints  # (depots,) the last day of which a count is known, or that the depot was closed

    @classmethod
    def of(cls, rows: pd.DataFrame) -> LastReadings:
        count = rows["demand"].notna().to_numpy()
        words = rows["depot_id"].astype("category").cat
        codes, day = words.codes.to_numpy(), rows["day"].to_numpy().astype(np.int32, copy=False)
        last_counted, last_heard = np.full((2, len(words.categories)), NEVER, np.int32)
        np.maximum.at(last_counted, codes, np.where(count, day, np.int32(NEVER)))
        closed = np.flatnonzero((rows["open"].to_numpy() == 0) & ~count)
        np.maximum.at(last_heard, codes[closed], day[closed])
        return cls(words.categories, last_counted, np.maximum(last_counted, last_heard))

    @property
    def heard(self) -> pd.Index[Any]:
        """The depots with a reading."""
        return self.depots[self.last_heard > NEVER]

    def beside(self, other: LastReadings) -> LastReadings:
        """What both say."""
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
    """Known readings of consecutive days, all versions. `last_readings` sums up those that were looked at."""

    def __init__(self, days: Ints, count: Ints, read: Callable[[int, int], pd.DataFrame]) -> None:
        """`days` of which readings are known, since 1970, ascending, and how many; `read` gives those from a day to
        another one, as `readings` describes."""
        self.days, self.count, self._read = days, count, read
        self._whole: pd.DataFrame | None = None
        self.last_readings = NO_READINGS

    def stretches(self) -> Iterator[tuple[int, int, pd.DataFrame]]:
        """First and last day, and all readings between; tells once what it saw of each depot."""
        last_readings = NO_READINGS
        for first, last in self._spans(self.days, self.count):
            rows = self._of(first, last)
            last_readings = last_readings.beside(LastReadings.of(rows))
            yield first, last, rows
        self.last_readings = last_readings

    def between(self, first: int, last: int) -> Iterator[pd.DataFrame]:
        """The readings of some of the days."""
        is_between = (self.days >= first) & (self.days <= last)
        for begin, end in self._spans(self.days[is_between], self.count[is_between]):
            rows = self._of(begin, end)
            day = rows["day"].to_numpy()
            yield rows if rows is not self._whole else rows[(day >= begin) & (day <= end)]

    def _spans(self, days: Ints, count: Ints) -> list[tuple[int, int]]:
        if not len(days):
            return []
        if self.count.sum() <= CACHED:
            return [(int(days[0]), int(days[-1]))]
        part = (np.cumsum(count) - 1) // STRETCH
        ends = np.flatnonzero(np.diff(part, append=part[-1] + 1))
        begins = np.append(0, ends[:-1] + 1)
        return [(int(days[begin]), int(days[end])) for begin, end in zip(begins, ends, strict=True)]

    def _of(self, first: int, last: int) -> pd.DataFrame:
        if self.count.sum() > CACHED:
            return self._read(first, last)
        if self._whole is None:
            self._whole = self._read(int(self.days[0]), int(self.days[-1]))
        return self._whole
