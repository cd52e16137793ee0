"""Compare a batch with earlier ones: no rows, far fewer rows, readings of other depots, or other
counts of the same days."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from forecaster.config import Spec
from forecaster.config.sources import is_incremental
from forecaster.core.arrays import Bools
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import counted, sentence
from forecaster.demand import readings
from forecaster.demand.history import aliases
from forecaster.demand.validation.batch import RepeatedDays
from forecaster.demand.validation.feed_shape import PLACES, batch_finding
from forecaster.demand.validation.known_days import NEVER, LastReadings
from forecaster.lake import Lake

NEARLY_ALL = 0.8  # share of the batch's depots that must be new, and of the known depots that must be missing
# share of the rows known before: the source repeats itself, and can be compared with the last batch
REPEATED = 0.5
FEW_DAYS = 14  # days of history in which only some depots may have reported yet
SETTLED = 14  # days before the newest known count; younger counts are often preliminary
MANY_DAYS = 28  # repeated days of a depot needed for a meaningful share of restated ones
FEWEST_DAYS = 7  # MANY_DAYS falls by one per day without new known counts, down to this
# share of them that must be restated; and share of the days of their span that must be repeated
MOST = 0.5
_NAMED = 3  # depots in the message


def size_findings(read: int, unchanged: int, name: str, accounts: pd.DataFrame, spec: Spec) -> list[Finding]:
    """Finding if the source delivered no row, or far fewer than in its last batch with rows.

    `unchanged` of the `read` rows were known; `accounts` are the lake's records of earlier batches.
    An incremental source may well deliver nothing, and a source with mostly new rows is not
    compared.
    """
    before = accounts[accounts["read"] > 0].sort_values("recorded_at", kind="stable")
    if is_incremental(spec.demand.source) or before.empty:
        return []
    last = before.iloc[-1]
    rows = sentence(N_("no row")) if read == 0 else counted(read, "{n} row", "{n} rows")
    detail = sentence(
        N_("{source}: found {rows}, where {n} came in the batch of {day}"),
        source=name,
        rows=rows,
        n=int(last["read"]),
        day=last["recorded_at"].date(),
    )
    if read == 0:
        return [batch_finding("empty_feed", 0, detail, "", spec)]
    is_repeated = name == last["source"] and unchanged > REPEATED * read
    if is_repeated and read < spec.demand.rules.thin_share * last["read"]:
        return [batch_finding("fewer_rows", read, detail, "", spec)]
    return []


def depots_of(rows: pd.DataFrame, refused: pd.DataFrame) -> pd.Index[str]:
    """Depots in a batch: those of readings, and those unknown to the depots source."""
    unknown = pd.Index(refused.loc[refused["rule"] == "unknown_depot", "depot_id"].unique(), dtype="str")
    return readings.depot_ids(rows).astype("str").append(unknown).unique() if len(rows) else unknown


def other_depots(
    batch_ids: pd.Index[str], heard: pd.Index[str], lake: Lake, former: pd.DataFrame | None, spec: Spec
) -> list[Finding]:
    """Finding if nearly all depots of a batch are new, and nearly all known depots are missing from
    it.

    `heard` are depots with readings of about the same days; if there are none, those of the lake
    count. An incremental source must deliver about as many depots as before.
    """
    known_ids = heard if len(heard) else _in_lake(lake) if len(batch_ids) else batch_ids
    if former is not None:
        of_now = (aliases.current(pd.Series(ids, dtype="str"), former) for ids in (batch_ids, known_ids))
        batch_ids, known_ids = (pd.Index(ids.unique(), dtype="str") for ids in of_now)
    new, missing = (
        batch_ids[~readings.are_among(batch_ids, known_ids)],
        known_ids[~readings.are_among(known_ids, batch_ids)],
    )
    is_thin = is_incremental(spec.demand.source) and len(batch_ids) < spec.demand.rules.thin_share * len(known_ids)
    are_others = len(new) > NEARLY_ALL * len(batch_ids) and len(missing) > NEARLY_ALL * len(known_ids)
    if is_thin or not len(known_ids) or not are_others:
        return []
    if pc.count_distinct(lake.read("demand", columns=["date"])["date"]).as_py() < FEW_DAYS:
        return []
    detail = sentence(
        N_(
            "found {n} of {came} depots for the first time ({new}), and no readings of {missing} of the {known} "
            "known depots ({lost})"
        ),
        n=len(new),
        came=len(batch_ids),
        new=_some(new),
        missing=len(missing),
        known=len(known_ids),
        lost=_some(missing),
    )
    return [batch_finding("other_depots", len(new), detail, "", spec)]


def restated(repeated_days: RepeatedDays | None, last_readings: LastReadings, spec: Spec) -> list[Finding]:
    """Finding if most past days of a depot arrive with counts that differ from the known ones, or
    without counts; if such depots are few of all known ones, it only warns. A few repeated days, or
    scattered days, are corrections."""
    if repeated_days is None:
        return []
    is_settled = repeated_days.day <= repeated_days.newest - SETTLED
    # While batches are stopped, a window of the newest days contains fewer and fewer known days.
    behind = repeated_days.newest - int(last_readings.last_counted.max(initial=NEVER))
    many_days = max(MANY_DAYS - max(behind - 1, 0), FEWEST_DAYS)
    depot, day = repeated_days.depot[is_settled], repeated_days.day[is_settled]
    days_told, days_changed = (
        np.bincount(rows, minlength=len(repeated_days.depots))
        for rows in (depot, depot[repeated_days.restated[is_settled]])
    )
    first, last = np.full((2, len(days_told)), np.iinfo(np.int32).max, np.int64)
    np.minimum.at(first, depot, day)
    np.minimum.at(last, depot, -day.astype(np.int64))
    is_whole = days_told > MOST * (1 - last - first)
    depots = np.flatnonzero((days_told >= many_days) & is_whole & (days_changed > MOST * days_told))
    if not len(depots):
        return []
    known_depots = int(np.count_nonzero(last_readings.last_counted > NEVER))
    detail = sentence(
        N_(
            "depot {depot}: found a different count, or none, on {changed} of {days} that were reported before, and "
            "likewise on most days of {n} of {all} depots"
        ),
        depot=str(repeated_days.depots[depots[0]]),
        changed=int(days_changed[depots[0]]),
        days=counted(int(days_told[depots[0]]), "{n} day", "{n} days"),
        n=len(depots),
        all=known_depots,
    )
    places = tuple(_newest_restated(repeated_days, place, is_settled) for place in depots[:PLACES])
    finding = batch_finding("restated", int(days_changed[depots].sum()), detail, "", spec, places)
    is_rule = 2 * len(depots) >= known_depots or "restated" in spec.demand.rules.severity
    return [finding if is_rule else replace(finding, severity="warn")]


def _newest_restated(repeated_days: RepeatedDays, depot: int, is_settled: Bools) -> tuple[str, str]:
    day = repeated_days.day[is_settled & repeated_days.restated & (repeated_days.depot == depot)].max()
    return str(repeated_days.depots[depot]), str(np.datetime64(int(day), "D"))


def _in_lake(lake: Lake) -> pd.Index[str]:
    ids = lake.read("demand", columns=["depot_id"], codes=True)["depot_id"]
    distinct = pc.unique(ids.unify_dictionaries()).cast(pa.string()).drop_null().to_pandas()
    in_lake: pd.Index[str] = pd.Index(distinct, dtype="str")
    return in_lake


def _some(depots: pd.Index[str]) -> str:
    return ", ".join(sorted(depots)[:_NAMED]) + (", …" if len(depots) > _NAMED else "")
