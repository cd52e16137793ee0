"""Bring the declared sources into the lake.

Depots and events are snapshots: what is new, changed or gone since the last one is appended. Readings pass the contract
first. Ingesting the same sources again appends nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from forecaster.demand import contract, snapshots, sources, text
from forecaster.errors import NoUsableData
from forecaster.lake import TABLES, Lake
from forecaster.spec import Spec
from forecaster.values import Bools, Finding, Knowledge

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = pd.Timedelta(microseconds=1)


@dataclass(frozen=True)
class Ingested:
    """What became of the readings of one batch: read = accepted + unchanged + quarantined."""

    batch: str
    read: int
    accepted: int
    unchanged: int
    quarantined: int
    findings: tuple[Finding, ...]
    versions: Mapping[str, int]


def ingest(spec: Spec, *, now: datetime) -> Ingested:
    """Read the sources and append what is new to the lake; `now` is the instant of arrival.

    Raises SourceError when a source cannot be read, SpecError when it does not fit the pipeline file, LakeError when
    the lake cannot take the rows.
    """
    lake = Lake(spec.lake_url)
    outcome, additions = _plan(spec, lake, now)
    for table, rows in additions.items():
        lake.append(table, rows)
    return _outcome(outcome, lake)


def dry_run(spec: Spec, *, now: datetime) -> Ingested:
    """What `ingest` would answer, with nothing written. Raises as `ingest` does."""
    lake = Lake(spec.lake_url)
    return _outcome(_plan(spec, lake, now)[0], lake)


def know(spec: Spec, *, as_of: datetime) -> Knowledge:
    """What the lake knew at an instant: of each depot and day, of each depot and each event the latest version.

    In an archive (`demand.recorded: next_day`) the known-future covariates of the days right after as_of are known too.
    Raises NoUsableData when no demand was known by then, LakeError when the lake cannot be read.
    """
    lake = Lake(spec.lake_url)
    versions = {table: version for table, version in lake.versions().items() if table in ("demand", "depots", "events")}
    everything = _frame(lake, "demand", version=versions["demand"])
    instant = pd.Timestamp(as_of)
    demand = everything[everything["recorded_at"] <= instant]
    if not demand["demand"].notna().any():
        raise NoUsableData(_nothing_known(spec, everything, as_of))
    if _archive(spec):
        demand = pd.concat([demand, _announced(everything, demand, spec)], ignore_index=True)
    demand = _latest(demand, ["depot_id", "date"])
    covariates = [name for name in spec.calendar.known_future if name in demand and name != "open"]
    standing = {
        table: _standing(_frame(lake, table, version=versions[table], until=as_of), key)
        for table, key in (("depots", ["depot_id"]), ("events", snapshots.EVENT))
    }
    columns = ["depot_id", "date", "demand", "open", *covariates]
    return Knowledge(as_of, demand[columns].reset_index(drop=True), standing["depots"], standing["events"], versions)


def _plan(spec: Spec, lake: Lake, now: datetime) -> tuple[Ingested, dict[str, pd.DataFrame]]:
    """What is to be appended, table by table; nothing is written."""
    findings: list[Finding] = []
    depots = snapshots.depots(spec, findings) if spec.depots else None
    events = snapshots.events(spec, depots, findings) if spec.calendar.events else None
    additions = {}
    if depots is not None:
        additions["depots"] = _changes(depots, _frame(lake, "depots"), ["depot_id"], now)
    if events is not None:
        additions["events"] = _changes(events, _frame(lake, "events"), snapshots.EVENT, now)

    source = spec.demand.source
    known = _frame(lake, "demand")
    readings = _readings(spec)
    ever = None if depots is None else set(depots["depot_id"]) | set(_frame(lake, "depots")["depot_id"])
    checked = contract.check(
        readings,
        spec,
        source=sources.name(source),
        batch=(batch := sources.digest(source, spec)),
        recorded_now=now,
        known_depots=ever,
        kinds={name: text.kind_of(known[name]) for name in known.columns.difference(TABLES["demand"].names)},
    )
    fresh = _fresh(checked.accepted, known, spec, now)
    findings += [*checked.findings, *contract.late(fresh, spec), *_gaps(known, fresh, depots, spec)]
    additions["quarantine"] = _not_yet(checked.quarantined, _frame(lake, "quarantine"))
    additions["demand"] = fresh
    unchanged = len(checked.accepted) - len(fresh)
    outcome = Ingested(batch, len(readings), len(fresh), unchanged, len(checked.quarantined), tuple(findings), {})
    assert outcome.read == outcome.accepted + outcome.unchanged + outcome.quarantined
    return outcome, additions


def _outcome(outcome: Ingested, lake: Lake) -> Ingested:
    return replace(outcome, versions=lake.versions())


def _readings(spec: Spec) -> pd.DataFrame:
    """The rows of the demand source, with the known-future covariates that are columns of it."""
    columns, future = spec.demand.columns, spec.calendar.known_future
    wanted = [columns.depot_id, columns.date, columns.demand, columns.open, columns.recorded_at]
    # without an events source every known-future covariate has to be a column
    must, may = ((), future) if spec.calendar.events else (future, ())
    return sources.read(spec.demand.source, spec, [*(name for name in wanted if name), *must], may)


def _changes(snapshot: pd.DataFrame, history: pd.DataFrame, key: list[str], now: datetime) -> pd.DataFrame:
    """Rows that are new or changed, and, retracted, those that are gone. The first snapshot was known all along."""
    snapshot = snapshot.assign(retracted=pd.array([False] * len(snapshot), "boolean"))
    if history.empty:
        return snapshot.assign(recorded_at=pd.Timestamp(EPOCH))
    stands = _latest(history, key).reindex(columns=snapshot.columns)
    both = pd.concat([stands, snapshot], ignore_index=True)
    changed = snapshot[~both.duplicated().to_numpy()[len(stands) :]]
    kept = pd.concat([snapshot, stands], ignore_index=True).duplicated(key).to_numpy()[len(snapshot) :]
    gone = stands[~kept & ~stands["retracted"].astype(bool).to_numpy()]
    rows = pd.concat([changed, gone.assign(retracted=pd.array([True] * len(gone), "boolean"))], ignore_index=True)
    stamp = max(pd.Timestamp(now), history["recorded_at"].max() + _MICROSECOND)
    return rows.assign(recorded_at=stamp.tz_convert("UTC").as_unit("us"))


def _fresh(accepted: pd.DataFrame, known: pd.DataFrame, spec: Spec, now: datetime) -> pd.DataFrame:
    """The accepted readings that the lake does not hold yet.

    A source without `recorded_at` repeats itself every night: a reading is new when it differs from the latest version.
    Where the value of a version that is there was changed in place, the new value counts as recorded now.
    """
    if known.empty or accepted.empty:
        return accepted
    day = ["depot_id", "date"]
    covariates = [name for name in accepted.columns if name not in TABLES["demand"].names]
    values = [*day, "demand", "open", *covariates]
    declared = spec.demand.columns.recorded_at is not None
    latest = _latest(known.reindex(columns=known.columns.union(values, sort=False)), day)
    before = known.reindex(columns=[*values, "recorded_at"]) if declared else latest[values]
    fresh = accepted[~_held(accepted, before)]
    if declared:  # only a version that is there already, and is the last one of its day, can have been changed in place
        contested = _held(fresh[[*day, "recorded_at"]], known[[*day, "recorded_at"]])
        newest = fresh["recorded_at"] == accepted.groupby(day)["recorded_at"].transform("max").loc[fresh.index]
        contested = contested & newest.to_numpy()
        settled = contested & _held(fresh[values], latest[values])
        fresh, contested = fresh[~settled], contested[~settled]
    else:
        contested = _held(fresh[day], latest[day])
    if not contested.any():
        return fresh
    last = fresh[day].merge(latest[[*day, "demand", "recorded_at"]], how="left", on=day).set_axis(fresh.index)
    arrival = pd.Timestamp(now).tz_convert("UTC").as_unit("us")
    # a day of which only covariates were known gets its first count: that is no restatement
    own = fresh["recorded_at"].where(last["demand"].isna() & (not declared), arrival)
    restated = own.where(own > last["recorded_at"], last["recorded_at"] + _MICROSECOND)
    return fresh.assign(recorded_at=fresh["recorded_at"].where(~contested, restated))


def _held(rows: pd.DataFrame, before: pd.DataFrame) -> Bools:
    """Which rows are among those before, in all columns of the latter."""
    rows = rows[before.columns]
    both = pd.concat([before, rows], ignore_index=True)
    held: Bools = both.duplicated().to_numpy()[len(before) :]
    if rows.duplicated().any():  # then a row may repeat one of its own kind, which is not one before
        group = both.groupby(list(both.columns), dropna=False, sort=False).ngroup().to_numpy()
        held = np.isin(group[len(before) :], group[: len(before)])
    return held


def _not_yet(quarantined: pd.DataFrame, known: pd.DataFrame) -> pd.DataFrame:
    same = ["source", "rule", "content"]
    return quarantined[~_held(quarantined, known[same])]


def _gaps(known: pd.DataFrame, fresh: pd.DataFrame, depots: pd.DataFrame | None, spec: Spec) -> list[Finding]:
    """Depots in business that fell silent: no reading for long while others have some."""
    columns = ["depot_id", "date", "demand", "open"]
    readings = pd.concat([known[columns], fresh[columns]], ignore_index=True) if len(known) else fresh[columns]
    told = readings[readings["demand"].notna() | (readings["open"] == False).fillna(False)]  # noqa: E712
    if told.empty:
        return []
    last = told.groupby("depot_id")["date"].max()
    newest = last.max()
    if depots is not None:
        table = depots.set_index("depot_id")
        table = table[~(table["closed"] <= newest)]
        last = last.reindex(table.index)
        last = last.where(last.notna(), table["opened"])
    silent = (newest - last).dt.days.sort_values(ascending=False, kind="stable")
    limit = spec.demand.rules.max_gap_days
    silent = silent[silent > limit]
    if silent.empty:
        return []
    found = f"depot {silent.index[0]}: found no reading for {silent.iloc[0]:.0f} days up to {newest.date()}"
    return [
        Finding(
            "gap",
            "warn",
            len(silent),
            f"{found}, wanted at most {limit} (demand.rules.max_gap_days), or its closing day",
        )
    ]


def _frame(lake: Lake, table: str, *, version: int | None = None, until: datetime | None = None) -> pd.DataFrame:
    where = None if until is None else ds.field("recorded_at") <= pa.scalar(until, pa.timestamp("us", tz="UTC"))
    rows = lake.read(table, where=where, version=version)
    found: pd.DataFrame = rows.to_pandas(
        date_as_object=False, ignore_metadata=True, types_mapper={pa.bool_(): pd.BooleanDtype()}.get
    )
    return found


def _latest(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """The last recorded version of each key; of one instant, that of the later row."""
    if not rows.duplicated(key).any():
        return rows
    order = ["recorded_at", "row"] if "row" in rows else ["recorded_at"]
    return rows.sort_values(order, kind="stable").drop_duplicates(key, keep="last")


def _standing(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    found: pd.DataFrame = _latest(rows, key)
    return found[~found["retracted"].astype(bool)].drop(columns=["retracted", "recorded_at"]).reset_index(drop=True)


def _archive(spec: Spec) -> bool:
    return spec.demand.recorded == "next_day" and spec.demand.columns.recorded_at is None


def _announced(everything: pd.DataFrame, demand: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    """The covariates of the horizon, from rows that an archive holds for later; their counts stay unknown."""
    cutoff = demand.loc[demand["demand"].notna(), "date"].max()
    ahead = (everything["date"] > cutoff) & (everything["date"] <= cutoff + pd.Timedelta(days=spec.horizon))
    rows: pd.DataFrame = everything[ahead].assign(demand=np.nan, recorded_at=pd.Timestamp(EPOCH).as_unit("us"))
    if "open" not in spec.calendar.known_future:
        rows = rows.assign(open=pd.array([None] * len(rows), "boolean"))
    return rows


def _nothing_known(spec: Spec, everything: pd.DataFrame, as_of: datetime) -> str:
    observed = everything[everything["demand"].notna()]
    if observed.empty:
        return f"the lake at {spec.lake_url} holds no demand; `forecaster run` fills it from the declared source"
    return (
        f"no demand was known as of {as_of.isoformat()}: the earliest reading in the lake was recorded at "
        f"{observed['recorded_at'].min().isoformat()}; take a later instant, or, where the source is an archive, "
        "set `demand.recorded: next_day` and ingest into a new lake"
    )
