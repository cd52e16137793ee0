"""Point-in-time panels for backtests without look-ahead: what a night would have had at an earlier
cutoff.

A night of that day knew the readings recorded by its own hour, the events and depots announced by
then, and of the days ahead what the source had said in advance; nothing else is seen. Two kinds of
reading have an instant that says nothing, and count as known on the morning after their day, their
covariates in advance, with a declared error of reports (`calendar.lead_error`): those of an archive
(`demand.recorded: next_day`), restatements left out, and history that was loaded afterwards: a
depot's first batch, and a day's first version where it came more than four weeks late, and the
batch that first told of a covariate.
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
    """Tonight's depots at earlier cutoffs."""

    def __init__(self, knowledge: Knowledge, panel: Panel, spec: Spec) -> None:
        """Reads what was known tonight, all versions. Raises LakeError when the lake cannot be
        read."""
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
        """The same past as another model numbers it, read once for both."""
        other = copy(self)
        other._encoding = encoding
        return other

    def __call__(self, cutoff: date) -> Panel:
        """The panel of tonight's depots at a cutoff before tonight's; a depot not known by then is
        never open.

        Raises NoUsableData when no demand was known by then.
        """
        knowledge = self.knowledge(cutoff, self._morning(cutoff))
        panel = panels.build(replace(knowledge, cutoff=cutoff), self._spec, self._encoding)
        return panel.among(self._panel.depot_ids)

    def knowledge(self, cutoff: date, instant: datetime) -> Knowledge:
        """Knowledge of an instant before tonight, without counts after the cutoff."""
        spec = self._spec
        number = int(np.datetime64(cutoff, "D").astype(np.int64))
        day = self._rows["day"].to_numpy()
        by_then = self._loaded | (self._rows["recorded_at"].to_numpy() <= _microseconds(instant))
        past = self._rows[by_then & (day <= number)]
        is_ahead = (day > number) & (day <= number + spec.horizon)
        ahead = self._rows[by_then & is_ahead].assign(demand=np.nan)
        if "open" not in spec.calendar.known_future:
            loaded = self._loaded[by_then & is_ahead]
            ahead["open"] = np.where(loaded, np.int8(-1), ahead["open"].to_numpy())
        if spec.calendar.lead_error:
            ahead = report_errors.with_drawn(ahead, self._loaded[by_then & is_ahead], number, spec)
        demand = reading_versions.latest(pd.concat([past, ahead]))
        small = {table: self._recorded_by(rows, instant) for table, rows in self._small.items() if table != "aliases"}
        # Whom a name belongs to tonight says nothing of demand, and keeps the depots comparable.
        small["aliases"] = self._small["aliases"]
        refused = self._recorded_by(self._refused, instant)
        past_knowledge = point_in_time.assemble(demand, small, refused, spec, instant, self._knowledge.versions)
        return replace(past_knowledge, half_hours=self._knowledge.half_hours)

    def spec_to_train(self, spec: Spec, cutoff: date) -> Spec:
        """The pipeline with the errors of reports that the lake showed by the night of a cutoff,
        next to those that it declares. Raises SpecError where it declares one of a covariate that is
        no column of numbers."""
        report_errors.refuse_other_than_numbers(spec, self._rows)

        def night_after(number: int) -> int:
            return _microseconds(self._morning(date(1970, 1, 1) + timedelta(days=number)))

        last = int(np.datetime64(cutoff, "D").astype(np.int64))
        learned = report_errors.learned(self._rows, self._loaded, night_after, last, spec)
        return spec.with_lead_error(learned) if learned else spec

    def _morning(self, cutoff: date) -> datetime:
        """The instant of a night with this cutoff: at tonight's local hour, as many days after it
        as tonight is, or one where tonight lies beyond its own horizon, as in an archive."""
        local = self._knowledge.as_of.astimezone(self._spec.zone)
        lag = (local.date() - self._panel.cutoff).days
        days = lag if 1 <= lag <= self._spec.horizon else 1
        return datetime.combine(cutoff + timedelta(days=days), local.time(), self._spec.zone).astimezone(UTC)

    @staticmethod
    def _recorded_by(rows: pd.DataFrame, instant: datetime) -> pd.DataFrame:
        """Readings recorded by an instant, and those there from the beginning."""
        recorded = rows["recorded_at"]
        recorded_rows: pd.DataFrame = rows[(recorded <= instant) | (recorded == recorded.min())]
        return recorded_rows


def _loaded_later(rows: pd.DataFrame, spec: Spec) -> NDArray[np.bool_]:
    """Marks readings whose instant does not say when they were known."""
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
    """Marks the batch that first had a value in one of these columns: declared since, it tells of the
    whole past at once."""
    recorded, told = rows["recorded_at"].to_numpy(), np.zeros(len(rows), np.bool_)
    for name in names:
        if name in rows and (has_value := rows[name].notna().to_numpy()).any():
            told |= recorded == recorded[has_value].min()
    return told


def _least(values: NDArray[np.int64], group: NDArray[Any], count: int) -> NDArray[np.int64]:
    least = np.full(count, np.iinfo(np.int64).max)
    np.minimum.at(least, group, values)
    return least


def _microseconds(instant: datetime) -> int:
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
