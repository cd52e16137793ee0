"""Outlier detection: counts that are implausible compared with the days before them, such as spikes
or counts in another unit.

The usual count of a depot-day is the median of its last eight same weekdays, of which four must be
known. Every count is judged only by the days before it; a lasting level becomes the usual after
four weeks. The bounds were chosen on real counts (tests/benchmarks/history/2026-11.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Doubles, Floats, Ints

Codes = NDArray[np.int8]

WEEKS, LEAST = 8, 4  # same weekdays that give the usual count, and how many of them must be known
REACH = 7 * WEEKS  # days before a count used to judge it
# a spike is also beyond spike_factor × HIGH × the second highest count of the last REACH days …
HIGH = 0.6
NOISE = 6.0  # … and beyond that count by this many of its square roots: small counts vary by chance
UNITS = (-3, -2, -1, 1, 2, 3)  # powers of ten of a change of unit
NEAR = 0.15  # log10: distance that counts as near a power of ten
# consecutive days that make a change of unit; maximum days before the first fresh day at which they
# may begin
RUN, BACK = 3, 28
SURE = 20  # only depots with at least this usual count are judged for units
# days that show what a depot had; factor over its upper quartile up to which demand has returned
LOW, OFTEN = 28, 2.0
MOST_RETURN = 2_000  # suspects examined one by one
FEED = 5  # minimum depots of a feed
# share of a feed near one power; Christmas moved 70 % of a city's counters near a tenth
MOST_UP, MOST_DOWN = 0.5, 0.8
# judged at a time, to fit the processor's cache; sampled to find each day's level
_CELLS, _SAMPLE = 1 << 16, 1 << 20

# a sorting network for eight values (19 exchanges, Knuth, The Art of Computer Programming 3, 5.3.4)
_EXCHANGES = (
    *((0, 2), (1, 3), (4, 6), (5, 7), (0, 4), (1, 5), (2, 6), (3, 7), (0, 1), (2, 3)),
    *((4, 5), (6, 7), (2, 4), (3, 5), (1, 4), (3, 6), (1, 2), (3, 4), (5, 6)),
)


@dataclass(frozen=True)
class Suspects:
    """Cells of a grid, by depot and then day, and the usual count of each."""

    depot: Ints
    day: Ints
    usual: Doubles

    def __len__(self) -> int:
        return len(self.depot)

    def where(self, marks: Bools) -> Suspects:
        """Suspects that are marked."""
        return Suspects(self.depot[marks], self.day[marks], self.usual[marks])


@dataclass(frozen=True)
class _Feed:
    """Level of each day over all depots of a batch."""

    level: Floats  # (days,) median of count / usual; 1 with fewer than FEED depots
    unit: Codes  # (days,) power of ten by which most depots' counts are off; 0 = none


def suspects(
    counts: Floats, fresh: Bools, closed: Bools | None = None, *, spike_factor: float = 5.0
) -> Mapping[str, Suspects]:
    """Rule (`unit_change`, `spike`) → the fresh counts that break it; no cell is in both.

    `counts` (depots, days) hold consecutive days, NaN = unknown; `fresh` and `closed` have the same
    shape. Cells declared closed are neither judged nor used for the usual.

    spike: more than `spike_factor` times the usual, or times the usual multiplied by the day's
    level at the median depot of the batch if that is more; also well beyond the depot's second
    highest count of eight weeks. unit_change: about a power of ten, from 10⁻³ to 10³, of the usual
    and of the day's level at the median depot, for at least three known days in a row; or of the
    usual, for most depots at once. Then each fresh count of that day that is nearer to the changed
    unit than to the usual is included. Changes of unit are judged only from depots with a usual
    count of at least SURE.
    """
    days = np.flatnonzero(fresh.any(axis=0))
    if not days.size:
        return {"unit_change": _suspects([]), "spike": _suspects([])}
    first, last = max(int(days[0]) - BACK, 0), int(days[-1]) + 1
    batch = np.flatnonzero(fresh.any(axis=1))
    few = max(_SAMPLE // (last - first), FEED)
    feed = _feed(_Block(counts, closed, batch[:: -(-len(batch) // few)], first, last))
    cells_by_rule: dict[str, list[tuple[Ints, Ints, Floats]]] = {"unit_change": [], "spike": []}
    for rows in _portions(batch, last - first + REACH):
        block, new = _Block(counts, closed, rows, first, last), fresh[rows, first:last]
        changed = _in_another_unit(block, feed) & new
        spikes = _spikes(block, feed, spike_factor, new & ~changed)
        for rule, cells in (("unit_change", np.nonzero(changed)), ("spike", spikes)):
            depot, day = (part.astype(np.int32) for part in cells)
            cells_by_rule[rule].append((rows[depot].astype(np.int32), day + np.int32(first), block.usual[depot, day]))
    return {rule: _suspects(parts) for rule, parts in cells_by_rule.items()}


def without_returns(cells: Suspects, counts: Floats) -> Suspects:
    """Remove suspects that are returning demand: counts, above the usual, of a depot that has been
    open again for less than LOW days after as many days of zeros; or counts of no more than OFTEN
    times the level before the last REACH days, on more than LOW of them, after lower counts since.

    `counts` (depots, days) hold consecutive days, NaN = unknown; days before their beginning are
    unknown. With more than MOST_RETURN suspects none is examined: a whole feed does not return.
    """
    if not 0 < len(cells) <= MOST_RETURN:
        return cells
    triples = zip(cells.depot.tolist(), cells.day.tolist(), cells.usual.tolist(), strict=True)
    stays = np.array([not _comes_back(counts[depot, : day + 1], usual) for depot, day, usual in triples], np.bool_)
    return cells.where(stays)


def _comes_back(counts: Floats, usual: float) -> bool:
    """True if the last count of a depot is returning demand."""
    if not counts[-1] > usual:
        return False
    recent, earlier = (part[~np.isnan(part)] for part in (counts[-REACH - 1 : -1], counts[: -REACH - 1]))
    opened = int(np.argmax(recent > 0))
    if len(recent) - LOW < opened and opened >= LOW and (recent[opened:] > 0).all():
        return True
    earlier = earlier[earlier > 0]
    return len(earlier) >= LOW and bool(counts[-1] <= OFTEN * np.quantile(earlier, 0.75))


class _Block:
    """Some depots on the days from `first` to before `last`, and the REACH days before; unknown or
    closed = infinite.

    usual, second, ratio: (depots, days); NaN if fewer than LEAST of the last WEEKS same weekdays
    are known.
    """

    def __init__(self, counts: Floats, closed: Bools | None, rows: NDArray[np.intp], first: int, last: int) -> None:
        begin = max(first - REACH, 0)
        self.all = np.full((len(rows), REACH + last - first), np.inf, np.float32)
        recent = self.all[:, REACH - (first - begin) :]
        recent[:] = counts[rows, begin:last]
        recent[np.isnan(recent) if closed is None else np.isnan(recent) | closed[rows, begin:last]] = np.inf
        self.counts = self.all[:, REACH:]
        self.usual, self.second = _same_weekdays(self.all)
        # count / usual, if both are known and the usual is not 0
        self.ratio = np.full_like(self.usual, np.nan)
        np.divide(self.counts, self.usual, out=self.ratio, where=(self.usual > 0) & (self.counts < np.inf))


def _same_weekdays(counts: Floats) -> tuple[Floats, Floats]:
    """Median and second highest of each day's last WEEKS same weekdays; NaN if fewer than LEAST are
    known.

    `counts` are (depots, REACH + days), infinite if unknown; the results are (depots, days).
    """
    days = counts.shape[1] - REACH
    values = [counts[:, REACH - 7 * week :][:, :days].copy() for week in range(1, WEEKS + 1)]
    spare = np.empty_like(values[0])
    for low, high in _EXCHANGES:
        np.minimum(values[low], values[high], out=spare)
        np.maximum(values[low], values[high], out=values[high])
        values[low], spare = spare, values[low]
    known_weeks = np.zeros(spare.shape, np.int8)
    for value in values:
        known_weeks += value < np.inf
    median, second = np.full_like(spare, np.nan), np.full_like(spare, np.nan)
    for n in range(LEAST, WEEKS + 1):
        has_weeks = known_weeks == n
        np.multiply(values[(n - 1) // 2] + values[n // 2], np.float32(0.5), out=median, where=has_weeks)
        np.copyto(second, values[n - 2], where=has_weeks)
    return median, second


def _spikes(block: _Block, feed: _Feed, factor: float, candidates: Bools) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Depots and days of the candidate cells whose counts are spikes."""
    bound = factor * block.usual * np.maximum(feed.level, 1).astype(np.float32)
    # the second highest of the same weekdays never exceeds that of all days: few cells need a
    # closer look
    np.maximum(bound, _ordinary(block.second, factor), out=bound)
    depot, day = np.nonzero(candidates & (block.counts > bound) & (block.counts < np.inf))
    before = block.all[depot[:, None], day[:, None] + np.arange(REACH)]
    before[before == np.inf] = -1
    second = np.partition(before, -2, axis=1)[:, -2]
    spike = (second > 0) & (block.counts[depot, day] > _ordinary(second, factor))
    return depot[spike], day[spike]


def _ordinary(second: Floats, factor: float) -> Floats:
    """Largest count consistent with the second highest of earlier counts."""
    bound: Floats = np.maximum(np.float32(factor * HIGH) * second, second + np.float32(NOISE) * np.sqrt(second))
    return bound


def _in_another_unit(block: _Block, feed: _Feed) -> Bools:
    """Mark cells that are part of a change of unit, of their depot or of the whole feed."""
    power, near = _power(block.ratio / feed.level)
    # a factor of a hundred or more need not be near a power
    unit, near = np.minimum(power, 2), near | (power >= 2)
    changed = np.zeros(unit.shape, bool)
    is_judged = (block.ratio >= 0) & (block.usual >= SURE)
    # few depots need a closer look
    rows = np.flatnonzero(np.count_nonzero(near & is_judged, axis=1) >= RUN)
    depot, day = np.nonzero(is_judged[rows])
    depot = rows[depot]
    changed[depot, day] = _lasting(unit[depot, day], near[depot, day], depot)
    halfway = 10.0 ** (feed.unit.astype(np.float64) / 2)
    up, down = feed.unit > 0, feed.unit < 0
    changed[:, up] |= block.ratio[:, up] > halfway[up]
    changed[:, down] |= (block.ratio[:, down] < halfway[down]) & (block.ratio[:, down] > 0)
    return changed


def _feed(block: _Block) -> _Feed:
    """Level of each day for the depots of a block."""
    ratio = np.where(block.ratio > 0, block.ratio, np.nan)  # a count of 0 means closed, whatever the unit
    level, depots = _medians(ratio)
    sure_ratio = np.where(block.usual >= SURE, ratio, np.nan)
    middle, sure_depots = _medians(sure_ratio)
    power, near = _power(sure_ratio)
    unit = np.zeros(len(level), np.int8)
    for exponent in UNITS:
        share = np.count_nonzero(near & (power == exponent), axis=0) / np.maximum(sure_depots, 1)
        unit[(sure_depots >= FEED) & (share >= (MOST_UP if exponent > 0 else MOST_DOWN))] = exponent
    day = np.flatnonzero(sure_depots >= FEED)
    power, near = _power(middle[day])
    is_lasting = _lasting(power, near, np.zeros(len(day), np.intp))
    unit[day[is_lasting]] = power[is_lasting]
    return _Feed(np.where(depots >= FEED, level, np.float32(1)), unit)


def _medians(values: Floats) -> tuple[Floats, NDArray[np.intp]]:
    """Median of each column and its number of values; NaN is no value, and the median of none is
    NaN."""
    count = np.count_nonzero(~np.isnan(values), axis=0)
    ranked = np.concatenate([np.sort(values, axis=0), np.full((1, values.shape[1]), np.nan, np.float32)])
    column = np.arange(values.shape[1])
    middle = (ranked[np.maximum(count - 1, 0) // 2, column] + ranked[count // 2, column]) / np.float32(2)
    return middle, count


def _power(ratio: Floats) -> tuple[Codes, Bools]:
    """Nearest power of ten of each ratio, one of UNITS or 0; and a mark if it is one of UNITS and
    near."""
    power, near = np.zeros(ratio.shape, np.int8), np.zeros(ratio.shape, bool)
    is_far = (ratio >= 10**0.5) | ((ratio <= 10**-0.5) & (ratio > 0))
    exact = np.log10(ratio[is_far])
    nearest = np.clip(np.rint(exact), min(UNITS), max(UNITS))
    power[is_far], near[is_far] = nearest.astype(np.int8), np.abs(exact - nearest) <= NEAR
    return power, near


def _lasting(unit: Codes, near: Bools, owner: NDArray[np.intp]) -> Bools:
    """Mark days, by owner and then day, in a run of one unit of which RUN days, and half of all,
    are near."""
    if not len(unit):
        return np.zeros(0, bool)
    starts = np.flatnonzero(np.r_[True, (unit[1:] != unit[:-1]) | (owner[1:] != owner[:-1])])
    length, near_days = np.diff(np.r_[starts, len(unit)]), np.add.reduceat(near, starts, dtype=np.intp)
    lasting: Bools = (unit != 0) & np.repeat((near_days >= RUN) & (2 * near_days >= length), length)
    return lasting


def _portions(rows: NDArray[np.intp], days: int) -> Iterator[NDArray[np.intp]]:
    depots = max(_CELLS // days, 1)
    return (rows[start : start + depots] for start in range(0, len(rows), depots))


def _suspects(parts: list[tuple[Ints, Ints, Floats]]) -> Suspects:
    if not parts:
        return Suspects(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))
    depot, day, usual = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Suspects(depot, day, usual.astype(np.float64))
