"""What the counts of all depots say of a feed: readings of weeks or months, a total among the depots, sentinels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Floats

WINDOW = 400  # newest days that tell how often readings come
MIN_READINGS = 4  # readings of a depot that tell how often they come
WEEK = 7
MONTHS = ((28, 31), (59, 62), (89, 92), (365, 366))  # days of one month, two, three, a year
REGULAR = 0.9  # share of the steps from reading to reading that must be whole weeks, or months
TOTAL_WINDOW, TOTAL_DAYS = 182, 14  # newest days that tell a total, and how many of them must
TOTAL_SHARE = 0.95  # of the days on which the depot and two others have a count
TOTAL_VALUES = 5  # different counts: what is always the same may be equal by chance
MULTIPLES = (2, 3, 4)  # network / total: with the depots themselves, then with one or two levels of subtotals
FAR_OFF = 50  # a smaller count is no sentinel
AGAIN = 3  # times that a far-off count makes it a sentinel
_SENTINELS = 3  # different ones that a depot may have
_CELLS = 1 << 18  # looked at together

Places = NDArray[np.intp]


@dataclass(frozen=True)
class Cadence:
    """How often readings come: the usual step, in days, and how many depots have it."""

    days: int
    depots: int

    def __str__(self) -> str:
        return "once a month" if MONTHS[0][0] < self.days <= MONTHS[0][1] else f"every {self.days} days"


def cadence(counts: Floats, closed: Bools | None = None) -> Cadence | None:
    """How often readings come, where that is regularly once in some weeks or months; None where it is more often.

    `counts` (depots, days) hold consecutive days, NaN = not known; a day said to be closed is a reading as well.
    """
    has_reading = ~np.isnan(counts[:, -WINDOW:])
    if closed is not None:
        has_reading |= closed[:, -WINDOW:]
    readings = np.count_nonzero(has_reading, axis=1)
    if readings.sum() * 4 > has_reading.size:  # more than every fourth day: no need to look closely
        return None
    has_reading = has_reading[readings >= MIN_READINGS]
    depot, day = np.nonzero(has_reading)
    steps = np.diff(day)[np.diff(depot) == 0]
    if not len(steps) or (usual := int(np.median(steps))) < WEEK:
        return None
    monthly = np.zeros(len(steps), np.bool_)
    for least, most in MONTHS:
        monthly |= (steps >= least) & (steps <= most)
    if max(float(np.mean(steps % WEEK == 0)), float(np.mean(monthly))) < REGULAR:
        return None
    return Cadence(usual, len(has_reading))


def totals(counts: Floats) -> dict[int, int]:
    """Depot → on how many days it is the sum of the others, of which some may be subtotals; of depots that always are.

    `counts` (depots, days) hold consecutive days, NaN = not known.
    """
    recent = np.nan_to_num(counts[:, -TOTAL_WINDOW:]).astype(np.float64)
    network, several = recent.sum(axis=0), np.count_nonzero(recent > 0, axis=0) >= 3
    by_size = np.argsort(-recent.sum(axis=1), kind="stable")[: max(MULTIPLES)]  # a total is among the largest
    sums = {}
    for depot in by_size.tolist():
        judged_days = several & (recent[depot] > 0)
        orders, whole = recent[depot, judged_days], network[judged_days]
        if len(orders) < TOTAL_DAYS or len(np.unique(orders)) < TOTAL_VALUES:
            continue
        slack = np.minimum(0.5, 0.01 * whole) + 1e-6 * whole
        hits = max(int(np.count_nonzero(np.abs(multiple * orders - whole) <= slack)) for multiple in MULTIPLES)
        if hits >= max(TOTAL_DAYS, TOTAL_SHARE * len(orders)):
            sums[depot] = hits
    parts = network - recent[list(sums)].sum(axis=0)
    whole_days = np.count_nonzero(several & (parts > 0))
    # three depots that always count the same are each a third of the network, too, and leave nothing that they sum up
    return sums if whole_days >= TOTAL_SHARE * np.count_nonzero(several) else {}


def sentinels(counts: Floats, fresh: Bools, *, factor: float) -> tuple[Places, Places]:
    """Depots and days of fresh counts that come again and again and lie far above all others, as 9999 does.

    Far above is `factor` times the next lower count, twice that where the digits are not all the same; what comes on
    most days is the usual. `counts` and `fresh` are (depots, days), NaN = not known.
    """
    parts = [(np.zeros(0, np.intp), np.zeros(0, np.intp))]
    rows = np.flatnonzero(fresh.any(axis=1))
    step = max(_CELLS // max(counts.shape[1], 1), 1)
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        left = np.nan_to_num(counts[block], nan=-1.0)
        for _ in range(_SENTINELS):
            top = left.max(axis=1)
            is_top = left == top[:, None]
            left = np.where(is_top, np.float32(-1), left)
            bound = factor * np.maximum(left.max(axis=1), 0) * np.where(_same_digits(top), 1, 2)
            times = np.count_nonzero(is_top, axis=1)
            far = (top >= FAR_OFF) & (top > bound) & (times <= np.count_nonzero(left >= 0, axis=1))
            depot, day = np.nonzero(is_top & (far & (times >= AGAIN))[:, None])
            new = fresh[block[depot], day]
            parts.append((block[depot][new], day[new]))
            if not far.any():
                break
            block, left = block[far], left[far]
    depots, days = zip(*parts, strict=True)
    return np.concatenate(depots), np.concatenate(days)


def _same_digits(counts: Any) -> Bools:
    same: Bools = np.array([len(set(f"{count:.0f}")) == 1 for count in counts.tolist()], np.bool_)
    return same
