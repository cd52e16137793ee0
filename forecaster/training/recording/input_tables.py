"""Input datasets of a run: columns and summary numbers of each table that a night read.

The digest depends on the table's version in the lake, its columns and these numbers: it identifies
the content without reading every cell.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from forecaster.core.forecast import Scores
from forecaster.core.knowledge import Knowledge
from forecaster.evaluation.metrics import scored
from forecaster.lake import NOT_THERE, TABLES
from forecaster.registry.run_record import EVALUATED, InputTable


def tables_read(knowledge: Knowledge) -> Iterator[InputTable]:
    """Yield the tables of the lake from which a night's panel was made."""
    frames = {"demand": knowledge.demand, "depots": knowledge.depots, "events": knowledge.events}
    for name, version in knowledge.versions.items():
        if version == NOT_THERE:
            continue
        if name in frames:
            columns = {str(column): _kind_of(frames[name][column]) for column in frames[name].columns}
            yield _table(name, version, columns, _profile(name, frames[name]))
        else:
            yield _table(name, version, {field.name: _kind(field.type) for field in TABLES[name]}, {})


def held_out_days(scores: Scores) -> InputTable:
    """Return the days on which the metrics of a run are measured: those of its backtest."""
    days = scored(scores.folds, scores.scale)
    profile = {
        "depot_days": len(days.actual),
        "depots": len(np.unique(days.depot)),
        "folds": len(scores.folds),
        "orders": float(np.sum(days.actual)),
        **({"first": str(days.day.min()), "last": str(days.day.max())} if len(days.day) else {}),
    }
    columns = {"depot_id": "string", "target_date": "datetime", "horizon": "long", "actual": "double"}
    return _table(EVALUATED, None, columns, profile)


def _kind_of(column: Any) -> str:
    """Return the type of a frame's column, as MLflow names it."""
    if pd.api.types.is_bool_dtype(column.dtype):
        return "boolean"
    if pd.api.types.is_datetime64_any_dtype(column.dtype):
        return "datetime"
    if pd.api.types.is_numeric_dtype(column.dtype):
        return "double"
    return "string"


def _kind(of_arrow: pa.DataType) -> str:
    if pa.types.is_temporal(of_arrow):
        return "datetime"
    if pa.types.is_boolean(of_arrow):
        return "boolean"
    return "double" if pa.types.is_integer(of_arrow) or pa.types.is_floating(of_arrow) else "string"


def _profile(name: str, frame: Any) -> dict[str, Any]:
    profile: dict[str, Any] = {"rows": len(frame)}
    if len(frame) and "date" in frame.columns:
        profile |= {"first": f"{frame['date'].min():%Y-%m-%d}", "last": f"{frame['date'].max():%Y-%m-%d}"}
    if name == "demand":
        is_known = frame["demand"].notna()
        profile |= {"depots": int(frame["depot_id"].nunique()), "known": int(is_known.sum())}
        profile["orders"] = float(frame["demand"].sum())
    if name == "events":
        profile["kinds"] = {str(kind): int(n) for kind, n in sorted(frame["kind"].value_counts().items())}
    return profile


def _table(name: str, version: int | None, columns: Mapping[str, str], profile: Mapping[str, Any]) -> InputTable:
    content = json.dumps([name, version, dict(columns), dict(profile)], sort_keys=True).encode(errors="replace")
    prefix = "" if version is None else f"v{version}-"
    return InputTable(name, f"{prefix}{hashlib.sha256(content).hexdigest()[:12]}", columns, profile, version)
