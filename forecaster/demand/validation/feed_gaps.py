"""Completeness and staleness checks of a feed: flat lines, silent depots, one by one or many at
once, days with few depots, and days that are low at nearly all depots."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Days, Doubles, Floats, Ints

# expected number of runs this long by chance below which a run is reported
RARE = 1e-3
# counts from here on never stand still by chance, however few other days the depot has
NEVER_BY_CHANCE = 10
APART = 28  # known days outside the run needed to estimate how often a depot's counts repeat
A_WEEK = 7  # days after which a depot that is open on one weekday alone must have reported again
MANY = 0.2  # share of the depots in business whose readings never end on about the same day by chance
SAME_WEEKDAYS = 4  # same weekdays that give the usual number of depots; younger feeds are not judged
NEARLY_ALL = 0.8  # share of the depots that must be low on a day
# depots needed to detect a low day, and their usual total: lower ones are low by chance
FEWEST, AT_LEAST = 3, 50
KNOWN = 3  # known earlier same weekdays needed for a depot's usual count
_CELLS = 1 << 18  # processed at a time

Places = NDArray[np.intp]


@dataclass(frozen=True)
class FlatLines:
    """Runs of one count, by depot; `first` and `last` are days of the grid, `known_days` is the
    number of known days between them."""

    depot: Ints
    first: Ints
    last: Ints
    known_days: Ints

    def __len__(self) -> int:
        return len(self.depot)


@dataclass(frozen=True)
class Silences:
    """Depots in business without a reading for the given number of days; the longest silence first."""

    depot: Ints
    days: Ints

    def __len__(self) -> int:
        return len(self.depot)


@dataclass(frozen=True)
class ThinDay:
    """Day of the grid with readings of `depots` depots, where `expected` are usual."""

    day: int
    depots: int
    expected: float


@dataclass(frozen=True)
class LowDay:
    """Day of the grid with a `total` of orders at `depots` depots, where `usual` is usual."""

    day: int
    total: float
    depots: int
    usual: float


def low_days(counts: Floats, fresh: Bools, closed: Bools | None = None, *, thin_share: float) -> list[LowDay]:
    """Days with fresh counts on which nearly all depots have less than `thin_share` of the usual,
    for example because part of a day is missing or zeros replace it; in order of days.

    Usual is the median of the last four same weekdays, of which `KNOWN` must be known. Shapes as in
    `thin_day`.
    """
    is_new, totals = fresh.any(axis=0), np.zeros(counts.shape[1])
    step = max(_CELLS // max(counts.shape[1], 1), 1)
    for start in range(0, len(counts), step):
        totals += np.nansum(counts[start : start + step], axis=0, dtype=np.float64)
    days = np.flatnonzero(is_new)
    days = days[days >= 7 * SAME_WEEKDAYS]
    totals_before = np.stack([totals[days - 7 * week] for week in range(1, SAME_WEEKDAYS + 1)])
    # few days need a closer look
    suspects = days[totals[days] < thin_share * np.median(totals_before, axis=0)]
    low = (_low_day(counts, closed, int(day), thin_share) for day in suspects)
    return [day for day in low if day is not None]


def _low_day(counts: Floats, closed: Bools | None, day: int, thin_share: float) -> LowDay | None:
    same_weekdays = counts[:, [day - 7 * week for week in range(1, SAME_WEEKDAYS + 1)]]
    judged = ~np.isnan(counts[:, day]) & (np.count_nonzero(~np.isnan(same_weekdays), axis=1) >= KNOWN)
    if closed is not None:
        judged &= ~closed[:, day]
    usual = np.nanmedian(same_weekdays[judged], axis=1).astype(np.float64)
    count = counts[judged, day].astype(np.float64)[usual > 0]
    usual = usual[usual > 0]
    total, expected = float(count.sum()), float(usual.sum())
    is_low = count < thin_share * usual
    if len(usual) < FEWEST or expected < AT_LEAST or is_low.mean() < NEARLY_ALL or total >= thin_share * expected:
        return None
    return LowDay(day, total, len(usual), expected)


def flat_lines(counts: Floats, fresh: Bools, closed: Bools | None = None, *, flat_days: int) -> FlatLines:
    """Runs of the same count on at least `flat_days` consecutive known days, some of them fresh.

    `counts` (depots, days) hold consecutive days, NaN = unknown; days declared closed are skipped.
    Runs that chance explains are not reported: the frequency of repeated counts, or of zeros, is
    estimated from the depot's other days, of which at least APART must be known, unless the count
    reaches NEVER_BY_CHANCE. Runs of zeros count only if the depot usually has orders. If a depot
    never had another count above zero, its zeros do not end the run.
    """
    parts = [np.zeros((4, 0), np.intp)]
    batch = np.flatnonzero(fresh.any(axis=1))
    step = max(_CELLS // max(counts.shape[1], 1), 1)
    for start in range(0, len(batch), step):
        rows = batch[start : start + step]
        has_count = ~np.isnan(counts[rows])
        if closed is not None:
            has_count &= ~closed[rows]
        has_count &= ~_without_any(counts[rows], has_count)
        # few depots need a closer look
        with_runs = np.unique(_runs(counts[rows], has_count, flat_days)[0])
        parts.append(_flat(rows[with_runs], counts, fresh, has_count[with_runs], flat_days))
    depot, first, last, days = np.concatenate(parts, axis=1).astype(np.int32)
    return FlatLines(depot, first, last, days)


def silent_depots(last: Days, opened: Days, closed: Days, newest: np.datetime64, *, max_gap_days: int) -> Silences:
    """Depots in business on the `newest` day of the feed whose last reading is more than
    `max_gap_days` older.

    `last` reading (or day declared closed), first day of business and first day out of business,
    (depots,); NaT if there is none. For depots without any reading, the first day of business
    counts.
    """
    last_heard = np.where(np.isnat(last), opened, last)
    silent_rows = np.flatnonzero((newest - last_heard > np.timedelta64(max_gap_days, "D")) & ~(closed <= newest))
    days = (newest - last_heard[silent_rows]).astype("timedelta64[D]").astype(np.int32)
    order = np.argsort(-days, kind="stable")
    return Silences(silent_rows[order].astype(np.int32), days[order])


def early_ends(last: Days, closed: Days, newest: np.datetime64, *, longest: int) -> Silences | None:
    """Depots in business whose last reading is more than `A_WEEK` older than the `newest` day, if
    these are at least `MANY` of all: the feed stopped for them together, days before any of them
    counts as silent.

    `last` reading and first day out of business as in `silent_depots`; depots without a reading for
    more than `longest` days are not counted.
    """
    # NaN if there never was a reading
    gap = (newest - last).astype("timedelta64[D]").astype(np.float64)
    in_business = (gap <= longest) & ~(closed <= newest)
    rows = np.flatnonzero(in_business & (gap > A_WEEK))
    if len(rows) < max(2, MANY * np.count_nonzero(in_business)):
        return None
    order = np.argsort(-gap[rows], kind="stable")
    return Silences(rows[order].astype(np.int32), gap[rows][order].astype(np.int32))


def thin_day(counts: Floats, fresh: Bools, closed: Bools | None = None, *, thin_share: float) -> ThinDay | None:
    """Newest day of the batch, if it is new and has fewer than `thin_share` of the usual number of
    depots.

    Usual is the smaller of: depots of the day before; median of the last four same weekdays, all of
    which must be in the grid. A depot declared closed counts as present.
    """
    days = np.flatnonzero(fresh.any(axis=0))
    if not days.size or days[-1] < 7 * SAME_WEEKDAYS:
        return None
    day = int(days[-1])
    compared_days = [day, day - 1, *(day - 7 * week for week in range(1, SAME_WEEKDAYS + 1))]
    has_reading = ~np.isnan(counts[:, compared_days])
    if (has_reading[:, 0] & ~fresh[:, day]).any():
        return None
    if closed is not None:
        has_reading |= closed[:, compared_days]
    count, before, *weekdays = np.count_nonzero(has_reading, axis=0).tolist()
    expected = min(before, float(np.median(weekdays)))
    return ThinDay(day, count, expected) if count < thin_share * expected else None


def _flat(depots: Places, counts: Floats, fresh: Bools, has_count: Bools, least: int) -> Places:
    """Depot, first day, last day and number of known days of the runs, (4, runs), that are not due
    to chance and contain fresh counts."""
    row, begin, end = _runs(counts[depots], has_count, least)
    fresh_before = np.concatenate([[0], np.cumsum(fresh[depots][has_count])])
    unlikely = (fresh_before[end] > fresh_before[begin]) & (
        _expected(counts[depots], has_count, row, begin, end) < RARE
    )
    day, row, begin, end = np.nonzero(has_count)[1], row[unlikely], begin[unlikely], end[unlikely]
    return np.stack([depots[row], day[begin], day[end - 1], end - begin])


def _without_any(counts: Floats, has_count: Bools) -> Bools:
    """Mark zeros of depots whose other counts are all equal and not small: days off, not a second
    value."""
    is_positive = has_count & (counts > 0)
    highest = counts.max(axis=1, where=is_positive, initial=0)
    lowest = counts.min(axis=1, where=is_positive, initial=np.inf)
    is_constant = (highest == lowest) & (highest >= NEVER_BY_CHANCE)
    days_off: Bools = has_count & ~is_positive & is_constant[:, None]
    return days_off


def _runs(counts: Floats, has_count: Bools, least: int) -> tuple[Places, Places, Places]:
    """Row, begin and end of the runs of at least `least` equal counts; begin and end are positions
    among known cells."""
    value, ends = counts[has_count], np.cumsum(np.count_nonzero(has_count, axis=1))
    differs = np.ones(len(value) + 1, bool)
    differs[1:-1] = value[1:] != value[:-1]
    differs[ends] = True
    bounds = np.flatnonzero(differs)
    long = np.flatnonzero(np.diff(bounds) >= least)
    return np.searchsorted(ends, bounds[long], "right"), bounds[long], bounds[long + 1]


def _expected(counts: Floats, has_count: Bools, row: Places, begin: Places, end: Places) -> Doubles:
    """Expected number of runs of at least these lengths, from the depot's other days; infinite if
    they are too few."""
    value, owner = counts[has_count], np.nonzero(has_count)[0]
    follows, none = owner[1:] == owner[:-1], value == 0
    same = follows & (value[1:] == value[:-1])

    def per_row(cells: Bools) -> Places:
        return np.bincount(owner[: len(cells)][cells], minlength=len(counts))[row]

    length, zero = end - begin, none[begin]
    days = per_row(np.ones(len(value), bool)) - length
    pairs = np.where(zero, per_row(follows & none[:-1]), per_row(follows & ~none[:-1])) - length + 1
    equal = np.where(zero, per_row(same & none[:-1]), per_row(same & ~none[:-1])) - length + 1
    # smoothed by one repeating and one non-repeating pair: no depot's counts never repeat
    repeats = np.where(zero, equal / (pairs + 1), (equal + 1) / (pairs + 2))
    zeros = np.where(zero, (per_row(none) - length + 1) / (days + 2), 0)
    expected = days * np.maximum(repeats, zeros) ** (length - 1.0)
    return np.where((days >= APART) | (value[begin] >= NEVER_BY_CHANCE), expected, np.inf)
