"""Indexing of the dense arrays (depots, days): the position of each depot, day and known row.

A row is placed by integer position; nothing loops over depots, and each id is looked up only once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike, NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Bools, Days, Ints
from forecaster.core.knowledge import Knowledge
from forecaster.demand.panel.network_facts import NetworkFacts
from forecaster.errors import NoUsableData

Longs = NDArray[np.int64]
Span = tuple[int, int]  # first and last day, as numbers since 1970


@dataclass(frozen=True)
class Grid:
    """Depots sorted by id, and the days: `history` of them, then the horizon."""

    depots: pd.Index[Any]
    days: Days
    history: int
    today: Longs  # (depots,) first day that does not count as over, as a number since 1970

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.depots), len(self.days)

    @cached_property
    def numbers(self) -> Longs:
        """The days as numbers since 1970."""
        return self.days.astype(np.int64)

    def rows(self, depot_ids: Any) -> Ints:
        """Position of each depot, -1 if it is not in the panel."""
        return np.asarray(self.depots.get_indexer(depot_ids), np.int32)

    def columns(self, dates: Any) -> Ints:
        """Position of each date, -1 if it is not in the panel."""
        offset = np.asarray(dates, "datetime64[D]").astype(np.int64) - self.numbers[0]
        return np.where((offset >= 0) & (offset < len(self.days)), offset, -1).astype(np.int32)


@dataclass(frozen=True)
class Cells:
    """Cell of each row, as its position in the flattened grid; all rows outside share one cell
    after the last."""

    grid: Grid
    cell: Longs  # (rows,)

    @property
    def outside(self) -> int:
        return self.grid.shape[0] * self.grid.shape[1]

    def spread(self, values: Any, missing: Any, dtype: DTypeLike = np.float32) -> NDArray[Any]:
        """Spread one value per row over (depots, days); `missing` where there is no row."""
        flat = np.full(self.outside + 1, missing, dtype)
        flat[self.cell] = values
        return flat[:-1].reshape(self.grid.shape)


def lay_out(knowledge: Knowledge, spec: Spec, network: NetworkFacts | None = None) -> tuple[Grid, Cells]:
    """Lay out the grid from the first to the last observed day (or the cutoff set in the knowledge,
    or the days of the network) plus the horizon, and find the cell of each row of demand.

    A day is observed if its count is known and it is over: in the depot's own zone, and in the
    zones of at least half of the depots, so that a few depots ahead of the others do not end
    today's forecast for them. Raises NoUsableData if no day is observed.
    """
    ids, depot = coded(knowledge.demand["depot_id"])
    day, present, span = _observed(knowledge, ids, depot, spec, network)
    if network is not None and network.first_day is not None and network.last_day is not None:
        span = network.first_day, network.last_day
    if span is None:
        raise NoUsableData(
            f"no demand is known of any day before {knowledge.as_of.astimezone(spec.zone).date()}; wanted at least "
            "one counted day to start from"
        )
    first, last = span
    if knowledge.cutoff is not None:
        last = int(np.datetime64(knowledge.cutoff, "D").astype(np.int64))
    days = np.arange(first, last + spec.horizon + 1).astype("datetime64[D]")
    open_ = in_business(knowledge.depots, last) if _has_depot_table(knowledge, spec, network) else []
    depot_ids = pd.Index(sorted({*ids[present].tolist(), *open_}), dtype="str")
    today = _today(knowledge, depot_ids, spec, among=ids, network=network)
    grid = Grid(depot_ids, days, len(days) - spec.horizon, today)
    return grid, _cells(grid, ids, depot, day)


def observed_depots(knowledge: Knowledge, spec: Spec, network: NetworkFacts) -> tuple[list[str], Span | None]:
    """Depots with an observed day, and the first and last such day; None if there is none."""
    ids, depot = coded(knowledge.demand["depot_id"])
    _, present, span = _observed(knowledge, ids, depot, spec, network)
    return ids[present].tolist(), span


def half_over(zones: Mapping[str, int], spec: Spec, as_of: datetime) -> int:
    """First day that is not over for at least half of the depots, as a number since 1970, from the
    number of depots per zone ("" is the pipeline's)."""
    day_of = {zone: _local_day(as_of, ZoneInfo(zone) if zone else spec.zone) for zone in zones}
    days = np.repeat(*map(np.array, zip(*sorted((day_of[zone], count) for zone, count in zones.items()), strict=True)))
    return int(days[len(days) // 2])


def _observed(
    knowledge: Knowledge,
    ids: pd.Index[Any],
    depot: NDArray[np.signedinteger[Any]],
    spec: Spec,
    network: NetworkFacts | None,
) -> tuple[Longs, Bools, Span | None]:
    """Day of each row, as a copy that becomes the cells; marks of ids with an observed day; and the
    first and last such day."""
    frame = knowledge.demand
    day = np.array(frame["date"], "datetime64[D]").view(np.int64)
    today = _today(knowledge, ids, spec, network=network)
    is_listed = (
        pd.Index(knowledge.depots["depot_id"]).get_indexer(ids) >= 0
        if _has_depot_table(knowledge, spec, network)
        else np.ones(len(ids), np.bool_)
    )
    observed = np.append(is_listed, False)[depot]  # a row without a depot has position -1
    observed &= frame["demand"].notna().to_numpy()
    observed &= day < (today[0] if len(today) and (today == today[0]).all() else np.append(today, 0)[depot])
    present = np.zeros(len(ids), np.bool_)
    if not observed.any():
        return day, present, None
    present[depot[observed]] = True
    first = int(day.min(where=observed, initial=np.iinfo(np.int64).max))
    return day, present, (first, int(day.max(where=observed, initial=np.iinfo(np.int64).min)))


def _has_depot_table(knowledge: Knowledge, spec: Spec, network: NetworkFacts | None) -> bool:
    return spec.depots is not None and (len(knowledge.depots) > 0 if network is None else network.has_depot_table)


def cells(table: pd.DataFrame, grid: Grid) -> Cells:
    """Cell of each row of a table with depot_id and date."""
    ids, depot = coded(table["depot_id"])
    return _cells(grid, ids, depot, np.array(table["date"], "datetime64[D]").view(np.int64))


def coded(column: Any) -> tuple[pd.Index[Any], NDArray[np.signedinteger[Any]]]:
    """Distinct words of a column, and each row's position among them, -1 if missing."""
    categorical = column.array if isinstance(column.dtype, pd.CategoricalDtype) else pd.Categorical(column)
    return categorical.categories, np.asarray(categorical.codes)


def _cells(grid: Grid, ids: pd.Index[Any], depot: NDArray[np.signedinteger[Any]], day: Longs) -> Cells:
    """Cells of rows; overwrites `day`, to avoid another array of 50 million rows."""
    depots, days = grid.shape
    start = np.append(grid.depots.get_indexer(ids).astype(np.int64) * days, -days)
    day -= grid.numbers[0]
    outside: Bools = (day < 0) | (day >= days)
    day += start[depot]
    outside |= day < 0
    day[outside] = depots * days
    return Cells(grid, day)


def in_business(depots: pd.DataFrame, last: int) -> list[str]:
    """Depots of the depots source that have not closed by the last observed day."""
    closed = np.asarray(depots["closed"], "datetime64[D]")
    open_: list[str] = depots["depot_id"][np.isnat(closed) | (closed > np.datetime64(last, "D"))].tolist()
    return open_


def _today(
    knowledge: Knowledge,
    ids: pd.Index[Any],
    spec: Spec,
    among: pd.Index[Any] | None = None,
    network: NetworkFacts | None = None,
) -> Longs:
    """First day that does not count as over at as_of, for each id; half of `among` (by default the
    ids themselves), or of the network, must have reached it, too."""
    depots = knowledge.depots
    if "timezone" not in depots or not depots["timezone"].notna().any():
        today = _local_day(knowledge.as_of, spec.zone)
        return np.full(len(ids), today if network is None else min(today, network.half_over))
    zones = depots.set_index("depot_id")["timezone"]
    days = {zone: _local_day(knowledge.as_of, ZoneInfo(zone)) for zone in zones.dropna().unique()}
    days[spec.timezone] = _local_day(knowledge.as_of, spec.zone)

    def of(some: pd.Index[Any]) -> Longs:
        return np.asarray(zones.reindex(some).fillna(spec.timezone).map(days), np.int64)

    if network is not None:
        return np.minimum(of(ids), network.half_over)
    everyone = np.sort(of(ids if among is None else among))
    return np.minimum(of(ids), everyone[len(everyone) // 2]) if len(everyone) else of(ids)


def _local_day(instant: datetime, zone: ZoneInfo) -> int:
    return int(np.datetime64(instant.astimezone(zone).date(), "D").astype(np.int64))
