"""Bitemporal history of a depot-day: all versions, with the instants from which they were known,
and rejected rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import pandas as pd
import pyarrow.dataset as ds

from forecaster.config import Spec
from forecaster.config.messages import nearest
from forecaster.core.terminal import count
from forecaster.demand.history.point_in_time import current_rows, frame
from forecaster.errors import NoUsableData
from forecaster.lake import TABLES, Lake
from forecaster.operations.quarantine import STATES, QuarantinedRow, RowSelection, quarantined_rows


@dataclass(frozen=True)
class Version:
    """One version of the day's reading (bitemporal: its day, and the instant of its recording)."""

    depot_id: str  # as named in the source
    recorded_at: datetime
    demand: float | None
    open: bool | None
    covariates: dict[str, Any]
    source: str
    row: int
    batch: str
    counts: bool  # the version that a run as of now uses


@dataclass(frozen=True)
class Day:
    """Bitemporal history of one depot-day in the lake."""

    depot_id: str
    date: date
    versions: tuple[Version, ...]  # in the order in which they became known
    refused: tuple[QuarantinedRow, ...]


def versions(spec: Spec, depot_id: str, day: date) -> Day:
    """All versions of a depot-day, also under its former ids, and all rows rejected for it.

    Raises NoUsableData if the lake knows nothing of this day; the message states what it knows of
    the depot.
    """
    lake = Lake.of(spec)
    former = current_rows(frame(lake, "aliases"), ["alias"])
    names = [depot_id, *former.loc[former["depot_id"] == depot_id, "alias"]]
    where = ds.field("depot_id").isin(names)
    rows = lake.read("demand", where=where & (ds.field("date") == day)).to_pandas(date_as_object=False)
    rows = rows.sort_values(["recorded_at", "row"], kind="stable")
    selections = [RowSelection(depot_id=name) for name in names]
    of_depot = [row for selection in selections for row in quarantined_rows(spec, selection, states=STATES)]
    refused = [row for row in of_depot if row.date == day]
    if rows.empty and not refused:
        raise NoUsableData(_why_nothing(lake, depot_id, names, day))
    last = set(rows.groupby("depot_id").tail(1).index)
    further = [name for name in rows.columns if name not in TABLES["demand"].names]
    records = zip(rows.index, rows.to_dict("records"), strict=True)
    readings = tuple(_version(row, index in last, further) for index, row in records)
    return Day(depot_id, day, readings, tuple(sorted(refused, key=lambda row: row.recorded_at)))


def _version(row: dict[Any, Any], counts: bool, further: list[str]) -> Version:
    return Version(
        depot_id=row["depot_id"],
        recorded_at=row["recorded_at"].to_pydatetime().astimezone(UTC),
        demand=None if pd.isna(row["demand"]) else float(row["demand"]),
        open=None if pd.isna(row["open"]) else bool(row["open"]),
        covariates={name: row[name] for name in further if not pd.isna(row[name])},
        source=row["source"],
        row=int(row["row"]),
        batch=row["batch"],
        counts=counts,
    )


def _why_nothing(lake: Lake, depot_id: str, names: list[str], day: date) -> str:
    days = lake.read("demand", where=ds.field("depot_id").isin(names), columns=["date"])["date"].to_pylist()
    if days:
        return f"depot {depot_id!r} has no readings on {day}; its readings run from {min(days)} to {max(days)}"
    depots = lake.read("demand", columns=["depot_id"], codes=True)["depot_id"].unique().to_pylist()
    return f"no depot {depot_id!r} is known{nearest(depot_id, depots)}; the lake holds {count(len(depots), 'depot')}"
