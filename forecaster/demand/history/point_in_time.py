"""Point-in-time (bitemporal) reads of the lake: the latest version of each row as of an instant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds

from forecaster.config import Spec
from forecaster.core.knowledge import Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import as_sentence, of_error, sentence
from forecaster.core.terminal import count
from forecaster.demand import readings
from forecaster.demand.half_hours import stored
from forecaster.demand.history import aliases, lake_owner, reading_versions
from forecaster.demand.panel.events import EVENT
from forecaster.errors import LakeError, LakeSilent, NoUsableData
from forecaster.lake import NOT_THERE, Lake

KEYS: Mapping[str, list[str]] = {"depots": ["depot_id"], "events": EVENT, "aliases": ["alias"]}
READ = ("demand", *KEYS)
PROFILE_DAYS = 182  # latest days whose half hours estimate the lost orders of a day that sold out
_WORD = r"found '[^\W\d][^\d']*', wanted"  # in a sentence of the quarantine


def read_as_of(spec: Spec, *, as_of: datetime, versions: Mapping[str, int] | None = None) -> Knowledge:
    """Point-in-time read: the latest version of each depot-day, depot and event as of an instant.

    In an archive (`demand.recorded: next_day`) the known-future covariates of the days right after
    as_of are known, too. Former depot ids count for their current depots. `versions` reads the
    tables at those commits, because rows added later may carry earlier instants. Raises
    NoUsableData when no demand was known by then, ForeignLake when the lake belongs to another
    fleet, LakeError when data required for a forecast cannot be read or is partly restored; other
    unreadable data is listed in `lacking`.
    """
    lake, lacking = Lake.of(spec), list[str]()
    lake_owner.refuse_half_restored(spec)
    with _not_needed(lacking, "whose demand the lake holds is not known"):
        lake_owner.refuse_other_fleets(spec, lake)
    tables = (*READ, stored.TABLE) if spec.stores_half_hours else READ
    newest = lake.versions(tables)
    versions = {table: (versions or newest).get(table, newest[table]) for table in tables}
    demand = reading_versions.latest(every_version(lake, spec, as_of, versions["demand"]))
    small = {table: frame(lake, table, version=versions[table], until=as_of) for table in KEYS}
    refused = refused_readings(lake, as_of, version=NOT_THERE)
    with _not_needed(lacking, "days with quarantined readings count as days without readings"):
        refused = refused_readings(lake, as_of)
    knowledge = replace(assemble(demand, small, refused, spec, as_of, versions), lacking=tuple(lacking))
    if not spec.demand.columns.sold_out_at or stored.TABLE not in versions:
        return knowledge
    first = int(demand["day"].to_numpy().max()) - PROFILE_DAYS
    days, orders = stored.latest_profiles(lake, first=first, as_of=as_of, version=versions[stored.TABLE])
    former = current_rows(small["aliases"], KEYS["aliases"])
    half_hours = days.assign(depot_id=aliases.current(days["depot_id"], former), orders=list(orders))
    return replace(knowledge, half_hours=half_hours)


@contextmanager
def _not_needed(lacking: list[str], without: str) -> Iterator[None]:
    """Record errors of a table that a forecast does not need. Raises LakeSilent: the other tables
    do not answer either."""
    try:
        yield
    except LakeSilent:
        raise
    except LakeError as error:
        lacking.append(sentence(N_("{what}: {why}"), what=as_sentence(without), why=of_error(error)))


def assemble(
    demand: pd.DataFrame,
    small: Mapping[str, pd.DataFrame],
    quarantined: pd.DataFrame,
    spec: Spec,
    as_of: datetime,
    versions: Mapping[str, int],
) -> Knowledge:
    """Build the knowledge from the latest reading of each depot and day, all versions of the small
    tables, and the quarantined readings."""
    current = {table: current_rows(small[table], key) for table, key in KEYS.items()}
    former, events = current["aliases"], current["events"]
    current_demand, depots = aliases.apply(_demand_columns(demand, spec), current["depots"], former)
    events = events.assign(depot_id=aliases.current(events["depot_id"], former))
    rows = quarantined[["depot_id", "date", "is_word"]].drop_duplicates()
    rows = rows.assign(depot_id=aliases.current(rows["depot_id"], former))
    return Knowledge(as_of, current_demand, depots, events, versions, rows)


def former_ids(spec: Spec) -> pd.DataFrame:
    """Current aliases: alias and depot_id."""
    return current_rows(frame(Lake.of(spec), "aliases"), KEYS["aliases"])


def former_names(spec: Spec, depot_ids: Sequence[str]) -> dict[str, str]:
    """Former id → depot, for these depots, by the current aliases. Raises LakeError."""
    return aliases.former_names(former_ids(spec), depot_ids)


def frame(
    lake: Lake,
    table: str,
    *,
    version: int | None = None,
    until: datetime | None = None,
    only: ds.Expression | None = None,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """A small table as a frame: rows recorded by an instant, optionally `only` some rows and
    `columns`."""
    where = None if until is None else ds.field("recorded_at") <= pa.scalar(until, pa.timestamp("us", tz="UTC"))
    where = only if where is None else where if only is None else where & only
    return as_frame(lake.read(table, where=where, version=version, columns=columns))


def as_frame(rows: pa.Table) -> pd.DataFrame:
    """Rows of a small table as a frame."""
    result: pd.DataFrame = rows.to_pandas(
        date_as_object=False, ignore_metadata=True, types_mapper={pa.bool_(): pd.BooleanDtype()}.get
    )
    return result


def latest(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Latest recorded version of each key; at equal instants, the later row."""
    if not rows.duplicated(key).any():
        return rows
    return rows.sort_values("recorded_at", kind="stable").drop_duplicates(key, keep="last")


def current_rows(rows: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Latest versions that are not retracted."""
    newest: pd.DataFrame = latest(rows, key)
    return newest[~newest["retracted"].astype(bool)].drop(columns=["retracted", "recorded_at"]).reset_index(drop=True)


def every_version(lake: Lake, spec: Spec, as_of: datetime, version: int) -> pd.DataFrame:
    """All versions of the readings known by an instant; in an archive also the values known for the
    days right after them.

    Raises NoUsableData when none of them has a count.
    """
    columns = reading_columns(lake, spec, version)
    by_then = _readings(lake, columns, recorded_by(as_of), version)
    has_count = ~np.isnan(by_then["demand"].to_numpy())
    if not has_count.any():
        raise NoUsableData(_nothing_known(lake, spec, as_of, version))
    if not is_archive(spec):
        return by_then
    cutoff = int(by_then["day"].to_numpy()[has_count].max())
    return with_days_ahead(by_then, _readings(lake, columns, days_ahead(cutoff, spec), version), spec)


def reading_columns(lake: Lake, spec: Spec, version: int) -> list[str]:
    """Columns of the lake's demand that a panel is built from."""
    columns = ["depot_id", "date", "demand", "open", "recorded_at", "row"]
    further = dict.fromkeys((*spec.calendar.known_future, *spec.demand.columns.limits))
    return columns + [name for name in further if name in lake.covariates(version=version)]


def is_archive(spec: Spec) -> bool:
    """True if values for the days ahead are known although they were recorded after as_of."""
    return spec.demand.recorded == "next_day" and spec.demand.columns.recorded_at is None


def recorded_by(as_of: datetime) -> ds.Expression:
    """Filter for rows recorded by an instant."""
    return ds.field("recorded_at") <= pa.scalar(as_of.astimezone(UTC), pa.timestamp("us", tz="UTC"))


def days_ahead(cutoff: int, spec: Spec) -> ds.Expression:
    """Filter for the rows of the horizon after a day, a number since 1970."""
    return _between(cutoff + 1, cutoff + spec.horizon)


def with_days_ahead(by_then: pd.DataFrame, horizon_rows: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    """The readings known by an instant, and an archive's values for the days right after them."""
    horizon_rows = horizon_rows.assign(demand=np.nan, recorded_at=np.int64(0))
    if "open" not in spec.calendar.known_future:
        horizon_rows["open"] = np.int8(-1)
    return readings.concatenate([by_then, horizon_rows])


def refused_readings(lake: Lake, as_of: datetime, *, version: int | None = None) -> pd.DataFrame:
    """Depot, date and instant of the readings in quarantine at an instant, as in `dated`."""
    return dated(frame(lake, "quarantine", version=version, until=as_of))


def dated(quarantined: pd.DataFrame) -> pd.DataFrame:
    """Depot, date and instant of quarantined readings: a row arrived, but its count is unknown.
    `is_word` marks rows with a word in place of the count, for example because a depot was closed."""
    rows = quarantined[quarantined["date"].notna() & (quarantined["depot_id"] != "")]
    is_word = (rows["rule"] == "count_form") & rows["message"].str.contains(_WORD)
    return rows[["depot_id", "date", "recorded_at"]].assign(is_word=is_word.astype(bool))


def _readings(lake: Lake, columns: Sequence[str], where: ds.Expression, version: int) -> pd.DataFrame:
    return readings.from_table(lake.read("demand", where=where, version=version, columns=columns, codes=True))


def _between(first: int, last: int) -> ds.Expression:
    days = [pa.scalar(day, pa.int32()).cast(pa.date32()) for day in (first, last)]
    return (ds.field("date") >= days[0]) & (ds.field("date") <= days[1])


def _demand_columns(demand: pd.DataFrame, spec: Spec) -> pd.DataFrame:
    """Depot, date, demand, open and the covariates of each depot and day."""
    open_codes = demand["open"].to_numpy()
    columns = {
        "depot_id": demand["depot_id"],
        "date": readings.dates(demand),
        "demand": demand["demand"],
        "open": pd.arrays.BooleanArray(open_codes == 1, open_codes == -1),
        **{name: demand[name] for name in readings.covariates(demand)},
    }
    return pd.DataFrame(columns).reset_index(drop=True)


def _why_empty(lake: Lake) -> str:
    """Outcome of the last batch and the next step; if there was no batch, how to fill the lake."""
    batches = frame(lake, "batches")
    if batches.empty:
        return "; `forecaster run` fills it from the declared source"
    last = batches.sort_values("recorded_at", kind="stable").iloc[-1]
    if not last["read"]:
        return f": '{last['source']}' had no row; `forecaster check` says what is read"
    rows = f"none of {count(int(last['read']), 'row')} of '{last['source']}' counts"
    return f": {rows}{', as their batch was stopped' if last['stopped'] else ''}; `forecaster check` says why"


def _nothing_known(lake: Lake, spec: Spec, as_of: datetime, version: int) -> str:
    rows = lake.read("demand", where=ds.field("demand").is_valid(), version=version, columns=["recorded_at"])
    if not len(rows):
        return f"the lake at {spec.lake_url} holds no demand{_why_empty(lake)}"
    first = min(rows["recorded_at"].to_pandas())
    return (
        f"no demand was known as of {as_of.isoformat()}: the earliest reading in the lake was recorded at "
        f"{first.isoformat()}; take a later instant, or, where the source is an archive, "
        "set `demand.recorded: next_day` and ingest into a new lake"
    )
