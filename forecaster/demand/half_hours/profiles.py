"""Half-hourly profiles of a batch: the orders of each day by half hour, and the profiles that the
lake does not hold yet.

They complement the daily counts: a quarantined day leaves no profile, and a day whose orders only
moved to other hours gets a new one although its count is the same. Earlier versions never change:
the latest version known by an instant counts, as with counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.arrays import Floats
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import sentence
from forecaster.demand.half_hours.clock import HALF_HOURS, MIDNIGHT, NO_TIME
from forecaster.demand.half_hours.stored import KEY, TABLE, latest_profiles
from forecaster.demand.readings import HALF_HOUR
from forecaster.lake import Lake


@dataclass(frozen=True)
class DayProfiles:
    """Orders by half hour for the depots and days of a batch, and its rows without a time of day."""

    # depot_id (text), day (since 1970), recorded_at (µs since 1970); one row per depot and day
    days: pd.DataFrame
    orders: Floats  # (rows of `days`, half hours)
    timeless: int = 0  # rows
    first: str = ""  # file:row of the first of them
    all_midnight: bool = False  # no row has a time because all are at midnight

    @classmethod
    def of(cls, rows: pd.DataFrame) -> DayProfiles:
        """Build profiles from the accepted rows of a batch, as `readings` describes them, with
        their half hours. A day with a missing count or time has no profile."""
        # imports the readers of sources, which a prediction lacks
        from forecaster.demand.validation import quarantine

        halves = rows[HALF_HOUR].to_numpy()
        all_midnight = bool(len(rows)) and not ((halves != MIDNIGHT) & (halves != NO_TIME)).any()
        timeless = np.ones(len(rows), bool) if all_midnight else halves == NO_TIME
        halves = np.where(halves == MIDNIGHT, 0, np.maximum(halves, 0))
        groups = rows.groupby(KEY, observed=True, sort=False)
        place = groups.ngroup().to_numpy()
        days: Any = groups["recorded_at"].max().reset_index().astype({"depot_id": "str"})
        orders = np.zeros(len(days) * HALF_HOURS)
        counts = np.where(timeless, np.nan, rows["demand"].to_numpy())
        np.add.at(orders, place * HALF_HOURS + halves, counts)
        profile = orders.reshape(-1, HALF_HOURS).astype(np.float32)
        is_complete = ~np.isnan(profile).any(axis=1)
        first = str(quarantine.place(rows[timeless].head(1)).iloc[0]) if timeless.any() else ""
        return cls(
            days[is_complete].reset_index(drop=True), profile[is_complete], int(timeless.sum()), first, all_midnight
        )

    def findings(self, spec: Spec) -> list[Finding]:
        """Finding about rows without a time of day, if there are any."""
        if not self.timeless:
            return []
        return [no_time_finding(self.timeless, self.first, spec, all_midnight=self.all_midnight)]

    def new_rows(self, lake: Lake, refused: pd.DataFrame, accepted: pd.DataFrame, now: datetime) -> pa.Table:
        """Rows that the lake does not hold yet, without the `refused` days: known since their
        readings are, or since `now` if another profile was known before.

        Raises LakeError when the lake cannot be read.
        """
        keep = ~self._places(self.days).isin(self._refused_days(refused))
        days, orders = self.days[keep].reset_index(drop=True), self.orders[keep]
        if days.empty:
            return lake.read(TABLE, version=-1)
        since = accepted[[*KEY, "recorded_at"]].astype({"depot_id": "str"})
        days = days.merge(since, on=KEY, how="left", suffixes=("", "_accepted"))
        recorded = days["recorded_at_accepted"].fillna(days["recorded_at"]).astype("int64").to_numpy()
        known_days, known_orders = latest_profiles(lake, first=int(days["day"].min()))
        place = self._places(known_days).get_indexer(self._places(days))
        differs = (
            (place < 0) | (known_orders[place] != orders).any(axis=1) if len(known_orders) else np.ones(len(days), bool)
        )
        arrival = int(pd.Timestamp(now).as_unit("us").asm8.astype(np.int64))
        recorded = np.where(place >= 0, np.maximum(recorded, arrival), recorded)
        return _table(days[differs], orders[differs], recorded[differs])

    @staticmethod
    def _places(days: pd.DataFrame) -> pd.MultiIndex:
        return pd.MultiIndex.from_arrays([days["depot_id"].astype("str"), days["day"].astype("int64")])

    @staticmethod
    def _refused_days(refused: pd.DataFrame) -> pd.MultiIndex:
        """Depots and days that were rejected as a whole."""
        whole_days = refused[refused["rows"].notna()] if "rows" in refused else refused.head(0)
        day = whole_days["date"].to_numpy("datetime64[D]").astype("int64")
        return pd.MultiIndex.from_arrays([whole_days["depot_id"].astype("str"), day])


def no_time_finding(
    rows: int, first: str, spec: Spec, *, all_midnight: bool = False, wanted: str | None = None
) -> Finding:
    """Finding about rows without a time of day; the first of them is at `first` (file:row)."""
    from forecaster.demand.validation.feed_shape import batch_finding

    no_time = N_("found {n} rows with a day and no time of day, the first one {first}")
    midnight = N_("found midnight, or no time of day, in all {n} rows, the first one {first}")
    detail = sentence(midnight if all_midnight else no_time, n=rows, first=first)
    hint = sentence(N_("column '{column}' (demand.columns.date)"), column=spec.demand.columns.day)
    return batch_finding("no_time", rows, detail, hint, spec, wanted=wanted)


def _table(days: pd.DataFrame, orders: Floats, recorded: NDArray[np.int64]) -> pa.Table:
    offsets = pa.array(np.arange(len(days) + 1, dtype=np.int32) * HALF_HOURS)
    return pa.table(
        {
            "depot_id": pa.array(days["depot_id"].to_numpy(object), pa.string()),
            "date": pa.array(days["day"].to_numpy(np.int32)).cast(pa.date32()),
            "orders": pa.ListArray.from_arrays(offsets, pa.array(orders.ravel())),
            "recorded_at": pa.array(recorded).cast(pa.timestamp("us", tz="UTC")),
        }
    )
