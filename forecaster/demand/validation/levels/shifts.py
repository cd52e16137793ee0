"""Level shifts of depots: find the suspects that are demand at another level, and count.

A unit of measure changes at once, at one depot or everywhere by the same factor. A season ramps,
reaches neighbors with other factors, or occurred a year before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.demand.validation.outliers import FEED, LEAST, SURE, Suspects, without_returns

WEEK, YEAR = 7, 364
BACK = 28  # days before a suspect within which its level may have begun
# log10: distance of a median factor from a unit, over a week or FEED depots, and over fewer
EXACT, ROUGH = 0.04, 0.08
UNITS = np.log10([10, 12, 100, 1000])  # factors of units; a dozen is near ten
SHARED, SHARE = float(np.log10(3)), 0.1  # log10 of a neighbor's shift, and share of the neighbors
# share of a shift (log10) seen in the days before it, or about a year before
RAMP, RECURS = 0.25, 0.5
HUGE = 1.5  # log10: a larger factor of one depot is never demand
PORTION = 65_536  # depots at a time: a few weeks of all of them take as much memory as their counts
ABOUT = 21  # days by which a season may be earlier or later than a year before


def apart(suspects: Mapping[str, Suspects], counts: Floats) -> tuple[dict[str, Suspects], dict[str, Suspects]]:
    """Suspects by rule, without returns: those that count all the same, and the others."""
    suspects = {rule: without_returns(cells, counts) for rule, cells in suspects.items()}
    marks = {rule: are_demand(cells, counts) for rule, cells in suspects.items()}
    demand_shifts = {rule: cells.where(marks[rule]) for rule, cells in suspects.items()}
    return demand_shifts, {rule: cells.where(~marks[rule]) for rule, cells in suspects.items()}


def are_demand(cells: Suspects, counts: Floats) -> Bools:
    """Mark suspects that count all the same: their level has lasted for a week up to the depot's
    newest count, its factor is not that of a unit, it came by steps, it occurred a year before, or
    neighbors have one from the same week on with other factors. Counts after a week without
    accepted ones count, too, so that no depot loses its newest days for good.

    `counts` (depots, days) hold consecutive days, NaN = unknown.
    """
    marks = np.zeros(len(cells), np.bool_)
    shifts_from: dict[int, Doubles] = {}
    for places in _runs(cells):
        depot, day, last = int(cells.depot[places[0]]), int(cells.day[places[0]]), int(cells.day[places[-1]])
        row, usual = counts[depot], float(cells.usual[places[0]])
        log_factor = float(np.median([_log(row[cells.day[place]], cells.usual[place]) for place in places]))
        first = _begin(row, day, usual, log_factor)
        shifts = shifts_from.setdefault(first, _shifts(counts, first))
        is_level = WEEK <= len(places) == np.count_nonzero(~np.isnan(row[day : last + 1]))
        marks[places] = (
            (is_level and abs(log_factor) < HUGE and not _exact(abs(log_factor), EXACT))
            or _lasts(row, first, last)
            or _ramps(row, first, log_factor)
            or _recurs(row, first, log_factor)
            or _shared(shifts, depot, log_factor)
        )
    return marks


def _runs(cells: Suspects) -> Iterator[NDArray[np.intp]]:
    """Positions of the suspects of one depot, at most a week from one to the next."""
    order = np.lexsort((cells.day, cells.depot))
    ends = (np.diff(cells.depot[order]) != 0) | (np.diff(cells.day[order]) > WEEK)
    return (places for places in np.split(order, np.flatnonzero(ends) + 1) if len(places))


def _log(count: float, usual: float) -> float:
    return float(np.log10(max(count / usual, 1e-3))) if usual > 0 else 0.0


def _begin(row: Floats, day: int, usual: float, log_factor: float) -> int:
    """First day of the level of a suspect."""
    known_days = [earlier for earlier in range(max(day - BACK, 0), day) if not np.isnan(row[earlier])]
    for earlier in reversed(known_days):
        if _log(row[earlier], usual) * np.sign(log_factor) < RECURS * abs(log_factor):
            break
        day = earlier
    return day


def _lasts(row: Floats, first: int, last: int) -> bool:
    """True if the level is the newest and a week old, or follows a week without accepted counts."""
    is_newest = bool(np.isnan(row[last + 1 :]).all())
    none_before = bool(np.isnan(row[max(first - WEEK, 0) : first]).all())
    return is_newest and (last - first >= WEEK - 1 or none_before)


def _shifts(counts: Floats, first: int) -> Doubles:
    """Shift (log10) of each depot in the week from a day on; NaN if the usual count is below SURE."""
    days = np.arange(first, min(first + WEEK, counts.shape[1]))
    portions = (counts[begin : begin + PORTION] for begin in range(0, len(counts), PORTION))
    return np.concatenate([np.zeros(0), *(_beside_weekdays(portion, first, days) for portion in portions)])


def _beside_weekdays(counts: Floats, first: int, days: NDArray[np.intp]) -> Doubles:
    """Median ratio (log10) of the counts of some days to the same weekdays of the weeks before
    `first`."""
    latest = days - WEEK * ((days - first) // WEEK + 1)
    before = latest - WEEK * np.arange(LEAST)[:, None]
    if before.min(initial=0) < 0:
        return np.full(len(counts), np.nan)
    usual = _medians(np.moveaxis(counts[:, before], 1, 2))
    ratio = np.divide(counts[:, days], usual, out=np.full_like(usual, np.nan), where=usual >= SURE)
    return np.log10(np.maximum(_medians(ratio), 1e-3))


def _ramps(row: Floats, first: int, log_factor: float) -> bool:
    """True if the days before the level had already left the usual."""
    before = _beside_weekdays(row[None], first - WEEK, np.arange(first - 3, first)) if first >= WEEK else [np.nan]
    return bool(before[0] * np.sign(log_factor) > RAMP * abs(log_factor))


def _recurs(row: Floats, first: int, log_factor: float) -> bool:
    """True if such a shift occurred about a year before."""
    begin = first - YEAR - ABOUT
    if begin < BACK:
        return False
    before = _medians(row[None, begin - BACK : begin])[0]
    weeks = _medians(row[begin : begin + 2 * ABOUT + WEEK].reshape(-1, WEEK))
    shifts = np.log10(np.maximum(weeks / before, 1e-3)) if before > 0 else np.zeros(1)
    return bool((shifts * np.sign(log_factor) > RECURS * abs(log_factor)).any())


def _shared(shifts: Doubles, depot: int, log_factor: float) -> bool:
    """True if neighbors have such a shift, and not all by one power of ten."""
    other_shifts = np.delete(shifts, depot) * np.sign(log_factor)
    known_count = int(np.count_nonzero(~np.isnan(other_shifts)))
    share = other_shifts[other_shifts >= SHARED]
    if len(share) < max(1, SHARE * known_count):
        return False
    same = shifts[depot] if not np.isnan(shifts[depot]) else log_factor
    factor = float(np.median([*share, abs(same)]))
    return not _exact(factor, ROUGH if len(share) + 1 >= FEED or factor >= HUGE else EXACT)


def _exact(factor: float, near: float) -> bool:
    """True if a factor (log10) is that of a unit."""
    return bool((np.abs(factor - UNITS) <= near).any())


def _medians(values: Floats) -> Doubles:
    """Medians over the last axis; NaN if nothing is known."""
    medians = np.full(values.shape[:-1], np.nan)
    has_value = ~np.isnan(values).all(axis=-1)
    medians[has_value] = np.nanmedian(values[has_value], axis=-1)
    return medians
