"""Point-in-time panels for backtests without look-ahead: the data that a nightly run would have had
at an earlier cutoff.

That run knew the readings recorded by its hour, the events and depots announced by then, and, of
the days ahead, only the values that the source had reported in advance. The instant of two kinds of
readings carries no information. They count as known on the morning after their day, and their
covariates in advance, with a declared report error (`calendar.lead_error`). The first kind is the
readings of an archive (`demand.recorded: next_day`), without restatements. The second is history
that was loaded later: a depot's first batch, the first version of a day if it arrived more than
four weeks late, and the first batch with values of a covariate.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core.knowledge import Knowledge
from forecaster.core.panel import Encoding, Panel
from forecaster.demand.history import point_in_time, reading_versions, report_errors
from forecaster.demand.panel import build as panels
from forecaster.demand.readings import covariates
from forecaster.lake import Lake

LOADED_LATER = timedelta(days=28)
_DAY = 86_400_000_000  # in µs


class Past:
    """Panels of tonight's depots at earlier cutoffs."""

    def __init__(self, knowledge: Knowledge, panel: Panel, spec: Spec) -> None:
        """Read all versions known tonight. Raises LakeError when the lake cannot be read."""
        lake, tonight = Lake.of(spec), knowledge.as_of
        self._spec, self._knowledge, self._panel = spec, knowledge, panel
        self._encoding = panel.encoding
        self._rows = point_in_time.every_version(lake, spec, tonight, knowledge.versions["demand"])
        self._loaded = _loaded_later(self._rows, spec)
        self._small = {
            table: point_in_time.frame(lake, table, version=knowledge.versions[table], until=tonight)
            for table in point_in_time.KEYS
        }
        self._refused = point_in_time.refused_readings(lake, tonight)

    def under(self, encoding: Encoding) -> Self:
        """The same past in another model's encoding; shares the rows already read."""
        other = copy(self)
        other._encoding = encoding
        return other

    def __call__(self, cutoff: date) -> Panel:
        """Panel of tonight's depots at a cutoff before tonight's; a depot unknown at that time is
        never open.

        Raises NoUsableData when no demand was known by then.
        """
        knowledge = self.knowledge(cutoff, self._morning(cutoff))
        panel = panels.build(replace(knowledge, cutoff=cutoff), self._spec, self._encoding)
        return panel.among(self._panel.depot_ids)

    def knowledge(self, cutoff: date, instant: datetime) -> Knowledge:
        """Knowledge as of an instant before tonight, without counts after the cutoff."""
        spec = self._spec
        number = int(np.datetime64(cutoff, "D").astype(np.int64))
        day = self._rows["day"].to_numpy()
        by_then = self._loaded | (self._rows["recorded_at"].to_numpy() <= _microseconds(instant))
        past = self._rows[by_then & (day <= number)]
        is_ahead = (day > number) & (day <= number + spec.horizon)
        horizon_rows = self._rows[by_then & is_ahead].assign(demand=np.nan)
        if "open" not in spec.calendar.known_future:
            loaded = self._loaded[by_then & is_ahead]
            horizon_rows["open"] = np.where(loaded, np.int8(-1), horizon_rows["open"].to_numpy())
        if spec.calendar.lead_error:
            horizon_rows = report_errors.with_drawn(horizon_rows, self._loaded[by_then & is_ahead], number, spec)
        demand = reading_versions.latest(pd.concat([past, horizon_rows]))
        small = {table: self._recorded_by(rows, instant) for table, rows in self._small.items() if table != "aliases"}
        # Tonight's aliases reveal nothing about demand and keep the depots comparable.
        small["aliases"] = self._small["aliases"]
        refused = self._recorded_by(self._refused, instant)
        past_knowledge = point_in_time.assemble(demand, small, refused, spec, instant, self._knowledge.versions)
        return replace(past_knowledge, half_hours=self._knowledge.half_hours)

    def spec_to_train(self, spec: Spec, cutoff: date) -> Spec:
        """The pipeline with the report errors that the lake showed by the night of a cutoff, in
        addition to the declared ones. Raises SpecError if one is declared for a covariate that is
        not a numeric column."""
        report_errors.refuse_other_than_numbers(spec, self._rows)

        def night_after(number: int) -> int:
            return _microseconds(self._morning(date(1970, 1, 1) + timedelta(days=number)))

        last = int(np.datetime64(cutoff, "D").astype(np.int64))
        learned = report_errors.learned(self._rows, self._loaded, night_after, last, spec)
        return spec.with_lead_error(learned) if learned else spec

    def _morning(self, cutoff: date) -> datetime:
        """Instant of a run with this cutoff: at tonight's local hour, with tonight's lag in days;
        one day if that lag is beyond the horizon, as in an archive."""
        local = self._knowledge.as_of.astimezone(self._spec.zone)
        lag = (local.date() - self._panel.cutoff).days
        days = lag if 1 <= lag <= self._spec.horizon else 1
        return datetime.combine(cutoff + timedelta(days=days), local.time(), self._spec.zone).astimezone(UTC)

    @staticmethod
    def _recorded_by(rows: pd.DataFrame, instant: datetime) -> pd.DataFrame:
        """Readings recorded by an instant, and those present from the beginning."""
        recorded = rows["recorded_at"]
        recorded_rows: pd.DataFrame = rows[(recorded <= instant) | (recorded == recorded.min())]
        return recorded_rows


def _loaded_later(rows: pd.DataFrame, spec: Spec) -> NDArray[np.bool_]:
    """Mark readings whose instant does not show when they became known."""
    recorded = rows["recorded_at"].to_numpy()
    depot, slot = rows["depot_id"].cat.codes.to_numpy(), reading_versions.slots(rows.iloc[:0], rows)
    first_version = recorded == _least(recorded, slot.history, slot.count)[slot.history]
    if spec.demand.recorded == "next_day" and spec.demand.columns.recorded_at is None:
        archive: NDArray[np.bool_] = first_version | _first_batch_with(rows, spec.demand.columns.limits)
        return archive
    first_batch = recorded == _least(recorded, depot, len(rows["depot_id"].cat.categories))[depot]
    first_batch |= _first_batch_with(rows, covariates(rows))
    is_late = recorded - rows["day"].to_numpy().astype(np.int64) * _DAY > LOADED_LATER / timedelta(microseconds=1)
    loaded: NDArray[np.bool_] = first_batch | (first_version & is_late)
    return loaded


def _first_batch_with(rows: pd.DataFrame, names: Iterable[str]) -> NDArray[np.bool_]:
    """Mark the batch that first had a value in one of these columns: a column declared later
    delivers its whole past at once."""
    recorded, is_first_batch = rows["recorded_at"].to_numpy(), np.zeros(len(rows), np.bool_)
    for name in names:
        if name in rows and (has_value := rows[name].notna().to_numpy()).any():
            is_first_batch |= recorded == recorded[has_value].min()
    return is_first_batch


def _least(values: NDArray[np.int64], group: NDArray[Any], count: int) -> NDArray[np.int64]:
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    return least


def _microseconds(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
