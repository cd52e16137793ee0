"""Steps of a worker on a group of depots: functions of a shuffle, of facts about all depots, and of
the group.

No state survives between two calls except files in the shuffle's folder, which are written
atomically: repeating a call, e.g. after a worker was killed, gives the same result.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from forecaster.config import Spec
from forecaster.core import artifact
from forecaster.core.arrays import Bools, Doubles, Floats
from forecaster.core.imputation import cold_start
from forecaster.core.knowledge import Finding
from forecaster.core.marks import CLOSED_WEEKDAY
from forecaster.core.panel import Panel
from forecaster.demand.history import shuffle as shuffles
from forecaster.demand.history.shuffle import Shuffle
from forecaster.demand.panel import build as panels
from forecaster.demand.panel import closed_weekdays, opening_days
from forecaster.demand.panel.grid import Span, observed_depots
from forecaster.demand.panel.known_future.covariates import FAR_RULE
from forecaster.demand.panel.network_facts import Counts, NetworkFacts, Pairs
from forecaster.demand.panel.panel_findings import panel_findings
from forecaster.errors import LedgerError
from forecaster.lake import limits
from forecaster.ledger.staging.depot_rows import published_batches
from forecaster.ledger.staging.objections import objections_to_depots
from forecaster.planning import apply
from forecaster.planning.overrides import Cell, Override
from forecaster.publishing import archive_rows, caveats, content
from forecaster.publishing.caveats import Note
from forecaster.publishing.forecast import ModelChoice, predicted_by, ready_predictor
from forecaster.publishing.groups import depot_files
from forecaster.serving import totals
from forecaster.serving.predict import Predictor
from forecaster.serving.totals import Group

NEVER = np.iinfo(np.int64).max
_ready: dict[tuple[str, str], Predictor] = {}  # by bundle and pipeline file


@dataclass(frozen=True)
class DepotGroup:
    """Range of depots by the positions of their ids, from `first` to before `last`."""

    number: int
    first: int
    last: int


@dataclass(frozen=True)
class SeenDepots:
    """Depots of a group with known data, by the positions of their ids."""

    observed: NDArray[np.int64]  # with a reading on some day
    span: Span | None
    declared: NDArray[np.int64]  # in the depots source
    closed: NDArray[np.int64]  # closing day of each of these, in days since 1970


@dataclass(frozen=True)
class GroupHabits:
    """Habits of the depots of a group, for use by other depots."""

    habits: Mapping[str, Counts]
    pairs: Pairs


@dataclass(frozen=True)
class GroupStanding:
    """Known days and levels of the depots of a group, by which peers are chosen."""

    standing: cold_start.DepotStanding
    cities: tuple[str, ...]  # of each depot
    cold: tuple[str, ...]  # depots on which the model was not trained
    strangers: tuple[str, ...]  # those without known attributes, too
    totals: tuple[Group, ...]  # groups that contain its depots


@dataclass(frozen=True)
class ForecastOrder:
    """Forecast parameters common to all groups."""

    choice: ModelChoice
    run_id: str
    now: datetime
    totals: tuple[Group, ...]  # groups of all depots
    overrides: Mapping[Cell, Override] = field(default_factory=dict)  # in force


@dataclass(frozen=True)
class GroupForecast:
    """Result of a group; its depots and archive rows are in files."""

    depots: int  # in the panel
    published: int
    sums: tuple[Mapping[Group, Doubles], ...]  # of the joint sample paths of each chunk
    findings: tuple[Finding, ...]
    late: tuple[tuple[str, ...], int]
    target_dates: tuple[Any, ...]


def see(shuffle: Shuffle, facts: NetworkFacts, group: DepotGroup) -> SeenDepots:
    """Depots of a group with data, and the range of their days."""
    limits.renew()
    knowledge = shuffles.knowledge_of(shuffle, group.first, group.last)
    ids, span = observed_depots(knowledge, shuffle.spec, facts)
    closed = np.asarray(knowledge.depots["closed"], "datetime64[D]")
    numbers = np.where(np.isnat(closed), NEVER, closed.astype(np.int64))
    names = shuffles.current_ids(shuffle.folder).slice(group.first, group.last - group.first)
    observed, declared = (
        group.first + np.searchsorted(names.to_numpy(zero_copy_only=False), np.array(of, object)).astype(np.int64)
        for of in (ids, knowledge.depots["depot_id"])
    )
    return SeenDepots(observed, span, declared, numbers)


def habits(shuffle: Shuffle, facts: NetworkFacts, group: DepotGroup) -> GroupHabits:
    """Weekdays on which a group's depots are closed, and their countries and subdivisions."""
    limits.renew()
    openings = _openings(shuffle, facts, group)
    of_group = closed_weekdays.habits_of(openings.came, openings.cities, shuffle.spec, openings.grid)
    return GroupHabits(of_group, panels.distinct_homes(openings.scope, shuffle.spec))


def feed(shuffle: Shuffle, facts: NetworkFacts, group: DepotGroup) -> Counts:
    """Numbers of depots of a group with a count, and of open ones, on each day."""
    limits.renew()
    openings = _openings(shuffle, facts, group)
    _, is_open = panels.usual_days(openings, shuffle.spec, facts)
    return opening_days.feed_counts(openings.counts, is_open, openings.grid)


def stand(shuffle: Shuffle, facts: NetworkFacts, group: DepotGroup, choice: ModelChoice) -> GroupStanding:
    """Data of a group's depots from which others may learn; their days are written into files."""
    limits.renew()
    predictor = _predictor(shuffle.spec, choice)
    knowledge = shuffles.knowledge_of(shuffle, group.first, group.last)
    panel = panels.build(knowledge, shuffle.spec, predictor.bundle.encoding, facts)
    for name, array in (("demand", panel.demand), ("open", panel.open)):
        _save(shuffle.folder / f"days-{group.number:06d}-{name}.npy", array)
    path = shuffle.folder / f"days-{group.number:06d}-words.json"
    attributes = {name: list(of_depots) for name, of_depots in panel.attributes.items()}
    artifact.write(path, json.dumps(attributes).encode())
    new = caveats.newcomers(panel, _trained_on(predictor, panel), predictor.bundle.encoding.statics)
    cities = panel.attributes.get("city", ("",) * len(panel.depot_ids))
    depot_data = cold_start.depots_standing(panel.demand, panel.open)
    return GroupStanding(depot_data, cities, new.cold, new.strangers, _values(panel, shuffle.spec))


def days_of(shuffle: Shuffle, group: DepotGroup, rows: NDArray[np.intp]) -> tuple[Floats, Bools, dict[str, list[str]]]:
    """Counts, open days and attributes of some depots of a group, from the files of `stand`."""
    start = shuffle.folder / f"days-{group.number:06d}"
    demand, open_ = (
        np.load(f"{start}-{name}.npy", mmap_mode="r", allow_pickle=False)[rows] for name in ("demand", "open")
    )
    attributes = json.loads(Path(f"{start}-words.json").read_text("utf-8"))
    return demand, open_, {name: [of_depots[row] for row in rows] for name, of_depots in attributes.items()}


def forecast(shuffle: Shuffle, facts: NetworkFacts, group: DepotGroup, order: ForecastOrder) -> GroupForecast:
    """Forecast and roster a group; write its published depots and archive rows into files.

    Raises StaleHistory if the newest reading of all depots is too old, BundleError if the bundle is
    unusable, LedgerError if its forecasts cannot be published.
    """
    limits.renew()
    spec, predictor = shuffle.spec, _predictor(shuffle.spec, order.choice)
    knowledge = shuffles.knowledge_of(shuffle, group.first, group.last)
    panel = panels.build(knowledge, spec, predictor.bundle.encoding, facts)
    if np.isfinite(panel.demand[:, -1]).any():  # true for groups with a depot whose last reading is the newest
        caveats.refuse_stale(panel, spec, shuffle.as_of)
    result = predicted_by(predictor, panel, spec, order.choice)
    overrides = apply.locate_overrides(result.forecast, order.overrides, lambda cell: _may_open(panel, cell))
    _save_rows(rows_file(shuffle, group), archive_rows.rows(result, overrides, order.run_id, order.now))
    overridden = apply.apply_overrides(result.forecast, overrides)
    sums = tuple(totals.chunk_totals(overridden, panel, _members(panel, order.totals)))
    weeks = np.concatenate([chunk.depot_weeks for chunk in sums])
    without_weeks = content.published_depots(overridden, result, spec, knowledge, overrides, now=order.now)
    depots = content.with_weeks(without_weeks, panel, weeks)
    if sentences := objections_to_depots(depots, overridden.levels, panel.target_dates):
        raise LedgerError("not published: " + "; ".join(sentences))
    published = depot_files.write(depots_file(shuffle, group), published_batches(depots))
    return GroupForecast(
        len(panel.depot_ids),
        published,
        tuple(chunk.sums for chunk in sums),
        (*panel_findings(knowledge, panel, spec), *(_held_back(note) for note in result.held_back)),
        _late(panel, spec),
        panel.target_dates,
    )


def _held_back(note: Note) -> Finding:
    return Finding(FAR_RULE, "warn", 1, note.text)


def depots_file(shuffle: Shuffle, group: DepotGroup) -> Path:
    """File with a group's published depots."""
    return shuffle.folder / f"depots-{group.number:06d}.arrow"


def rows_file(shuffle: Shuffle, group: DepotGroup) -> Path:
    """File with a group's archive rows."""
    return shuffle.folder / f"rows-{group.number:06d}.parquet"


def _openings(shuffle: Shuffle, facts: NetworkFacts, group: DepotGroup) -> panels.Openings:
    return panels.openings(shuffles.knowledge_of(shuffle, group.first, group.last), shuffle.spec, facts)


def _values(panel: Panel, spec: Spec) -> tuple[Group, ...]:
    return tuple((level, name) for level in spec.levels for name in sorted({*panel.attributes.get(level, ())} - {""}))


def _members(panel: Panel, groups: tuple[Group, ...]) -> dict[Group, Bools]:
    attributes = {level: np.array(of_depots) for level, of_depots in panel.attributes.items()}
    everyone = np.ones(len(panel.depot_ids), np.bool_)
    return {totals.NETWORK: everyone} | {(level, name): attributes[level] == name for level, name in groups}


def _may_open(panel: Panel, cell: Cell) -> bool:
    row = panel.depot_ids.index(cell[0])
    return any(mark.date == cell[1] and mark.kind == CLOSED_WEEKDAY for mark in panel.marks.of(row))


def _late(panel: Panel, spec: Spec) -> tuple[tuple[str, ...], int]:
    names, count = caveats.late_depots(panel, spec)
    return tuple(names), count


def _trained_on(predictor: Predictor, panel: Panel) -> Any:
    return predictor.bundle.manifest.get("depots", panel.depot_ids)


def _save(file: Path, array: NDArray[Any]) -> None:
    with artifact.writing(file) as new, new.open("wb") as stream:
        np.save(stream, array, allow_pickle=False)


def _save_rows(file: Path, rows: pa.Table) -> None:
    with artifact.writing(file) as new:
        pq.write_table(rows, new, compression="zstd")


def _predictor(spec: Spec, choice: ModelChoice) -> Predictor:
    """Predictor of the bundle, which a worker verifies once."""
    key = str(choice.bundle), spec.digest
    if key not in _ready:
        _ready.clear()
        _ready[key] = ready_predictor(spec, choice)
    return _ready[key]
