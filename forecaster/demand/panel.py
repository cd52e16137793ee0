"""The dense arrays: what was known at one instant, as a Panel.

Every value finds its place by integer position (depot, day); nothing loops over depots.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

import numpy as np
import pandas as pd

from forecaster.demand import calendar
from forecaster.errors import NoUsableData
from forecaster.spec import Spec
from forecaster.values import Bools, Days, Encoding, Floats, Ints, Knowledge, Mark, Panel

MAX_WORDS, MAX_LABELS = 32, 64  # indicators a covariate of words, labels a static attribute
SHOWN_DAYS = 60  # of the history, for marks that belong to one depot
CLOSED_WEEKS = 4  # a depot closed on as many same weekdays in a row is expected to be closed on the next
CLOSURE = "closure"


@dataclass(frozen=True)
class _Grid:
    """Where a depot and a day stand in the arrays."""

    depots: pd.Index[Any]
    days: Days
    history: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.depots), len(self.days)

    def rows(self, depot_ids: Any) -> Ints:
        """Position of each depot, -1 for one that is not in the panel."""
        return np.asarray(self.depots.get_indexer(depot_ids), np.int32)

    def columns(self, dates: Any) -> Ints:
        """Position of each date, -1 for one that is not in the panel."""
        found = (np.asarray(dates, "datetime64[D]") - self.days[0]).astype(np.int64)
        return np.where((found >= 0) & (found < len(self.days)), found, -1).astype(np.int32)


def build(knowledge: Knowledge, spec: Spec, encoding: Encoding | None = None) -> Panel:
    """The panel of all depots up to the last observed day before `knowledge.as_of`, and the horizon after it.

    Without an encoding it is learned from this knowledge; a given one is used as it is, so that a model sees the
    numbers it was trained on. Depots are in the order of their ids. Those of the depots source are kept even without
    any reading, unless they closed. A known-future covariate that is unknown on a day is 0 there.

    Raises NoUsableData when no demand was observed before as_of, or a covariate is nowhere to be found; SpecError for
    a country or subdivision without a holiday calendar.
    """
    today = np.datetime64(knowledge.as_of.astimezone(spec.zone).date(), "D")
    demand = knowledge.demand.assign(date=np.asarray(knowledge.demand["date"], "datetime64[D]"))
    observed = demand[demand["demand"].notna() & (demand["date"] < today)]
    if spec.depots is not None and len(knowledge.depots):
        observed = observed[observed["depot_id"].isin(knowledge.depots["depot_id"])]
    if observed.empty:
        raise NoUsableData(
            f"no demand is known of any day before {today}; wanted at least one counted day to start from"
        )
    grid = _grid(observed, knowledge, spec)
    demand = demand[demand["depot_id"].isin(grid.depots)]
    at = (grid.rows(demand["depot_id"]), grid.columns(demand["date"]))
    inside = at[1] >= 0
    demand, at = demand[inside], (at[0][inside], at[1][inside])

    counted = np.full(grid.shape, np.nan, np.float32)
    counted[at] = demand["demand"].to_numpy(np.float32)
    counted[:, grid.history :] = np.nan
    attributes = _attributes(knowledge.depots, spec, grid)
    reach = [_reach(event, attributes, grid) for event in knowledge.events.itertuples()]
    opened = _open(demand, at, counted, knowledge, reach, spec, grid)
    encoding = encoding or _learn(demand, knowledge.events, attributes, spec)
    groups, group = _calendar_groups(attributes, spec, grid)
    features = [calendar.features(grid.days, *pair) for pair in groups]
    return Panel(
        depot_ids=tuple(grid.depots),
        days=grid.days,
        horizon=spec.horizon,
        demand=counted[:, : grid.history],
        open=opened,
        covariates=_covariates(demand, at, opened, knowledge.events, reach, encoding, spec, grid),
        calendar=np.stack(features),
        calendar_group=group,
        statics=_codes(attributes, encoding, grid),
        encoding=encoding,
        calendar_names=calendar.NAMES,
        attributes=attributes,
        marks=_marks(knowledge.events, reach, groups, group, grid),
    )


def _grid(observed: pd.DataFrame, knowledge: Knowledge, spec: Spec) -> _Grid:
    first, cutoff = observed["date"].min(), observed["date"].max()
    start, end = (np.datetime64(moment, "D") for moment in (first, cutoff))
    days = np.arange(start, end + np.timedelta64(spec.horizon + 1, "D"))
    depots = set(observed["depot_id"])
    if spec.depots is not None and len(knowledge.depots):
        closed = np.asarray(knowledge.depots["closed"], "datetime64[D]")
        depots |= set(knowledge.depots["depot_id"][np.isnat(closed) | (closed > end)])
    return _Grid(pd.Index(sorted(depots), dtype="str"), days, len(days) - spec.horizon)


def _attributes(depots: pd.DataFrame, spec: Spec, grid: _Grid) -> dict[str, tuple[str, ...]]:
    """Each static attribute's word per depot, "" where it is not known."""
    if spec.depots is None:
        return {}
    table = depots.set_index("depot_id").reindex(grid.depots)
    return {
        name: tuple(table[name].fillna("").astype("str")) if name in table else ("",) * len(grid.depots)
        for name in spec.depots.static
    }


def _reach(event: Any, attributes: Mapping[str, tuple[str, ...]], grid: _Grid) -> Bools:
    """The depots that an event concerns: its own, those of its city, or all."""
    everywhere = np.ones(len(grid.depots), np.bool_)
    if isinstance(event.depot_id, str) and event.depot_id:
        everywhere &= np.asarray(grid.depots == event.depot_id)
    if isinstance(event.city, str) and event.city:
        everywhere &= np.asarray(attributes.get("city", ("",) * len(grid.depots))) == event.city
    return everywhere


def _open(
    demand: pd.DataFrame,
    at: tuple[Ints, Ints],
    counted: Floats,
    knowledge: Knowledge,
    reach: list[Bools],
    spec: Spec,
    grid: _Grid,
) -> Bools:
    """In business and not closed on the day. Orders that came prove that a depot was open."""
    depots = knowledge.depots.set_index("depot_id").reindex(grid.depots)
    seen = ~np.isnan(counted)
    first_reading = np.where(seen.any(1), seen.argmax(1), 0)
    opened = np.asarray(depots["opened"], "datetime64[D]")[:, None]
    closed = np.asarray(depots["closed"], "datetime64[D]")[:, None]
    days = grid.days[None]
    started = np.where(np.isnat(opened), days >= grid.days[first_reading][:, None], days >= opened)
    result: Bools = started & ~(days >= closed)
    events = knowledge.events
    columns = grid.columns(events["date"])
    for concerned, kind, column in zip(reach, events["kind"], columns, strict=True):
        if kind == CLOSURE and column >= 0:
            result[concerned, column] = False
    if spec.demand.columns.open is not None and "open" in demand:
        said = np.full(grid.shape, np.nan, np.float32)
        said[at] = demand["open"].astype("float32").to_numpy(np.float32, na_value=np.nan)
        result &= ~_shut(said)
    result[counted > 0] = True
    return result


def _shut(said: Floats) -> Bools:
    """Closed by what the source says (1 open, 0 closed, NaN unknown); where it says nothing, closed if the depot was on
    each of the last four same weekdays of which it speaks."""
    result: Bools = said == 0
    for weekday in range(min(7, said.shape[1])):
        same = said[:, weekday::7]
        known = np.cumsum(~np.isnan(same), axis=1)
        last_open = np.maximum.accumulate(np.where(same == 1, known, 0), axis=1)
        result[:, weekday::7] |= np.isnan(same) & (known - last_open >= CLOSED_WEEKS)
    return result


def _learn(
    demand: pd.DataFrame, events: pd.DataFrame, attributes: Mapping[str, tuple[str, ...]], spec: Spec
) -> Encoding:
    covariates: list[str] = []
    for name in spec.calendar.known_future:
        if name in demand and not _numeric(demand[name]):
            given = demand[name].dropna()
            count = given[~given.isin(["", "0", "nan"])].value_counts()
            covariates += [f"{name}={word}" for word in sorted(_most_frequent(count, MAX_WORDS))]
        else:
            covariates.append(name)
    statics = {}
    for name, values in attributes.items():
        count = pd.Series([word for word in values if word], dtype="str").value_counts()
        statics[name] = tuple(sorted(_most_frequent(count, MAX_LABELS)))
    return Encoding(tuple(covariates), statics)


def _most_frequent(count: Any, most: int) -> list[str]:
    """The words with the highest counts; of equal ones the first in the alphabet."""
    return [str(word) for word in count.sort_index().sort_values(ascending=False, kind="stable").index[:most]]


def _covariates(
    demand: pd.DataFrame,
    at: tuple[Ints, Ints],
    opened: Bools,
    events: pd.DataFrame,
    reach: list[Bools],
    encoding: Encoding,
    spec: Spec,
    grid: _Grid,
) -> Floats:
    result = np.zeros((*grid.shape, len(encoding.covariates)), np.float32)
    columns = grid.columns(events["date"])
    for index, name in enumerate(encoding.covariates):
        column, _, word = name.partition("=")
        if name == "open" and spec.demand.columns.open is not None:
            result[..., index] = opened
        elif name in demand:
            result[(*at, index)] = np.nan_to_num(_as_numbers(demand[name], name))
        elif word and column in demand:
            result[(*at, index)] = (demand[column] == word).to_numpy(np.float32)
        elif spec.calendar.events is not None and name in spec.calendar.known_future:
            for concerned, kind, day in zip(reach, events["kind"], columns, strict=True):
                if kind == name and day >= 0:
                    result[concerned, day, index] = 1
        else:
            raise NoUsableData(
                f"covariate '{name}' is needed, but the demand table has no column '{column}' and no events source "
                "declares it; wanted it in calendar.known_future and in a source that was ingested"
            )
    return result


def _numeric(column: Any) -> bool:
    return bool(pd.api.types.is_numeric_dtype(column) or pd.api.types.is_bool_dtype(column))


def _as_numbers(column: Any, name: str) -> Floats:
    if not _numeric(column):
        raise NoUsableData(
            f"covariate '{name}' was numbers in training and is words now; wanted the same kind, or a new model"
        )
    return np.asarray(column.astype("float32").to_numpy(np.float32, na_value=np.nan))


def _codes(attributes: Mapping[str, tuple[str, ...]], encoding: Encoding, grid: _Grid) -> Ints:
    result = np.zeros((len(grid.depots), len(encoding.statics)), np.int32)
    for index, (name, labels) in enumerate(encoding.statics.items()):
        if name in attributes:
            result[:, index] = pd.Index(labels, dtype="str").get_indexer(pd.Index(attributes[name], dtype="str")) + 1
    return result


def _calendar_groups(
    attributes: Mapping[str, tuple[str, ...]], spec: Spec, grid: _Grid
) -> tuple[list[tuple[str | None, str | None]], Ints]:
    """The distinct (country, subdivision) pairs, and each depot's place among them."""
    depots = len(grid.depots)
    if not spec.calendar.holidays:
        return [(None, None)], np.zeros(depots, np.int32)
    country, subdivision = spec.calendar.country or "", spec.calendar.subdivision or ""
    pairs = [
        (own or country, part or (subdivision if own in ("", country) else ""))
        for own, part in zip(
            attributes.get("country", ("",) * depots), attributes.get("subdivision", ("",) * depots), strict=True
        )
    ]
    groups = sorted(set(pairs))
    place = {pair: index for index, pair in enumerate(groups)}
    return [(own or None, part or None) for own, part in groups], np.array([place[pair] for pair in pairs], np.int32)


def _marks(
    events: pd.DataFrame,
    reach: list[Bools],
    groups: list[tuple[str | None, str | None]],
    group: Ints,
    grid: _Grid,
) -> tuple[Mark, ...]:
    """Holidays and events; those that differ by depot only for the days that a page shows."""
    end: date = grid.days[-1].astype(object)
    start = grid.days[grid.history - 1].astype(object) - timedelta(days=SHOWN_DAYS)
    shown = grid.days[grid.days > np.datetime64(start, "D")]
    marks: list[Mark] = []
    for index, (country, subdivision) in enumerate(groups):
        everyone = len(groups) == 1
        names = calendar.holiday_names(grid.days if everyone else shown, country, subdivision)
        ids = [None] if everyone else list(grid.depots[group == index])
        marks += [Mark(day, "holiday", name, depot) for day, name in names.items() for depot in ids]
    for concerned, event in zip(reach, events.itertuples(), strict=True):
        day = np.datetime64(str(event.date)[:10], "D").astype(object)
        if start < day <= end:
            ids = [None] if concerned.all() else list(grid.depots[concerned])
            marks += [Mark(day, str(event.kind), str(event.name), depot) for depot in ids]
    return tuple(sorted(marks, key=lambda mark: (mark.date, mark.kind, mark.name, mark.depot_id or "")))
