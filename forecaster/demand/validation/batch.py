"""What becomes of a batch: every row is taken, unchanged, or quarantined with its rule.

The contract has asked each row alone. Here they are asked beside one another, beside what is known already, and beside
the days before them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import Spec
from forecaster.config.data_rules import OF_ROWS, STOPPED
from forecaster.core.arrays import Bools
from forecaster.demand.history import reading_versions
from forecaster.demand.readings import Days, dates
from forecaster.demand.validation import quarantine
from forecaster.demand.validation.contract import Contract
from forecaster.demand.validation.known_days import KnownDays

DAY_NOT_OVER = "day_not_over"
Column = Any  # a pandas Series


@dataclass(frozen=True)
class Batch:
    """The rows of one batch, each of them once."""

    taken: pd.DataFrame  # as `readings` describes
    refused: pd.DataFrame  # as `quarantine` describes
    unchanged: int = 0  # rows
    single: bool = False  # is no depot's day told of twice among those taken?

    def refuse(self, where: Bools, rule: str, message: Column, spec: Spec, now: datetime) -> Batch:
        """The batch with some of the readings taken so far in quarantine; `message` has one for each of them."""
        if not where.any():
            return self
        content = quarantine.retold(self.taken[where], spec)
        rows = self.taken[where].assign(date=dates(self.taken[where]))
        arrival = pd.Timestamp(now).tz_convert("UTC").as_unit("us")
        refused = quarantine.rows(rows, pd.Series(rule, rows.index), message, content, arrival)
        if "rows" in rows:  # one reading made of many rows
            refused["rows"] = rows["rows"].to_numpy()
        return replace(self, taken=self.taken[~where], refused=pd.concat([self.refused, refused], ignore_index=True))

    def size(self, part: pd.DataFrame) -> int:
        """How many rows of the source a part stands for."""
        return int(part["rows"].fillna(1).sum()) if "rows" in part else len(part)


def aggregated(taken: pd.DataFrame) -> pd.DataFrame:
    """One reading for each depot and day, of all its rows: their sum, unknown where one is; open where one is.

    The place is that of the last row. Covariates are the highest known; words the last known.
    """
    keys = [taken["depot_id"], taken["day"]]
    groups = taken.assign(rows=np.int32(1)).groupby(keys, observed=True, sort=False)
    found = groups[["open", "recorded_at", "row"]].max()
    found["demand"] = groups["demand"].sum(min_count=1).where(groups["demand"].count() == groups.size())
    found["source"], found["rows"] = groups["source"].last(), groups.size().astype("int32")
    for name in taken.columns.difference([*found.columns, "depot_id", "day"], sort=False):
        numeric = pd.api.types.is_numeric_dtype(taken[name])
        found[name] = groups[name].max() if numeric else groups[name].last().astype("category")
    found = found.reset_index()
    return found[[name for name in taken.columns if name in found] + ["rows"]]


def whole_days(batch: Batch, contract: Contract) -> Batch:
    """The batch with one reading for each depot and day; in quarantine are those of a day that is not over."""
    whole = replace(batch, taken=aggregated(batch.taken))
    today = contract.today(whole.taken["depot_id"])
    going_on = ~np.isnan(whole.taken["demand"].to_numpy()) & (whole.taken["day"].to_numpy() >= today)
    rows = whole.taken[going_on]
    wanted = OF_ROWS[DAY_NOT_OVER].wanted.format(timezone=contract.spec.timezone)
    message = start(rows) + ": found " + rows["rows"].astype("str") + f" rows so far, wanted {wanted}"
    return whole.refuse(going_on, DAY_NOT_OVER, message, contract.spec, contract.now)


def settle(batch: Batch, spec: Spec, now: datetime) -> Batch:
    """The batch with repeats in quarantine."""
    batch = replace(batch, taken=batch.taken.reset_index(drop=True))  # labels are positions, and stay when rows go
    found = reading_versions.repeats(batch.taken, declared=spec.demand.columns.recorded_at is not None)
    for rule, places in found.broken.items():
        if len(places):
            message = _message(batch.taken.loc[places], spec, rule)
            batch = batch.refuse(batch.taken.index.isin(places), rule, message, spec, now)
    return replace(batch, single=found.none)


def since_release(batch: Batch, released: pd.DataFrame, spec: Spec) -> Batch:
    """The batch with readings that a person released known from then on.

    `released` has the columns id, rule, depot_id, day and recorded_at (µs since 1970), of the decision.
    """
    if released.empty or batch.taken.empty:
        return batch
    taken = batch.taken.reset_index(drop=True)
    near = taken[taken["depot_id"].isin(released["depot_id"]) & taken["day"].isin(released["day"])]
    content, recorded = quarantine.retold(near, spec), taken["recorded_at"].copy()
    for rule, decided in released.groupby("rule"):
        since = quarantine.identity(near["source"], rule, content).map(decided.set_index("id")["recorded_at"]).dropna()
        recorded.loc[since.index] = np.maximum(recorded.loc[since.index], since.astype("int64"))
    return replace(batch, taken=taken.assign(recorded_at=recorded))


def new(batch: Batch, known: KnownDays, spec: Spec, now: datetime) -> Batch:
    """The batch with those readings taken that the known ones do not hold; the others are counted as unchanged."""
    instant = int(pd.Timestamp(now).as_unit("us").asm8.astype(np.int64))
    days, fresh = Days(batch.taken["day"].to_numpy()), np.ones(len(batch.taken), np.bool_)
    recorded = batch.taken["recorded_at"].to_numpy(copy=True)
    for first, last, rows in known.stretches():  # no rule looks from one day at another
        at = days.between(first, last)
        part, declared = batch.taken.iloc[at], spec.demand.columns.recorded_at is not None
        found = reading_versions.new_readings(part, rows, declared=declared, now=instant)
        fresh[at], recorded[at] = found.new, found.recorded_at
    taken = batch.taken.assign(recorded_at=recorded)
    held = batch.size(taken[~fresh])
    return replace(batch, taken=taken if fresh.all() else taken[fresh], unchanged=batch.unchanged + held)


def stop(batch: Batch, reason: str, spec: Spec, now: datetime) -> Batch:
    """The batch with everything in quarantine that was not refused already."""
    everything = np.ones(len(batch.taken), np.bool_)
    message = start(batch.taken) + f": found nothing wrong with this row, but its batch was stopped: {reason}"
    return batch.refuse(everything, STOPPED, message, spec, now)


def _message(rows: pd.DataFrame, spec: Spec, rule: str) -> Column:
    counted = rows["demand"].map(lambda count: f"{count:g}" if count == count else "nothing")
    column = f", column '{spec.demand.columns.demand}': found '"
    return start(rows) + column + counted.astype("str") + f"', wanted {OF_ROWS[rule].wanted}"


def start(rows: pd.DataFrame) -> Column:
    """How a message about readings begins: file:row: depot on day."""
    return quarantine.place(rows) + " on " + dates(rows).dt.strftime("%Y-%m-%d").astype("str")
