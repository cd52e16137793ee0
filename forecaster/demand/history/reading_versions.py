"""Change detection and deduplication: find the readings of a batch that the history does not hold
yet, and since when they are known.

Each (depot, day) has a slot, an integer; lookups are by position. Nothing loops over rows, depots
or days; only slots with several rows are sorted or grouped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.core.arrays import Bools
from forecaster.demand.readings import covariates

Longs = NDArray[np.int64]
Places = NDArray[np.signedinteger[Any]]
LOOKED_AT = 10_000  # rows from which the order is determined
CORRECTION = 0.1  # share of the higher count that corrections usually change at most
# slots per row up to which a table over all depots and days is used; beyond, slots are numbered by
# sorting
DENSE = 4


@dataclass(frozen=True)
class Slots:
    """Slots of the rows of two frames, and the number of slots."""

    batch: Places
    history: Places
    count: int


@dataclass(frozen=True)
class Repeats:
    """Readings of a batch that conflict with others."""

    broken: Mapping[str, NDArray[np.intp]]  # rule → their positions
    last: NDArray[np.intp]  # for each superseded row, the position of the row that counts
    single: bool  # every depot and day has at most one reading


@dataclass(frozen=True)
class NewReadings:
    """New readings of a batch."""

    new: Bools  # (rows of the batch,)
    recorded_at: Longs  # (rows of the batch,) µs since 1970 from which a new row is known
    # (rows of the batch,) newest row of its day, and the latest known version of that day has a
    # count
    counted: Bools
    restated: (
        # (rows of the batch,) removes that count, or changes it by more than a correction does
        Bools
    )


def slots(batch: pd.DataFrame, history: pd.DataFrame) -> Slots:
    """Slot of each (depot, day) of the two frames; equal pairs have equal slots."""
    names, history_names = (part["depot_id"].cat.categories for part in (batch, history))
    same_names = names is history_names or names.equals(history_names)
    names = names if same_names else names.append(history_names.difference(names, sort=False))
    days = [part["day"].to_numpy() for part in (batch, history)]
    ends = [int(end) for part in days if len(part) for end in (part.min(), part.max())] or [0]
    first, last = min(ends), max(ends)
    count, rows = len(names) * (last - first + 1), len(batch) + len(history)
    small: Any = np.int32 if count < 2**31 else np.int64
    # consecutive rows get consecutive slots, so that memory is accessed sequentially
    by_day = max(days, key=len)[:LOOKED_AT]
    by_depot = len(by_day) > 1 and float(np.mean(by_day[1:] == by_day[:-1])) < 0.5
    step_depot, step_day = (last - first + 1, 1) if by_depot else (1, len(names))
    row_slots = []
    for part, day in zip((batch, history), days, strict=True):
        part_names = part["depot_id"].cat.categories
        place = np.arange(len(names)) if same_names else names.get_indexer(part_names)
        slot = (day.astype(small) - small(first)) * small(step_day)
        slot += (place.astype(small) * small(step_depot))[part["depot_id"].cat.codes.to_numpy()]
        row_slots.append(slot)
    if count <= DENSE * rows + 1000:
        return Slots(row_slots[0], row_slots[1], count)
    distinct, place = np.unique(np.concatenate(row_slots), return_inverse=True)
    return Slots(place[: len(batch)], place[len(batch) :], len(distinct))


def repeats(batch: pd.DataFrame, *, declared: bool) -> Repeats:
    """Readings that break a rule together with others: `duplicate_row` or `superseded`.

    One reading per depot, day (and declared instant) remains: the first with the same values as the
    last one.
    """
    slot = slots(batch, batch.iloc[:0])
    where = np.flatnonzero(_several(slot.batch, slot.count))
    if not len(where):
        return Repeats({}, where, single=True)
    repeated = batch.iloc[where].assign(slot=slot.batch[where])
    key = ["slot", *(["recorded_at"] if declared else [])]
    group = repeated.groupby(key, sort=False).ngroup()
    value = repeated.groupby([*key, *_values(repeated)], sort=False, dropna=False, observed=True).ngroup()
    agrees_with_last = value == value.groupby(group).transform("last")
    superseded, twice = (broken.to_numpy(bool) for broken in (~agrees_with_last, agrees_with_last & value.duplicated()))
    last = pd.Series(where).groupby(group.to_numpy()).transform("last").to_numpy(np.intp)[superseded]
    return Repeats({"superseded": where[superseded], "duplicate_row": where[twice]}, last, single=False)


def new_readings(batch: pd.DataFrame, history: pd.DataFrame, *, declared: bool, now: int) -> NewReadings:
    """New readings of a batch without repeats, compared with the known ones; `now` is in µs since
    1970.

    A source without its own instants (`declared` is false) repeats itself every night: a reading is
    new if it differs from the latest version. If the value of an existing version was changed in
    place, the new value counts as recorded now. The first count of a day with only covariates so
    far is not a restatement.
    """
    recorded = batch["recorded_at"].to_numpy(copy=True)
    if history.empty or batch.empty:
        none = np.zeros(len(batch), np.bool_)
        return NewReadings(~none, recorded, none, none)
    slot = slots(batch, history)
    latest = _latest(history, slot)
    position = latest[slot.batch]
    in_history = position >= 0
    is_equal = in_history & _equal(batch, history, position)
    if declared:
        is_stored, contested = _among_versions(batch, history, slot, position, is_equal)
        contested &= ~is_stored
        if contested.any():
            contested &= recorded == _newest(recorded, slot)[slot.batch]
        new = ~is_stored & ~(contested & is_equal)
        contested &= new
    else:
        new, contested = ~is_equal, in_history & ~is_equal
    where = np.flatnonzero(contested)
    last = history["recorded_at"].to_numpy()[position[where]]
    first_count = np.isnan(history["demand"].to_numpy()[position[where]]) & (not declared)
    instants = np.where(first_count, recorded[where], now)
    recorded[where] = np.where(instants > last, instants, last + 1)
    known_counts = np.where(in_history, history["demand"].to_numpy()[position], np.nan)
    has_known_count = ~np.isnan(known_counts)
    if declared:  # of several instants of a day, only the newest
        has_known_count &= recorded == _newest(recorded, slot)[slot.batch]
    is_latest = recorded >= history["recorded_at"].to_numpy()[position]
    restated = has_known_count & new & is_latest & _is_restated(known_counts, batch["demand"].to_numpy())
    return NewReadings(new, recorded, has_known_count, restated)


def _is_restated(known_counts: Any, counts: Any) -> Bools:
    """True if a known count is gone, or changed by more than a correction or chance explains
    (chance changes 4 by 2)."""
    higher = np.maximum(counts, known_counts)
    near = np.where(np.minimum(counts, known_counts) > 0, np.maximum(CORRECTION * higher, np.sqrt(higher)), 0)
    is_restated: Bools = ~(np.abs(counts - known_counts) <= near)
    return is_restated


def overruled(batch: pd.DataFrame, history: pd.DataFrame, released: pd.DataFrame) -> Bools:
    """Mark readings that a person decided against: their source reported these values before
    another reading was released, and nothing newer has arrived.

    `released` has the columns depot_id, day and recorded_at (µs since 1970) of the decision.
    """
    answer = np.zeros(len(batch), np.bool_)
    concerned, versions = (
        np.flatnonzero((part["depot_id"].isin(released["depot_id"]) & part["day"].isin(released["day"])).to_numpy())
        for part in (batch, history)
    )
    if not len(concerned) or not len(versions):
        return answer
    of_day = ["depot_id", "day"]
    rows = batch.iloc[concerned][of_day].assign(place=concerned)
    history_rows = history.iloc[versions][[*of_day, "recorded_at"]].assign(version=versions)
    decided = released[[*of_day, "recorded_at"]].rename(columns={"recorded_at": "decided_at"})
    rows, history_rows, decided = (
        part.assign(depot_id=part["depot_id"].astype("str")) for part in (rows, history_rows, decided)
    )
    newest = history_rows.groupby(of_day)["recorded_at"].max().rename("newest").reset_index()
    decided = decided.groupby(of_day, as_index=False)["decided_at"].max().merge(newest, on=of_day)
    valid_decisions = decided[decided["newest"] <= decided["decided_at"]]
    pairs = rows.merge(valid_decisions, on=of_day).merge(history_rows, on=of_day)
    pairs = pairs[pairs["recorded_at"] < pairs["decided_at"]]
    place, version = pairs["place"].to_numpy(), pairs["version"].to_numpy()
    answer[place[_equal(batch.iloc[place], history, version)]] = True
    return answer


def latest(readings: pd.DataFrame) -> pd.DataFrame:
    """Last recorded version of each depot and day; at equal instants, the later row."""
    slot = slots(readings.iloc[:0].assign(depot_id=readings["depot_id"].iloc[:0]), readings)
    if not _several(slot.history, slot.count).any():
        return readings
    newest = _latest(readings, slot)
    return readings.iloc[np.sort(newest[newest >= 0])]


def _several(slot: Places, count: int) -> Bools:
    """Mark rows that share their slot with another row."""
    at = np.full(count, -1, np.int32 if len(slot) < 2**31 else np.int64)
    rows = np.arange(len(slot), dtype=at.dtype)
    at[slot] = rows
    earlier = at[slot] != rows
    shared = np.zeros(count, np.bool_)
    shared[slot[earlier]] = True
    several: Bools = shared[slot] if earlier.any() else earlier
    return several


def _latest(history: pd.DataFrame, slot: Slots) -> NDArray[Any]:
    """Row of the latest version of each slot; -1 if there is none."""
    at = np.full(slot.count, -1, np.int32 if len(history) < 2**31 else np.int64)
    at[slot.history] = np.arange(len(history), dtype=at.dtype)
    where = np.flatnonzero(_several(slot.history, slot.count))
    if len(where):
        versions = history[["recorded_at", "row"]].iloc[where]
        order = where[np.lexsort((versions["row"], versions["recorded_at"]))]
        at[slot.history[order]] = order  # of several rows for one slot NumPy keeps the last
    return at


def _newest(recorded: Longs, slot: Slots) -> Longs:
    newest = np.full(slot.count, np.iinfo(np.int64).min)
    np.maximum.at(newest, slot.batch, recorded)
    return newest


def _among_versions(
    batch: pd.DataFrame, history: pd.DataFrame, slot: Slots, position: Places, is_equal: Bools
) -> tuple[Bools, Bools]:
    """Mark rows whose instant and value are among the known versions; and rows whose instant at
    least is.

    `position` is a version of each row's slot, -1 if there is none; `is_equal` marks rows with the
    same values as that version.
    """
    instants = history["recorded_at"].to_numpy()
    same_instant = (position >= 0) & (instants[position] == batch["recorded_at"].to_numpy())
    is_stored = same_instant & is_equal
    several = _several(slot.history, slot.count)
    if several.any():
        shared = np.zeros(slot.count, np.bool_)
        shared[slot.history[several]] = True
        where, versions = np.flatnonzero(shared[slot.batch]), np.flatnonzero(several)
        stored_versions = pd.DataFrame(
            {"slot": slot.history[versions], "recorded_at": instants[versions], "version": versions}
        )
        rows = pd.DataFrame({"slot": slot.batch[where], "recorded_at": batch["recorded_at"].to_numpy()[where]})
        pairs = rows.assign(place=where).merge(stored_versions, on=["slot", "recorded_at"])
        place, version = pairs["place"].to_numpy(), pairs["version"].to_numpy()
        same_instant[place] = True
        equal = _equal(batch.iloc[place], history, version)
        is_stored[place[equal]] = True
    return is_stored, same_instant


def _equal(batch: pd.DataFrame, history: pd.DataFrame, position: Any) -> Bools:
    """Mark rows with the same values as the known row at their position. Two unknown values are
    equal."""
    equal = np.ones(len(batch), np.bool_)
    for name in _values(batch):
        batch_column, history_column = batch[name], history.get(name)
        if history_column is None:
            equal &= batch_column.isna().to_numpy()
        elif isinstance(batch_column.dtype, pd.CategoricalDtype) or isinstance(
            history_column.dtype, pd.CategoricalDtype
        ):
            equal &= _same_word(batch_column.astype("category"), history_column.astype("category"), position)
        else:
            a, b = batch_column.to_numpy(), history_column.to_numpy()[position]
            equal &= (a == b) | ((a != a) & (b != b))
    return equal


def _same_word(batch_words: Any, history_words: Any, position: Any) -> Bools:
    categories = batch_words.cat.categories
    # the final -1 stands for unknown
    code = np.append(categories.get_indexer(history_words.cat.categories), -1)
    known_codes = np.where(history_words.cat.codes == -1, -1, np.where(code < 0, -2, code)[history_words.cat.codes])
    is_equal: Bools = batch_words.cat.codes.to_numpy() == known_codes[position]
    return is_equal


def _values(readings: pd.DataFrame) -> list[str]:
    return ["demand", "open", *covariates(readings)]
