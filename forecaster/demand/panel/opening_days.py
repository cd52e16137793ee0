"""Missing-value semantics: the days on which a depot is open, and the days without a row that had
no demand.

Two arrays distinguish the four states of a depot-day: counted (a count, open), zero (0, open),
closed (not open, whatever the count) and missing (NaN, open).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Bools, Floats, Ints
from forecaster.demand.panel.business_days import declared_span
from forecaster.demand.panel.events import AnnouncedEvents
from forecaster.demand.panel.grid import Grid

# a depot closed on this many same weekdays in a row is expected to be closed on the next
CLOSED_WEEKS = 4
CLOSURE = "closure"
DeclaredOpen = NDArray[np.int8]  # (depots, days): 1 open, 0 closed, -1 not stated by the source

_NEVER = np.iinfo(np.int32).max


def days_open(
    counts: Floats,
    declared_open: DeclaredOpen | None,
    announced: AnnouncedEvents,
    depots: pd.DataFrame,
    spec: Spec,
    grid: Grid,
) -> Bools:
    """Mark depot-days in business and not closed, (depots, days). Orders prove that a depot was
    open, and counts on most of the newest days that it still is (`business_days`)."""
    has_report = ~np.isnan(counts)
    table = depots.set_index("depot_id").reindex(grid.depots)
    table = declared_span(table, counts[:, : grid.history], grid.days[: grid.history])
    start = _opening(has_report, table, grid)
    if declared_open is not None:
        has_report |= declared_open == 0
    end = _closing(has_report[:, : grid.history], table, spec, grid)
    columns = np.arange(len(grid.days), dtype=np.int32)
    result: Bools = (columns >= start[:, None]) & (columns < end[:, None])
    announced.paint(result, CLOSURE, False)
    if declared_open is not None:
        result &= ~_declared_closed(declared_open)
    result[counts > 0] = True
    return result


def feed_counts(counts: Floats, is_open: Bools, grid: Grid) -> NDArray[np.int64]:
    """Number of counted open depots on each day, and of open ones, (2, history)."""
    open_, has_count = is_open[:, : grid.history], ~np.isnan(counts[:, : grid.history])
    return np.stack([np.count_nonzero(cells, axis=0).astype(np.int64) for cells in (has_count & open_, open_)])


def has_feed(feed: NDArray[np.int64]) -> Bools:
    """Days on which at least half of the open depots were counted, from `feed_counts`."""
    counted_depots, open_depots = feed
    result: Bools = (2 * counted_depots >= open_depots) & (counted_depots > 0)
    return result


def without_demand(
    counts: Floats, is_open: Bools, rows: Bools, spec: Spec, grid: Grid, days_of_feed: Bools | None = None
) -> Bools:
    """Mark days on which a missing row means no demand (`demand.missing: zero`), (depots, history);
    `rows` marks days with a row, and `days_of_feed` the days with the network's feed, by default
    that of these depots.

    A day counts so if the depot is open, at least half of the open depots were counted, and rows
    for it are no longer expected (`demand.rules.late_days` have passed; in an archive nothing is
    late). Until then, and on days on which the feed itself was silent, a missing count is unknown.
    So is the count of a day with a row, and any of a depot that never had a count: nothing shows
    that the feed covers it.
    """
    open_, has_count = is_open[:, : grid.history], ~np.isnan(counts[:, : grid.history])
    if days_of_feed is None:
        days_of_feed = has_feed(feed_counts(counts, is_open, grid))
    archive = spec.demand.recorded == "next_day" and spec.demand.columns.recorded_at is None
    late_days = 0 if archive else spec.demand.rules.late_days
    is_final: Bools = grid.numbers[: grid.history] + late_days < grid.today[:, None]
    result: Bools = is_final & days_of_feed & open_
    result &= ~rows[:, : grid.history]
    result &= ~has_count & np.any(has_count, axis=1, keepdims=True)
    return result


def _opening(has_count: Bools, table: pd.DataFrame, grid: Grid) -> Ints:
    """Column of each depot's first day: the declared one, else that of its first count, else the
    panel's first."""
    first = has_count.argmax(axis=1)  # 0 if there is none
    return _column(table["opened"], grid, otherwise=first)


def _closing(has_report: Bools, table: pd.DataFrame, spec: Spec, grid: Grid) -> Ints:
    """Column of each depot's first day out of business: the declared one, else derived from its
    silence.

    A depot without any report for more than `demand.rules.closed_after_days` up to the last day
    counts as closed from the day on which that limit was passed. The days before stay open and
    unknown, so that an earlier cutoff sees the depot as it seemed then. This does not apply to a
    depot that never reported or that opens later.
    """
    last = np.where(has_report.any(axis=1), grid.history - 1 - has_report[:, ::-1].argmax(axis=1), _NEVER)
    limit = spec.demand.rules.closed_after_days
    is_silent = grid.history - 1 - last > limit
    is_silent &= _column(table["opened"], grid, otherwise=0) < grid.history
    return _column(table["closed"], grid, otherwise=np.where(is_silent, last + limit + 1, _NEVER))


def _column(dates: Any, grid: Grid, otherwise: Any) -> Ints:
    """Columns of dates, also before and after the panel's days; `otherwise` if there is none."""
    days = np.asarray(dates, "datetime64[D]")
    columns: Ints = np.where(np.isnat(days), otherwise, days.astype(np.int64) - grid.numbers[0]).astype(np.int32)
    return columns


def _declared_closed(declared_open: DeclaredOpen) -> Bools:
    """Mark days declared closed; where the source states nothing, days on which the depot was
    closed on the last four stated same weekdays."""
    result: Bools = declared_open == 0
    for weekday in range(min(7, declared_open.shape[1])):
        same_weekday = declared_open[:, weekday::7]
        known_count = np.cumsum(same_weekday >= 0, axis=1, dtype=np.int16)
        last_open = np.maximum.accumulate(np.where(same_weekday == 1, known_count, np.int16(0)), axis=1)
        result[:, weekday::7] |= (same_weekday < 0) & (known_count - last_open >= CLOSED_WEEKS)
    return result
