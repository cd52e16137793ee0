"""Delta tables of the lake: their names and schemas."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import pyarrow as pa

from forecaster.errors import LakeError

INSTANT = pa.timestamp("us", tz="UTC")
TEXT, _DAY, _LEVELS, _QUANTILES = pa.string(), pa.date32(), pa.list_(pa.float64()), pa.list_(pa.float32())

TABLES: Mapping[str, pa.Schema] = MappingProxyType(
    {
        # readings that passed the contract; a restated value is a new row; covariates are
        # additional columns
        "demand": pa.schema(
            [
                ("depot_id", TEXT),
                ("date", _DAY),
                ("demand", pa.float64()),
                ("open", pa.bool_()),
                ("source", TEXT),
                ("batch", TEXT),
                ("row", pa.int64()),
                ("recorded_at", INSTANT),
            ]
        ),
        # a day's orders by half hour of local time; a restated day is a new row
        "half_hours": pa.schema(
            [
                ("depot_id", TEXT),
                ("date", _DAY),
                ("orders", pa.list_(pa.float32())),
                ("recorded_at", INSTANT),
            ]
        ),
        # readings that failed the contract, in full, with the broken rule
        "quarantine": pa.schema(
            [
                ("id", TEXT),
                ("depot_id", TEXT),
                ("date", _DAY),
                ("source", TEXT),
                ("batch", TEXT),
                ("row", pa.int64()),
                ("rule", TEXT),
                ("message", TEXT),
                ("content", TEXT),
                ("recorded_at", INSTANT),
            ]
        ),
        # decisions of people about quarantined rows; the last decision counts
        "decisions": pa.schema(
            [
                ("id", TEXT),
                ("action", TEXT),
                ("by", TEXT),
                ("reason", TEXT),
                ("recorded_at", INSTANT),
            ]
        ),
        # outcome of each batch: read = accepted + unchanged + quarantined
        "batches": pa.schema(
            [
                ("batch", TEXT),
                ("source", TEXT),
                ("read", pa.int64()),
                ("accepted", pa.int64()),
                ("unchanged", pa.int64()),
                ("quarantined", pa.int64()),
                ("stopped", pa.bool_()),
                ("watermark", TEXT),
                ("recorded_at", INSTANT),
            ]
        ),
        # facts about depots; static attributes are additional columns of words
        "depots": pa.schema(
            [
                ("depot_id", TEXT),
                ("opened", _DAY),
                ("closed", _DAY),
                ("timezone", TEXT),
                ("retracted", pa.bool_()),
                ("recorded_at", INSTANT),
            ]
        ),
        "events": pa.schema(
            [
                ("date", _DAY),
                ("kind", TEXT),
                ("name", TEXT),
                ("depot_id", TEXT),
                ("city", TEXT),
                ("subdivision", TEXT),
                ("country", TEXT),
                ("retracted", pa.bool_()),
                ("recorded_at", INSTANT),
            ]
        ),
        # former depot ids and their current depots
        "aliases": pa.schema(
            [
                ("alias", TEXT),
                ("depot_id", TEXT),
                ("retracted", pa.bool_()),
                ("recorded_at", INSTANT),
            ]
        ),
        # the archive of every run's forecasts: `quantiles[i]` belongs to `levels[i]`
        "forecasts": pa.schema(
            [
                ("run_id", TEXT),
                ("recorded_at", INSTANT),
                ("bundle", TEXT),
                ("tier", TEXT),
                ("depot_id", TEXT),
                ("cutoff", _DAY),
                ("target_date", _DAY),
                ("horizon", pa.int32()),
                ("levels", _LEVELS),
                ("quantiles", _QUANTILES),
                ("override", pa.int64()),
            ]
        ),
        # forecasts of champion and canary for all depots, whichever was shown; `role` is champion
        # or canary
        "canary_forecasts": pa.schema(
            [
                ("run_id", TEXT),
                ("recorded_at", INSTANT),
                ("role", TEXT),
                ("bundle", TEXT),
                ("depot_id", TEXT),
                ("cutoff", _DAY),
                ("target_date", _DAY),
                ("horizon", pa.int32()),
                ("levels", _LEVELS),
                ("quantiles", _QUANTILES),
            ]
        ),
        "scores": pa.schema(
            [
                ("run_id", TEXT),
                ("recorded_at", INSTANT),
                ("model", TEXT),
                ("cutoff", _DAY),
                ("depot_id", TEXT),
                ("target_date", _DAY),
                ("horizon", pa.int32()),
                ("levels", _LEVELS),
                ("quantiles", _QUANTILES),
                ("actual", pa.float32()),
            ]
        ),
        # the fleet whose demand the lake holds; the first row counts
        "owners": pa.schema([("fleet", TEXT), ("recorded_at", INSTANT)]),
    }
)
GROWING = frozenset({"demand", "depots"})  # tables that take additional columns from the sources
GREW = frozenset({"forecasts"})  # tables that once had fewer columns
YEAR = "year"  # of the day; demand is partitioned by it


def schema_of(table: str) -> pa.Schema:
    if table not in TABLES:
        raise LakeError(f"unknown lake table '{table}'; wanted one of {', '.join(TABLES)}")
    return TABLES[table]
