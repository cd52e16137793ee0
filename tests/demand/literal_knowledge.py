"""Pipeline files and knowledge from a few literal rows, shared by the tests of the panel."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pandas as pd

from forecaster.config import Spec, load
from forecaster.core.knowledge import Knowledge

NAN = float("nan")
AS_OF = datetime(2024, 3, 5, 3, 15, tzinfo=UTC)
DEPOTS = "{source: {kind: csv, path: depots.csv}, static: [city, country]}"
EVENTS = "events: {source: {kind: csv, path: events.csv}}"


def spec_of(
    folder: Path,
    depots: str | None = None,
    calendar: str = "holidays: false",
    columns: str = "",
    demand: str = "",
    more: str = "",
    horizon: int = 2,
) -> Spec:
    """Pipeline with the given horizon in days; the rest is the YAML of its sections."""
    text = f"name: t\nhorizon: {horizon}\n"
    text += f"demand: {{source: {{kind: csv, path: demand.csv}}, columns: {{{columns}}}{demand}}}\n"
    text += f"calendar: {{{calendar}}}\n" + (f"depots: {depots}\n" if depots else "") + more
    (folder / "pipeline.yaml").write_text(text, "utf-8")
    return load(folder / "pipeline.yaml")


def knowledge(
    demand: list[tuple[Any, ...]],
    columns: tuple[str, ...] = (),
    depots: list[dict[str, Any]] | None = None,
    events: list[dict[str, Any]] | None = None,
    *,
    as_of: datetime = AS_OF,
    refused: list[tuple[str, str]] | None = None,
) -> Knowledge:
    """Readings as (depot, date, count, other columns …), depots and events as dictionaries."""
    readings = pd.DataFrame(demand, columns=["depot_id", "date", "demand", *columns])
    readings = readings.astype({"depot_id": "category", "date": "datetime64[s]", "demand": "float64"})
    if "open" in columns:
        readings["open"] = readings["open"].astype("boolean")
    depot_table = pd.DataFrame(
        depots or [], columns=list(dict.fromkeys(["depot_id", "opened", "closed", *(depots or [{}])[0]]))
    )
    for name in ("opened", "closed"):
        depot_table[name] = pd.to_datetime(depot_table[name])
    event_table = pd.DataFrame(
        events or [], columns=["date", "kind", "name", "depot_id", "city", "subdivision", "country"]
    )
    event_table["date"] = pd.to_datetime(event_table["date"])
    quarantined = None
    if refused is not None:
        quarantined = pd.DataFrame(refused, columns=["depot_id", "date"]).astype({"date": "datetime64[s]"})
    return Knowledge(as_of, readings, depot_table, event_table, {}, quarantined)


def days(first: str, last: str) -> list[str]:
    return [str(day.date()) for day in pd.date_range(first, last)]
