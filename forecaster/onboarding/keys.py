"""Keys of the pipeline file that `init --from` writes, each with its value and reason."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from forecaster.onboarding import column_names, parts
from forecaster.onboarding.days.lifespans import Lifespans
from forecaster.onboarding.days.record_times import RecordedAt
from forecaster.onboarding.description.readings import Description
from forecaster.onboarding.tables import FileTable

Entries = list[tuple[str, Any, str]]  # key, value, reason
_UPWARDS = 3  # maximum number of folders that a relative path climbs


def _plain_source(table: FileTable, folder: Path) -> Entries:
    """Notation of a file, independent of the meaning of its columns."""
    path, settings = parts.pattern(table), table.settings
    entries: Entries = [("kind", settings["kind"], ""), ("path", _path(path, folder), "")]
    reasons = {
        "delimiter": "splits most lines into the same number of fields",
        "encoding": "the encoding that decodes every character",
        "sheet": f"the sheet with the most values, of {len(table.cells.sheets)}",
        "date_format": "the dates are stored as such numbers",
        "header_row": "the first line as wide as the table; the lines above it are titles",
    }
    return entries + [(key, settings[key], reason) for key, reason in reasons.items() if key in settings]


def depots_source(table: FileTable, spans: Lifespans, folder: Path) -> Entries:
    """Keys of the source of depots, each with its value and reason."""
    form = [("date_format", spans.form, "the format of the opening and closing dates")] if spans.form else []
    return [*_plain_source(table, folder), *form]


def source(table: FileTable, readings: Description, folder: Path) -> Entries:
    """Keys of the source of readings, each with its value and reason."""
    entries = _plain_source(table, folder)
    thousands, decimal = readings.marks
    if table.settings["kind"] != "parquet":
        if thousands:
            entries.append(("thousands", thousands, "the thousands separator of the counts"))
        if decimal != ".":
            entries.append(("decimal", decimal, "the decimal separator of the counts"))
        if readings.date_form:
            rival = f"; '{readings.rival_form}' would fit as well" if readings.rival_form else ""
            entries.append(("date_format", readings.date_form, f"the format of the dates{rival}"))
    if readings.fill_down:
        entries.append(("fill_down", [readings.depot_column], "is only in the first row of each block"))
    if readings.layout in ("days", "depots"):
        laid_out = "days" if readings.layout == "days" else "depots"
        entries.append(("wide", laid_out, readings.why_demand))
        if readings.ignored:
            entries.append(("ignore", list(readings.ignored), "columns without readings"))
    return entries


def columns(
    readings: Description,
    order_id: str | None,
    open_column: str | None,
    stamps: RecordedAt,
    limits: Mapping[str, str] = MappingProxyType({}),
) -> Entries:
    """Keys of `demand.columns`, each with its column and reason."""
    rows: list[tuple[str, str | None, str, column_names.Role]] = [
        ("depot_id", readings.depot_column, "names the depot", "depot"),
        ("date", readings.date_column, "contains dates", "date"),
        ("demand", readings.demand_column, readings.why_demand, "demand"),
    ]
    entries: Entries = []
    for key, name, reason, role in rows:
        if key == "date" and len(readings.day.names) == 3:
            entries.append((key, list(readings.day.names), "contain year, month and day"))
        elif name is not None:
            by_name = column_names.says(name, role)
            how = reason if key == "demand" else f"{reason}, by its {'name' if by_name else 'values'}"
            entries.append((key, name, how))
    if open_column:
        entries.append(("open", open_column, "marks days on which a depot is open"))
    entries += [(key, name, "marks days on which demand was higher than the count") for key, name in limits.items()]
    if order_id:
        is_instant = order_id in readings.day.names
        evidence = "repeats timestamps with the same count" if is_instant else "has a unique value in each row"
        entries.append(("order_id", order_id, f"{evidence}: duplicates count once"))
    return [*entries, *([("recorded_at", stamps.column, stamps.reason)] if stamps.column else [])]


def limit_remarks(limits: Mapping[str, str]) -> list[str]:
    """Remarks about the columns of capped days, by key of `demand.columns`."""
    return [
        f"'{name}' marks days on which demand was higher than the count: demand is estimated (demand.columns.{key})"
        for key, name in limits.items()
    ]


def aggregate(readings: Description) -> tuple[str, str]:
    """Value of `demand.aggregate` and its reason."""
    of_parts = f"one for each '{readings.part}'" if readings.part else "such as hours or channels"
    reasons = {
        "none": "one row per depot and day",
        "sum": f"several rows per depot and day, {of_parts}, add up to its count",
        "count": readings.why_demand,
    }
    return readings.aggregate, reasons[readings.aggregate]


def _path(path: Path, folder: Path) -> str:
    relative = os.path.relpath(path.resolve(), folder.resolve())
    climbs = Path(relative).parts.count("..")
    return relative if climbs <= _UPWARDS else str(path.resolve())
