"""Rebuilt windows, and the check that they are the published ones: the seasonal naive reproduces
its published scores.

Windows are those of fev 0.8.0 (`past_future_split`). Its seasonal naive repeats the last season of
the forward-filled past, and forecasts 0 if nothing was known.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
import pandas as pd

from forecaster.core.arrays import Bools, Days, Doubles
from tests.benchmarks.published.tasks import PublishedTask
from tests.benchmarks.published.window_scores import mean_scores, scores_of

PROVING = ("MASE", "WAPE")
TOLERANCE = 0.0005  # three digits after the point
LEVELS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


class WindowsDiffer(Exception):
    """The rebuilt windows are not the published ones, or nothing proves that they are."""


@dataclass(frozen=True)
class SeriesTable:
    """All series, aligned at their ends."""

    ids: tuple[str, ...]
    values: Doubles  # (series, days); NaN where unknown, and before the first day
    ends: Days  # (series,) last day of each
    lengths: Doubles  # (series,) days from the first to the last, inclusive

    def past(self, window: Window) -> Doubles:
        """Return the actuals up to a window's cutoffs, (series of the window, days), aligned at the
        cutoffs."""
        after = (self.ends - window.cutoffs).astype(int)[window.rows, None]
        columns = np.arange(self.values.shape[1] - after.min()) - (after - after.min())
        past = np.take_along_axis(self.values[window.rows], np.maximum(columns, 0), axis=1)
        return np.where(columns < 0, np.nan, past)


@dataclass(frozen=True)
class Window:
    """One cutoff of every series in the window."""

    rows: Bools  # (series,) True for the series in the window
    cutoffs: Days  # (series,) the last known day, also of series outside the window
    actual: Doubles  # (series of the window, horizon)


def aligned(frame: pd.DataFrame) -> SeriesTable:
    """Return the table of a frame whose series are complete daily grids, sorted by id and date."""
    ids, start, lengths = np.unique(frame["depot_id"].to_numpy(str), return_index=True, return_counts=True)
    days = frame["date"].to_numpy("datetime64[D]")
    ends = days[start + lengths - 1]
    if ((ends - days[start]).astype(int) != lengths - 1).any():
        raise ValueError("a series lacks days; wanted one row for each day from its first to its last")
    values = np.full((len(ids), int(lengths.max())), np.nan)
    column = np.arange(len(frame)) - np.repeat(start + lengths, lengths) + values.shape[1]
    values[np.repeat(np.arange(len(ids)), lengths), column] = frame["demand"].to_numpy(float, na_value=np.nan)
    return SeriesTable(tuple(ids.tolist()), values, ends, lengths.astype(float))


def windows_of(task: PublishedTask, table: SeriesTable) -> tuple[Window, ...]:
    """Return the task's windows, oldest first. Raises WindowsDiffer if one of them has no series."""
    first = task.first_cutoff
    cutoffs = np.full_like(table.ends, np.datetime64(first)) if isinstance(first, date) else table.ends + first
    windows = []
    for number in range(task.windows):
        here = cutoffs + number * task.step
        after = (table.ends - here).astype(int)
        rows = (after < table.lengths) & (after >= task.horizon)
        if not rows.any():
            raise WindowsDiffer(f"{task.name}: no series reaches from cutoff {here.max()} to {task.horizon} days later")
        columns = table.values.shape[1] - after[rows, None] + np.arange(task.horizon)
        windows.append(Window(rows, here, np.take_along_axis(table.values[rows], columns, axis=1)))
    return tuple(windows)


def seasonal_naive(past: Doubles, horizon: int, season: int) -> Doubles:
    """Return the last season of the forward-filled past, repeated, (series, horizon)."""
    filled = pd.DataFrame(past).ffill(axis=1).fillna(0.0).to_numpy()
    return filled[:, -season:][:, np.arange(horizon) % season]


def proved_windows(
    task: PublishedTask, table: SeriesTable, published: Mapping[str, float]
) -> tuple[tuple[Window, ...], Mapping[str, float]]:
    """Return the task's windows, and the seasonal naive's MASE and WAPE in them, as far as they are
    `published`.

    Raises WindowsDiffer if neither is published, or, with both numbers, if one differs from the
    published one within three digits.
    """
    proving = [metric for metric in PROVING if metric in published]
    if not proving:
        raise WindowsDiffer(
            f"{task.name}: neither MASE nor WAPE of the seasonal naive is published; wanted one as proof"
        )
    windows = windows_of(task, table)
    rebuilt = mean_scores([_naive_scores(task, table, window) for window in windows])
    for metric in proving:
        if not abs(rebuilt[metric] - published[metric]) < TOLERANCE:
            raise WindowsDiffer(
                f"{task.name}: the seasonal naive's {metric} is {rebuilt[metric]:.6f} in the rebuilt windows, and "
                f"{published[metric]:.6f} as published; wanted the same to three digits, so no score is compared"
            )
    return windows, {metric: rebuilt[metric] for metric in proving}


def scores_in(
    task: PublishedTask, table: SeriesTable, windows: Sequence[Window], quantiles: Sequence[Doubles]
) -> list[dict[str, float]]:
    """Return the scores of each window's quantiles, (series of the window, horizon, levels)."""
    return [
        scores_of(window.actual, forecast, LEVELS, table.past(window), task.season)
        for window, forecast in zip(windows, quantiles, strict=True)
    ]


def _naive_scores(task: PublishedTask, table: SeriesTable, window: Window) -> Mapping[str, float]:
    past = table.past(window)
    point = seasonal_naive(past, task.horizon, task.season)
    return scores_of(window.actual, point[:, :, None], (0.5,), past, task.season)


def count_forecasts(windows: Sequence[Window]) -> int:
    """Return the number of forecasts: the series of all windows."""
    return sum(len(window.actual) for window in windows)
