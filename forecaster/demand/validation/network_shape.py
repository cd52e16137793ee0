"""Properties of a feed seen in the counts of all depots: weekly or monthly readings, readings of a
meter, totals spread over weeks, a total among the depots, and sentinels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Floats
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence

WINDOW = 400  # newest days used to find the cadence of readings
MIN_READINGS = 4  # readings of a depot needed to find their cadence
WEEK = 7
MONTHS = ((28, 31), (59, 62), (89, 92), (365, 366))  # days of one month, two, three, a year
REGULAR = 0.9  # share of the steps between readings that must be whole weeks, or months
TOTAL_WINDOW, TOTAL_DAYS = 182, 14  # newest days used to find a total, and minimum number of days that must match
TOTAL_SHARE = 0.95  # share of the days on which the depot and two others have a count
TOTAL_VALUES = 5  # different counts: constant ones may be equal by chance
# network / total: with the depots alone, then with one or two levels of subtotals
MULTIPLES = (2, 3, 4)
FAR_OFF = 50  # a smaller count is no sentinel
AGAIN = 3  # occurrences that make a far-off count a sentinel
RECENT = 182  # newest days used to find a meter, or counts spread over weeks or months
# minimum rises of a meter in that time without a fall between them: with varying days, chance never
# gives 14 in a row
RISES = 13
# average rise of a meter's count; a rise of one per day is a number of days
AT_A_TIME = 1.5
# maximum share of falls of a meter that restarts at times, and minimum share of its rises
RESETS, MOSTLY = 0.05, 0.5
FEWER_AT_FIRST = 5  # factor by which the total on the last day of a week must exceed that on the first
# minimum number of constant groups, with changes between them
SPREAD_GROUPS = {"week": 6, "month": 3}
# share of the weeks, or months, that must be constant, and minimum number of different values
EVEN, LEVELS = 0.9, 3
# from this count on, values that differ by one are equal, since totals may not divide evenly
ROUNDED = 10
_MANY_DAYS = {"week": 4, "month": 20}  # known days needed to judge whether a week, or month, is constant
_SENTINELS = 3  # maximum number of sentinels of a depot
_MADE_UP = 1e-5  # share of a depot's counts that others may leave unexplained, due to single precision
_CELLS = 1 << 18  # processed at a time

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Cadence:
    """Cadence of readings: the usual step, in days, and the number of depots."""

    days: int
    depots: int

    def sentence(self) -> str:
        """Cadence in words."""
        if MONTHS[0][0] < self.days <= MONTHS[0][1]:
            return sentence(N_("once a month"))
        return sentence(N_("every {n} days"), n=self.days)


def cadence(counts: Floats, closed: Bools | None = None) -> Cadence | None:
    """Cadence of readings, if they regularly come once in some weeks or months; None if they are
    more frequent.

    `counts` (depots, days) hold consecutive days, NaN = unknown; a day declared closed is a reading
    as well.
    """
    rows = np.arange(len(counts))
    readings = [np.count_nonzero(_has_reading(counts, closed, part), axis=1) for part in _portions(rows, counts)]
    readings_per_depot = np.concatenate([np.zeros(0, np.intp), *readings])
    # more than every fourth day
    if readings_per_depot.sum() * 4 > len(counts) * min(counts.shape[1], WINDOW):
        return None  # no need to look closely
    rows, parts = rows[readings_per_depot >= MIN_READINGS], [np.zeros(0, np.int16)]
    for part in _portions(rows, counts):
        depot, day = np.nonzero(_has_reading(counts, closed, part))
        parts.append(np.diff(day)[np.diff(depot) == 0].astype(np.int16))
    steps = np.concatenate(parts)
    if not len(steps) or (usual := int(np.median(steps))) < WEEK:
        return None
    monthly = np.zeros(len(steps), np.bool_)
    for least, most in MONTHS:
        monthly |= (steps >= least) & (steps <= most)
    if max(float(np.mean(steps % WEEK == 0)), float(np.mean(monthly))) < REGULAR:
        return None
    return Cadence(usual, len(rows))


def _has_reading(counts: Floats, closed: Bools | None, rows: Places) -> Bools:
    """Mark readings of some depots on the days of the WINDOW."""
    has_reading: Bools = ~np.isnan(counts[rows, -WINDOW:])
    return has_reading if closed is None else has_reading | closed[rows, -WINDOW:]


@dataclass(frozen=True)
class Meters:
    """Depots whose counts only rise, by row, and the number of depots with enough counts to judge."""

    depots: Places
    judged: int


@dataclass(frozen=True)
class SpreadCounts:
    """Depots, by row, with one value on all days of each week or month, and the number of depots
    that could be judged."""

    depots: Places
    judged: int
    period: str  # "week" or "month"


def meters(counts: Floats, fresh: Bools) -> Meters | None:
    """Depots with fresh counts whose counts only rise, or fall no more often than a meter restarts;
    None if there are none.

    `counts` (depots, days) hold consecutive days, NaN = unknown; `fresh` marks new ones.
    """
    rows = np.flatnonzero(fresh[:, -RECENT:].any(axis=1))
    if not len(rows):
        return None
    parts = [_meters(counts[part, -RECENT:]) for part in _portions(rows, counts)]
    is_meter, judged = (np.concatenate(of_parts) for of_parts in zip(*parts, strict=True))
    return Meters(rows[is_meter], int(np.count_nonzero(judged))) if is_meter.any() else None


def _meters(recent: Floats) -> tuple[Bools, Bools]:
    """Mark depots that are meters, and those with enough counts to judge."""
    owner, steps = _steps(recent)
    size, rises, falls = (
        np.bincount(owner[cells], minlength=len(recent)) for cells in (slice(None), steps > 0, steps < 0)
    )
    judged = size >= RISES
    climbs = np.bincount(owner, np.maximum(steps, 0), len(recent)) > AT_A_TIME * rises
    only_rises = (falls == 0) & (rises >= RISES)
    starts_again = (falls <= RESETS * size) & (rises >= MOSTLY * size)
    return judged & climbs & (only_rises | starts_again) | _weekly(recent), judged


def _weekly(recent: Floats) -> Bools:
    """Mark depots whose counts fall only on one weekday, nearly every week, and rise on the days
    between, like totals that restart each week."""
    marks = np.zeros(len(recent), np.bool_)
    weeks = recent[:, recent.shape[1] % WEEK :]
    for start in range(WEEK if weeks.shape[1] >= WEEK * SPREAD_GROUPS["week"] else 0):
        totals = weeks[:, start:]
        steps = np.diff(totals)
        between = np.arange(steps.shape[1]) % WEEK != WEEK - 1
        step_count = np.count_nonzero(~np.isnan(steps[:, between]), axis=1)
        rises = np.count_nonzero(steps[:, between] > 0, axis=1)
        falls, resets = (np.count_nonzero(steps[:, days] < 0, axis=1) for days in (between, ~between))
        enough = (step_count >= 4 * SPREAD_GROUPS["week"]) & (resets >= SPREAD_GROUPS["week"] - 1)
        resets_always = resets >= EVEN * np.count_nonzero(~np.isnan(steps[:, ~between]), axis=1)
        enough &= np.nansum(totals[:, 6::7], axis=1) > FEWER_AT_FIRST * np.nansum(totals[:, ::7], axis=1)
        marks |= enough & resets_always & (falls <= (1 - REGULAR) / 2 * step_count) & (rises >= EVEN * step_count)
    return marks


def spread_counts(counts: Floats, fresh: Bools, first: int) -> SpreadCounts | None:
    """Depots with one value on all days of nearly each week, for any first day of the week, or of
    each month; None if they are less than half of those with enough counts to judge.

    `counts` and `fresh` as in `meters`; `first` is their first day, since 1970.
    """
    rows = np.flatnonzero(fresh[:, -RECENT:].any(axis=1))
    if sum(_standing_still(counts[part, -RECENT:]) for part in _portions(rows, counts)) * 2 < len(rows):
        return None
    recent = counts[rows, -RECENT:]
    days = first + counts.shape[1] - recent.shape[1] + np.arange(recent.shape[1])
    months = days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int64)
    # counts that are constant over a month are so in most of its weeks, too
    periods = [("month", months), *(("week", (days + 3 - start) // WEEK) for start in range(WEEK))]
    for period, groups in periods:
        is_spread, judged = _evenly_spread(recent, groups, period)
        if is_spread.any() and 2 * np.count_nonzero(is_spread) >= judged:
            return SpreadCounts(rows[is_spread], judged, period)
    return None


def _standing_still(recent: Floats) -> int:
    """Number of depots with nearly the same count as on the day before, on most days."""
    owner, steps = _steps(recent)
    size = np.bincount(owner, minlength=len(recent))
    still = np.bincount(owner[np.abs(steps) <= 1], minlength=len(recent))
    return int(np.count_nonzero((still >= MOSTLY * size) & (size > 0)))


def _portions(rows: Places, counts: Floats) -> Iterator[Places]:
    """Rows in portions whose intermediate results take little memory."""
    step = max(_CELLS // max(counts.shape[1], 1), 1)
    return (rows[start : start + step] for start in range(0, len(rows), step))


def _steps(counts: Floats) -> tuple[Places, Floats]:
    """Row and difference of each step from one known count of a depot to the next."""
    owner, day = np.nonzero(~np.isnan(counts))
    follows = owner[1:] == owner[:-1]
    differences: Floats = np.diff(counts[owner, day])[follows]
    return owner[1:][follows], differences


def _evenly_spread(counts: Floats, groups: Places, period: str) -> tuple[Bools, int]:
    """Mark depots with one value on all known days of nearly every group of days; also the number
    with enough groups."""
    starts = np.flatnonzero(np.diff(groups, prepend=groups[0] - 1))
    has_count = ~np.isnan(counts)
    low = np.minimum.reduceat(np.where(has_count, counts, np.inf), starts, axis=1)
    high = np.maximum.reduceat(np.where(has_count, counts, -np.inf), starts, axis=1)
    day_counts = np.add.reduceat(has_count, starts, axis=1, dtype=np.intp)
    tells = (day_counts >= _MANY_DAYS[period]) & (high > 0)
    is_even = tells & (high - np.where(tells, low, 0) <= np.where(high >= ROUNDED, 1, 0))
    total = np.count_nonzero(tells, axis=1)
    levels = np.sort(np.where(is_even, high, -1), axis=1)
    different = np.count_nonzero(np.diff(levels, axis=1) > 1e-3, axis=1) + (levels[:, 0] >= 0)
    enough = total >= SPREAD_GROUPS[period]
    is_spread: Bools = enough & (np.count_nonzero(is_even, axis=1) >= EVEN * total) & (different >= LEVELS)
    return is_spread, int(np.count_nonzero(enough))


def totals(counts: Floats) -> dict[int, int]:
    """Depot → number of days on which it is the sum of the others, some of which may be subtotals,
    or of some of them; only depots that always are.

    `counts` (depots, days) hold consecutive days, NaN = unknown.
    """
    window = counts[:, -TOTAL_WINDOW:]
    network, with_some = np.zeros(window.shape[1]), np.zeros(window.shape[1], np.intp)
    sizes = [np.zeros(0)]
    for part in _portions(np.arange(len(window)), counts):
        of_part = np.nan_to_num(window[part]).astype(np.float64)
        # in a fixed order, independent of the size of a part
        network = np.concatenate([network[None], of_part]).sum(axis=0)
        with_some += np.count_nonzero(of_part > 0, axis=0)
        sizes.append(of_part.sum(axis=1))
    several = with_some >= 3
    # a total is among the largest depots
    by_size = np.argsort(-np.concatenate(sizes), kind="stable")[: max(MULTIPLES)]
    recent = {depot: np.nan_to_num(window[depot]).astype(np.float64) for depot in by_size.tolist()}
    sums = {}
    for depot in by_size.tolist():
        judged_days = several & (recent[depot] > 0)
        orders, network_total = recent[depot][judged_days], network[judged_days]
        if len(orders) < TOTAL_DAYS or len(np.unique(orders)) < TOTAL_VALUES:
            continue
        slack = np.minimum(0.5, 0.01 * network_total) + 1e-6 * network_total
        hits = max(int(np.count_nonzero(np.abs(multiple * orders - network_total) <= slack)) for multiple in MULTIPLES)
        if hits >= max(TOTAL_DAYS, TOTAL_SHARE * len(orders)):
            sums[depot] = hits
    parts = network - sum((recent[depot] for depot in sums), np.zeros(len(network)))
    whole_days = np.count_nonzero(several & (parts > 0))
    # three depots with always equal counts are each a third of the network, too, but leave nothing
    # that they sum up
    sums = sums if whole_days >= TOTAL_SHARE * np.count_nonzero(several) else {}
    return sums | subtotals(window)


def subtotals(counts: Floats) -> dict[int, int]:
    """Depot → number of days on which it is the sum of some smaller ones; only depots that always
    are, in a network with no more depots than the days can distinguish.

    A depot that is no sum leaves a remainder that the smaller depots before it cannot explain
    (Gram-Schmidt).
    """
    if len(counts) + TOTAL_DAYS > counts.shape[1]:
        return {}
    filled = np.nan_to_num(counts).astype(np.float64)
    is_varied = np.array([len(np.unique(row[row > 0])) >= TOTAL_VALUES for row in filled], np.bool_)
    is_complete = ~np.isnan(counts).any(axis=0)
    days = filled[:, is_complete] if np.count_nonzero(is_complete) >= len(counts) + TOTAL_DAYS else filled
    basis, parts, sums = np.zeros((0, days.shape[1])), list[int](), dict[int, int]()
    for depot in np.argsort(days.sum(axis=1), kind="stable").tolist():
        count = days[depot]
        rest = count - basis.T @ (basis @ count)
        rest -= basis.T @ (basis @ rest)
        if (size := float(np.linalg.norm(rest))) > _MADE_UP * float(np.linalg.norm(count)):
            basis, parts = np.vstack([basis, rest / size]), [*parts, depot]
        elif is_varied[depot] and np.count_nonzero(count) >= TOTAL_DAYS:
            shares = np.linalg.lstsq(days[parts].T, count)[0]
            is_sum = np.isclose(shares, 0, atol=0.01) | np.isclose(shares, 1, atol=0.01)
            if is_sum.all() and np.count_nonzero(shares > 0.5) > 1:
                sums[depot] = int(np.count_nonzero(count))
    return sums


def sentinels(counts: Floats, fresh: Bools, *, factor: float) -> tuple[Places, Places]:
    """Depots and days of fresh counts that recur and lie far above all others, such as 9999.

    Far above means `factor` times the next lower count, or twice that unless all digits are equal;
    a count on most days is the usual one. `counts` and `fresh` are (depots, days), NaN = unknown.
    """
    parts = [(np.zeros(0, np.intp), np.zeros(0, np.intp))]
    rows = np.flatnonzero(fresh.any(axis=1))
    for block in _portions(rows, counts):
        rest = np.nan_to_num(counts[block], nan=-1.0)
        for _ in range(_SENTINELS):
            top = rest.max(axis=1)
            is_top = rest == top[:, None]
            rest = np.where(is_top, np.float32(-1), rest)
            bound = factor * np.maximum(rest.max(axis=1), 0) * np.where(_same_digits(top), 1, 2)
            times = np.count_nonzero(is_top, axis=1)
            far = (top >= FAR_OFF) & (top > bound) & (times <= np.count_nonzero(rest >= 0, axis=1))
            depot, day = np.nonzero(is_top & (far & (times >= AGAIN))[:, None])
            new = fresh[block[depot], day]
            parts.append((block[depot][new], day[new]))
            if not far.any():
                break
            block, rest = block[far], rest[far]
    depots, days = zip(*parts, strict=True)
    return np.concatenate(depots), np.concatenate(days)


def _same_digits(counts: Any) -> Bools:
    same: Bools = np.array([len(set(f"{count:.0f}")) == 1 for count in counts.tolist()], np.bool_)
    return same


SPREAD = {
    "week": N_(
        "depot {depot}: found one value on all days of each week, at {n} of {all} depots, like weekly averages or "
        "totals spread over days"
    ),
    "month": N_(
        "depot {depot}: found one value on all days of each month, at {n} of {all} depots, like monthly averages or "
        "totals spread over days"
    ),
}
