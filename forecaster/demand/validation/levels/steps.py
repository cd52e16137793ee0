"""Lasting steps of level: the counts of a depot, or of all, change by a fixed factor from one day
to the next.

A change of unit multiplies counts at once and keeps their relative noise. Such counts are accepted,
since a step may be demand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from forecaster.core.arrays import Floats
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, sentence
from forecaster.demand.validation.outliers import SURE

WEEK = 7
BEFORE, AFTER = 4 * WEEK, 2 * WEEK  # days used to detect a step, of which WEEK must follow it
LEAST_DEPOT, LEAST_FEED = 0.28, 0.17  # log10 of the smallest factor of one depot (1.9), and of all (1.48)
# share of a step by which this share of its days may differ, and by which all may
NOISE, MOST, FARTHEST = 0.35, 0.93, 0.75
SAME = 0.05  # log10 by which the steps of depots may differ
KNOWN = 0.7  # share of days that must be known
LOW = 4  # counts below it give no factor
ALIKE = 0.8  # share of the depots that make a step of all
# depots named in a finding, sampled for a step of all, and processed at a time
PLACES, SAMPLE, PORTION = 50, 1_000, 4_096


def findings(counts: Floats, fresh: Any, depots: pd.Index[Any], first: int) -> list[Finding]:
    """Warning about depots whose level changes by a fixed factor within one day of this batch, or
    about all of them.

    `counts` and `fresh` (depots, days) are of consecutive days from `first` (since 1970), NaN =
    unknown. A step is reported once, when its first week is over. Depots that step in one week by
    different factors share a change of demand.
    """
    new = np.flatnonzero(fresh.any(axis=0))
    if not len(new):
        return []
    oldest, newest = int(new[0]) - WEEK + 1, int(new[-1]) - WEEK + 1
    if len(counts) > 1:
        sample = _logs(counts[:: -(-len(counts) // SAMPLE)])
        middle = _medians((sample - _medians(sample)[:, None]).T)
        for _, day in [step for step in _steps(middle[None], LEAST_FEED) if oldest <= step[1] <= newest][-1:]:
            shifts = np.concatenate([_shifts_from(day, logs) for _, logs in _portions(counts)])
            known_shifts = shifts[~np.isnan(shifts)]
            shift = float(np.median(known_shifts)) if len(known_shifts) else np.nan
            same = np.abs(shifts - shift) <= SAME
            if len(known_shifts) and np.count_nonzero(same) >= ALIKE * len(known_shifts):
                return [_finding(np.flatnonzero(same), day, 10**shift, counts, depots, first)]
    steps = [(begin + row, day) for begin, logs in _portions(counts) for row, day in _steps(logs, LEAST_DEPOT)]
    days = np.array([day for _, day in steps])
    return [
        _finding(np.array([row]), day, 10 ** float(_shifts_from(day, _logs(counts[[row]]))[0]), counts, depots, first)
        for row, day in steps
        if oldest <= day <= newest
        and np.count_nonzero(np.abs(days - day) < WEEK) == 1
        and np.nanmedian(counts[row, day - WEEK : day]) >= SURE
    ]


def _logs(counts: Floats) -> Floats:
    """Logarithms (log10) of counts; NaN below LOW."""
    logs = np.full(counts.shape, np.nan, np.float32)
    return np.log10(counts, out=logs, where=counts >= LOW)


def _portions(counts: Floats) -> Iterator[tuple[int, Floats]]:
    """Logarithms of some depots at a time, with the row of the first: those of all take as much
    memory as the counts."""
    return ((begin, _logs(counts[begin : begin + PORTION])) for begin in range(0, len(counts), PORTION))


def _shifts_from(day: int, logs: Floats) -> Floats:
    """Median shift (log10) of the week from a day on; NaN if too few of its days, or none of the
    week before, are known."""
    shifts = _medians(_beside(logs, np.arange(len(logs)), np.full(len(logs), day))[:, BEFORE : BEFORE + WEEK])
    shifts[np.isnan(logs[:, day - WEEK : day]).all(axis=1)] = np.nan  # a message names the week before
    return shifts


def _steps(logs: Floats, least: float) -> list[tuple[int, int]]:
    """Rows and days of steps: from there on, the counts (log10) of a week differ by `least` or more
    from those of the weeks before, and are level before and after."""
    if logs.shape[1] < BEFORE + WEEK:
        return []
    row, day = _large(logs, least)
    relative_counts = _beside(logs, row, day)
    step = _medians(relative_counts[:, BEFORE : BEFORE + WEEK])
    relative_counts[:, BEFORE:] -= step[:, None]
    level = np.sort(np.abs(relative_counts) / np.maximum(np.abs(step), least)[:, None], axis=1)  # NaN last
    day_count = np.count_nonzero(~np.isnan(level), axis=1)
    place, last = np.arange(len(level)), np.maximum(day_count - 1, 0)
    is_step = (day_count >= KNOWN * level.shape[1]) & (np.abs(step) >= least)
    is_step &= (level[place, (MOST * last).astype(np.intp)] <= NOISE) & (level[place, last] <= FARTHEST)
    return list(zip(row[is_step].tolist(), day[is_step].tolist(), strict=True))


def _large(logs: Floats, least: float) -> tuple[Any, Any]:
    """Rows and days from which a week differs from the week before, while the day before did not."""
    changes = np.zeros(logs.shape, np.float32)
    changes[:, WEEK:] = np.abs(np.nan_to_num(logs[:, WEEK:] - logs[:, :-WEEK]))
    total = np.cumsum(changes >= least / 2, axis=1, dtype=np.int32)
    week = total[:, WEEK - 1 :].copy()
    week[:, 1:] -= total[:, :-WEEK]
    begins = week >= KNOWN * WEEK
    begins[:, 1:] &= 2 * changes[:, : week.shape[1] - 1] < changes[:, 1 : week.shape[1]]
    begins[:, 1:] &= ~np.isnan(logs[:, : week.shape[1] - 1])
    begins[:, :BEFORE] = False
    row, day = np.nonzero(begins)
    return row, day


def _beside(logs: Floats, row: Any, day: Any) -> Floats:
    """Counts (log10) of the weeks before and after a day (steps, BEFORE + AFTER) relative to the
    same weekdays of the weeks before it; NaN beyond the last day."""
    columns = day[:, None] + np.arange(-BEFORE, AFTER)
    counts = logs[row[:, None], np.minimum(columns, logs.shape[1] - 1)]
    counts[columns >= logs.shape[1]] = np.nan
    usual = _medians(np.moveaxis(counts[:, :BEFORE].reshape(-1, BEFORE // WEEK, WEEK), 1, 2))
    relative_counts: Floats = counts - np.tile(usual, (BEFORE + AFTER) // WEEK)
    return relative_counts


def _medians(values: Floats) -> Floats:
    """Medians over the last axis; NaN if fewer than half of the values are known."""
    ranked, count = np.sort(values, axis=-1), np.count_nonzero(~np.isnan(values), axis=-1)  # NaN last
    low, high = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, values.shape[-1] - 1)
    middle = [np.take_along_axis(ranked, place[..., None], -1)[..., 0] for place in (low, high)]
    medians: Floats = np.where(2 * count >= values.shape[-1], (middle[0] + middle[1]) / 2, np.nan).astype(np.float32)
    return medians


def _finding(rows: Any, day: int, factor: float, counts: Floats, depots: pd.Index[Any], first: int) -> Finding:
    since = np.datetime64(first + day, "D")
    row = rows[0]
    template = N_(
        "depot {depot}: found {after} a day from {day} on, {factor} times the {before} of the week before, at {n} of "
        "{all} depots at once; wanted the unit of the days before"
    )
    message = sentence(
        template,
        depot=str(depots[row]),
        day=since.astype(object),
        before=_rounded(counts[row, day - WEEK : day]),
        after=_rounded(counts[row, day : day + WEEK]),
        factor=amount(factor, ".2g") if factor > 1 else f"1/{1 / factor:.2g}",
        n=len(rows),
        all=int(np.count_nonzero(~np.isnan(counts).all(axis=1))),
    )
    places = tuple((str(depots[place]), str(since)) for place in rows[:PLACES])
    return Finding("unit_change", "warn", len(rows), message, places)


def _rounded(counts: Floats) -> str:
    return amount(float(f"{np.nanmedian(counts):.3g}"), "g")
