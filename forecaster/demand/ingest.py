"""Idempotent ingestion of the declared sources into the lake.

Depots, events and aliases are snapshots: rows that are new, changed or gone are appended. Readings
pass the contract block by block, then are compared with one another, with the lake and with earlier
days. Each table takes its rows in one commit, readings last except for the batch record: the next
run completes what a kill left out. Repeating an ingestion appends nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from forecaster.config import Spec, data_rules
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import MADE_OF, sentence
from forecaster.demand import readings, sources
from forecaster.demand.arrangement import Arrangement, source_columns
from forecaster.demand.history import lake_owner
from forecaster.demand.history.point_in_time import frame, latest
from forecaster.demand.order_lines.cut_windows import quarantine_cut_day
from forecaster.demand.panel.events import EVENT
from forecaster.demand.validation import batch as batches
from forecaster.demand.validation import (
    event_checks,
    feed_shape,
    feed_turnover,
    history_checks,
    lost_rows,
    reference_tables,
    similar_ids,
)
from forecaster.demand.validation.contract import Contract
from forecaster.demand.validation.known_days import KnownDays
from forecaster.demand.validation.quarantine import first_message, with_distinct_ids
from forecaster.errors import LakeError
from forecaster.lake import NOT_THERE, TABLES, Lake

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
PLACES = 50  # depots and days that a finding names
_MICROSECOND = pd.Timedelta(microseconds=1)
# tables that ingestion reads and writes
INGESTED = tuple(table for table in TABLES if table not in ("forecasts", "scores"))
KEYS = {"depots": ["depot_id"], "aliases": ["alias"], "events": EVENT}  # columns that identify a row
Progress = Callable[[int], None]


@dataclass(frozen=True)
class IngestResult:
    """Counts of the rows of one batch: read = accepted + unchanged + quarantined."""

    batch: str
    source: str
    read: int
    accepted: int
    unchanged: int
    quarantined: int
    findings: tuple[Finding, ...]
    versions: Mapping[str, int]
    stopped: str | None = None  # reason why the whole batch was rejected
    left_out: int = 0  # rows excluded by `demand.where`; not part of `read`


@dataclass(frozen=True)
class Decisions:
    """Decisions of people about quarantined rows."""

    released: pd.DataFrame  # id, rule, depot_id, day, and recorded_at of the decision in µs since 1970
    discarded: frozenset[str]

    @property
    def waived(self) -> dict[str, int]:
        """Ids of released rows and the instants of their decisions."""
        return dict(zip(self.released["id"], self.released["recorded_at"], strict=True))


def ingest(spec: Spec, *, now: datetime, on_rows: Progress | None = None) -> IngestResult:
    """Ingest one batch: read the sources and append new rows to the lake at the instant `now`.

    `on_rows` receives the number of rows read so far. Raises SourceError when a source cannot be
    read, SpecError when it does not fit the pipeline file, ForeignLake when the lake belongs to
    another fleet, LakeError when it cannot store the rows.
    """
    lake, findings = Lake.of(spec), list[Finding]()
    lake_owner.refuse_other_fleets(spec, lake)
    snapshots, announced = _snapshots(spec, findings, lake, now)
    changes = {table: _changes(rows, frame(lake, table), KEYS[table], now) for table, rows in snapshots.items()}
    decided = decisions(lake)
    feed = sources.open_feed(spec.demand.source, spec, *source_columns(spec), since=_watermark(spec, lake))
    depots, former = snapshots.get("depots"), snapshots.get("aliases")
    contract = contract_of(spec, lake, depots, former, now=now, waived=decided.waived)
    # first each row alone, then against its batch, then against the lake; fewer rows each time
    arrangement = Arrangement(spec)
    batch, read = _sort_blocks(feed, arrangement, contract, decided.discarded, on_rows)
    known_days = _known_days(lake, batch.accepted, spec)
    if announced is not None:
        findings += _event_findings(announced, snapshots, batch, known_days, lake, spec, now)
    unread = with_distinct_ids(batch.refused) if decided.discarded else batch.refused
    findings += feed_shape.unreadable(unread, batch.accepted, read, decided.discarded, spec)
    findings += feed_shape.day_month_order(batch.accepted, batch.refused, spec)
    findings += [*feed_shape.decimals(contract.decimals, spec), *contract.findings()]
    findings += [*arrangement.findings(), *batch.findings]
    findings += feed_shape.unread_sheets(feed.further_sheets, batch.accepted, spec, now)
    every_row, batch = batch.accepted, batches.without_repeats(batch, spec, now)
    findings += [] if batch.single else feed_shape.several_rows(every_row, spec, times_differ=contract.times_differ)
    batch_depots = feed_turnover.depots_of(every_row, batch.refused)
    del every_row, contract
    batch, last_findings = _checked_batch(batch, known_days, snapshots, decided, spec, now)
    findings += feed_turnover.size_findings(read, batch.unchanged, feed.name, frame(lake, "batches"), spec)
    findings += feed_turnover.other_depots(batch_depots, known_days.last_readings.heard, lake, former, spec)
    findings += feed_turnover.restated(batch.repeated_days, known_days.last_readings, spec)
    findings += lost_rows.findings(batch, read, spec)
    findings += [*_refusals(with_distinct_ids(batch.refused), decided, spec), *last_findings]
    stopped = next(
        (sentence(N_("{rule}: {message}"), rule=f.rule, message=f.message) for f in findings if f.severity == "stop"),
        None,
    )
    if stopped:  # all or nothing: half a batch would look like a day of few orders
        batch = batches.quarantine_all(batch, stopped, spec, now)
    refused = with_distinct_ids(batch.refused)
    outcome = IngestResult(
        batch=feed.digest,
        source=feed.name,
        read=read,
        accepted=batch.size(batch.accepted),
        unchanged=batch.unchanged,
        quarantined=batch.size(refused),
        findings=tuple(findings),
        versions={},
        stopped=stopped,
        left_out=arrangement.left_out,
    )
    assert outcome.read == outcome.accepted + outcome.unchanged + outcome.quarantined, outcome
    lake_owner.claim(spec, lake, now)
    return _append(outcome, batch, refused, changes, feed.watermark, lake, now)


def _event_findings(
    announced: reference_tables.AnnouncedRows,
    snapshots: Mapping[str, pd.DataFrame],
    batch: batches.Batch,
    known_days: KnownDays,
    lake: Lake,
    spec: Spec,
    now: datetime,
) -> Iterable[Finding]:
    """Findings about announced events."""
    depots = event_checks.depots_concerned(snapshots.get("depots"), announced, batch.accepted, lake)
    former = snapshots["aliases"]["alias"] if "aliases" in snapshots else ()
    days = event_checks.period(batch.accepted, known_days, spec, now)
    return event_checks.event_findings(announced, depots, former, days, spec)


def _checked_batch(
    batch: batches.Batch,
    known_days: KnownDays,
    snapshots: Mapping[str, pd.DataFrame],
    decided: Decisions,
    spec: Spec,
    now: datetime,
) -> tuple[batches.Batch, list[Finding]]:
    """Check the batch against history; retry superseded rows if their last row was rejected."""
    while True:
        before = batch if len(batch.superseded) else None  # else None, so that its rows can be freed
        batch = batches.known_since_release(batch, decided.released, spec)
        batch, of_first_day = quarantine_cut_day(batch, known_days, decided.waived, spec, now)
        batch = batches.without_known(batch, known_days, spec, now, decided.released)
        batch, findings = _checked_beside_history(batch, known_days, snapshots, decided.waived, spec, now)
        again = batches.with_earlier_rows(before, batch, spec) if before else None
        if again is None:
            return batch, [*of_first_day, *findings]
        batch = again


def _append(
    outcome: IngestResult,
    batch: batches.Batch,
    refused: pd.DataFrame,
    changes: Mapping[str, pd.DataFrame],
    watermark: str | None,
    lake: Lake,
    now: datetime,
) -> IngestResult:
    """Append all rows to the lake; return the result with the written versions.

    Readings come last: if the process is killed earlier, the next run still finds them new.
    """
    readings.release_memory()  # memory of the checks: the writer needs much
    for table, rows in changes.items():
        lake.append(table, rows)
    versions = lake.versions(INGESTED)
    quarantined = refused[~refused["id"].isin(lake.read("quarantine", columns=["id"])["id"].to_pandas())].drop(
        columns=["rows", MADE_OF], errors="ignore"
    )
    lake.append("quarantine", quarantined.assign(batch=outcome.batch))
    if batch.profiles and not outcome.stopped:
        lake.append("half_hours", batch.profiles.new_rows(lake, batch.refused, batch.accepted, now))
    lake.append("demand", readings.demand_table(batch.accepted, batch=outcome.batch))
    new_versions = lake.versions(INGESTED)
    _record_batch(outcome, watermark, lake, now, changed=new_versions != versions)
    return replace(outcome, versions=new_versions | lake.versions(("batches",)) | _by_product_versions(lake))


def contract_of(
    spec: Spec,
    lake: Lake,
    depots: pd.DataFrame | None,
    former: pd.DataFrame | None = None,
    *,
    now: datetime,
    waived: Mapping[str, int] | None = None,
) -> Contract:
    """Contract for the snapshots of depots and former ids, and for the lake's covariates."""
    ever, zones = None, {}
    if depots is not None:
        names = [depots["depot_id"], frame(lake, "depots")["depot_id"], *([] if former is None else [former["alias"]])]
        ever = pd.Index(pd.concat(names).unique(), dtype="str")
        with_zone = depots[depots["timezone"].notna()]
        zones = dict(zip(with_zone["depot_id"], with_zone["timezone"], strict=True))
    return Contract(
        spec,
        now=now,
        known_depots=ever,
        zones=zones,
        kinds={name: readings.covariate_kind(kind) for name, kind in lake.covariates().items()},
        waived=waived,
    )


def decisions(lake: Lake) -> Decisions:
    """Last decision about each quarantined row; identical rows are released together."""
    last = latest(frame(lake, "decisions"), ["id"])
    released, discarded = (last[last["action"] == action] for action in ("release", "discard"))
    rows = frame(lake, "quarantine") if len(released) else frame(lake, "quarantine", version=NOT_THERE)
    decided = rows[["id", "rule", "depot_id", "date"]].merge(released[["id", "recorded_at"]], on="id")
    day = decided["date"].to_numpy("datetime64[D]").astype("int64")
    at = decided["recorded_at"].to_numpy("datetime64[us]").astype("int64")
    decided = decided.assign(id=decided["id"].str.split("-").str[0], day=day, recorded_at=at).drop(columns="date")
    return Decisions(decided.drop_duplicates("id"), frozenset(discarded["id"]))


def _snapshots(
    spec: Spec, findings: list[Finding], lake: Lake, now: datetime
) -> tuple[dict[str, pd.DataFrame], reference_tables.AnnouncedRows | None]:
    """Current rows of depots, aliases and events, by table; and the rows of the events source."""
    tables, ever, announced = {}, set[str](), None
    if spec.depots:
        tables["depots"] = reference_tables.depots(spec, findings)
        ever = {*tables["depots"]["depot_id"], *frame(lake, "depots")["depot_id"]}
        if spec.depots.aliases:
            tables["aliases"] = reference_tables.aliases(spec, findings, ever)
    if spec.calendar.events:
        tables["events"], announced = reference_tables.events(spec, findings, now, ever)
    return tables, announced


def _changes(snapshot: pd.DataFrame, before: pd.DataFrame, key: list[str], now: datetime) -> pd.DataFrame:
    """New, changed and (retracted) removed rows; the first snapshot counts as known since 1970."""
    snapshot = snapshot.assign(retracted=pd.array([False] * len(snapshot), "boolean"))
    if before.empty:
        return snapshot.assign(recorded_at=pd.Timestamp(EPOCH))
    current = latest(before, key).reindex(columns=snapshot.columns)
    old_and_new = pd.concat([current, snapshot], ignore_index=True)
    changed = snapshot[~old_and_new.duplicated().to_numpy()[len(current) :]]
    still_listed = pd.concat([snapshot, current], ignore_index=True).duplicated(key).to_numpy()[len(snapshot) :]
    removed = current[~still_listed & ~current["retracted"].astype(bool).to_numpy()]
    rows = pd.concat([changed, removed.assign(retracted=pd.array([True] * len(removed), "boolean"))], ignore_index=True)
    stamp = max(pd.Timestamp(now), before["recorded_at"].max() + _MICROSECOND)
    return rows.assign(recorded_at=stamp.tz_convert("UTC").as_unit("us"))


def _sort_blocks(
    feed: sources.Feed,
    arrangement: Arrangement,
    contract: Contract,
    discarded: Collection[str],
    on_rows: Progress | None,
) -> tuple[batches.Batch, int]:
    """Blocks of a feed, sorted by the contract, and their number of rows."""
    refused, read = list[pd.DataFrame](), 0

    def accepted_parts() -> Iterator[pd.DataFrame]:  # keeps the only reference to a block, to free its memory early
        nonlocal read
        for whole_block in feed.blocks:
            block = arrangement.arrange(whole_block)
            sorted_block = contract.sort(block)
            refused.append(sorted_block.refused)
            read += len(block)
            if on_rows:
                on_rows(read)
            yield sorted_block.accepted
            del whole_block, block, sorted_block
            readings.release_memory()

    accepted = readings.concatenate(accepted_parts())
    batch = batches.Batch(accepted, pd.concat(refused, ignore_index=True))
    is_whole = contract.spec.demand.aggregate == "none"
    return batch if is_whole else batches.whole_days(batch, contract, discarded), read


def _known_days(lake: Lake, accepted: pd.DataFrame, spec: Spec) -> KnownDays:
    """Known versions of a batch's days, later days and the earlier days it is checked against."""
    version = lake.version("demand") if len(accepted) else NOT_THERE
    columns = ["depot_id", "date", "demand", "open", "recorded_at", "row", *lake.covariates()]
    since = ds.field("date") >= _date(int(accepted["day"].min()) - history_checks.reach(spec) if len(accepted) else 0)
    rows_per_day = lake.read("demand", where=since, version=version, columns=["date"])["date"].value_counts()
    days, counts = rows_per_day.field("values").cast(pa.int32()).to_numpy(), rows_per_day.field("counts").to_numpy()
    # so that `read` keeps no rows alive
    order, depots = np.argsort(days), readings.DepotCategories(accepted["depot_id"].cat.categories)

    def read(first: int, last: int) -> pd.DataFrame:
        where = (ds.field("date") >= _date(first)) & (ds.field("date") <= _date(last))
        table = lake.read("demand", where=where, version=version, columns=columns, codes=True)
        return readings.from_table(table, depots)

    return KnownDays(days[order], counts[order], read)


def _date(day: int) -> pa.Scalar:
    return pa.scalar(day, pa.int32()).cast(pa.date32())


def _checked_beside_history(
    batch: batches.Batch,
    known_days: KnownDays,
    snapshots: Mapping[str, pd.DataFrame],
    released: Collection[str],
    spec: Spec,
    now: datetime,
) -> tuple[batches.Batch, list[Finding]]:
    """Compare the batch with the days before it; return the batch and the findings."""
    depots, former = snapshots.get("depots"), snapshots.get("aliases")
    batch = history_checks.quarantine_stray_days(batch, known_days, released, spec, now)
    if not len(batch.accepted):
        return batch, history_checks.silent_depots(batch.accepted, known_days.last_readings, depots, spec)
    batch, grid, findings = history_checks.quarantine_outliers(
        batch, history_checks.count_grid(batch, known_days), released, spec, now
    )
    findings += history_checks.late_counts(batch.accepted, known_days.last_readings, spec)
    findings += history_checks.feed_findings(grid, _countries(depots, spec), spec)
    findings += history_checks.silent_depots(batch.accepted, known_days.last_readings, depots, spec)
    findings += [*similar_ids.findings(grid, former, spec), *similar_ids.counts_left_out(grid, former, spec)]
    return batch, findings


def _countries(depots: pd.DataFrame | None, spec: Spec) -> set[str]:
    """Countries whose public holidays apply to a depot; empty if holidays are not used."""
    if not spec.calendar.holidays:
        return set()
    country_codes = set() if depots is None or "country" not in depots else {*depots["country"]}
    return {country for country in country_codes | {spec.calendar.country} if country}


def _refusals(refused: pd.DataFrame, decided: Decisions, spec: Spec) -> list[Finding]:
    """One finding per rule that rejected rows, except rows that a person discarded."""
    remaining = refused[~refused["id"].isin(decided.discarded)]
    findings, broken = [], {*remaining["rule"]}
    for rule in (name for name in data_rules.RULES if name in broken):
        rows = remaining[remaining["rule"] == rule]
        first = rows.head(PLACES)
        days = first["date"].dt.strftime("%Y-%m-%d").fillna("")
        places = tuple(zip(first["depot_id"].astype("str"), days, strict=True))
        severity = data_rules.severity(rule, spec.demand.rules.severity)
        findings.append(Finding(rule, severity, len(rows), first_message(rows), places))
    return findings


def _watermark(spec: Spec, lake: Lake) -> str | None:
    """Watermark up to which earlier batches have read the source; None if there is none."""
    accounts = frame(lake, "batches")
    of_source = accounts[(accounts["source"] == sources.name(spec.demand.source)) & accounts["watermark"].notna()]
    return None if of_source.empty else str(of_source.sort_values("recorded_at")["watermark"].iloc[-1])


def _by_product_versions(lake: Lake) -> dict[str, int]:
    """Versions of the readable tables that ingestion neither reads nor writes."""
    versions: dict[str, int] = {}
    for table in TABLES.keys() - set(INGESTED):
        with suppress(LakeError):
            versions |= lake.versions((table,))
    return versions


def _record_batch(outcome: IngestResult, watermark: str | None, lake: Lake, now: datetime, *, changed: bool) -> None:
    """Record the outcome of the batch, unless it is a repeat that changed nothing."""
    before = lake.read("batches", columns=["batch"])["batch"]
    if not changed and pc.is_in(pa.scalar(outcome.batch), value_set=before.combine_chunks()).as_py():
        return
    row = {name: getattr(outcome, name) for name in ("batch", "source", "read", "accepted", "unchanged", "quarantined")}
    row |= {"stopped": outcome.stopped is not None, "watermark": watermark, "recorded_at": now.astimezone(UTC)}
    lake.append("batches", pa.Table.from_pylist([row], schema=TABLES["batches"]))
