"""A pipeline made from data frames, with the sources and the lake of a nightly run in its own
folder.

    demand/df.parquet      readings, and demand/future.parquet: known values of days ahead
    static.parquet, events.parquet
    state/                 lake, keys, bundles

This way a frame passes the same checks as a file, and a model fitted in a notebook is a pipeline
that the nightly run can execute: `Forecaster.save` adds its pipeline file.
"""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import yaml

from forecaster.api.caller_terms import ARGUMENTS, as_python
from forecaster.api.frames import OURS, FrameKind, LongFrame, long_frame, to_arrow
from forecaster.config import Spec, load, spec_of
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.language.near_words import fold
from forecaster.core.terminal import count
from forecaster.errors import NoUsableData, SpecError

FILE, READINGS, FUTURE, STATIC, EVENTS = (
    "pipeline.yaml",
    "demand/df.parquet",
    "demand/future.parquet",
    "static.parquet",
    "events.parquet",
)
OPEN = "open"  # column that is 0 on closed days
# optional columns of readings, by their keys in `demand.columns`: `capped` is 1 if demand was
# higher
OPTIONAL = (OPEN, "capped")

logger = logging.getLogger("forecaster")


@dataclass(frozen=True)
class Frames:
    """Given data: readings, depot attributes and events, each as an Arrow table with our names."""

    readings: LongFrame
    static: pa.Table | None = None
    events: pa.Table | None = None

    @property
    def kind(self) -> FrameKind:
        return self.readings.kind

    @property
    def covariates(self) -> tuple[str, ...]:
        """Columns of the readings that are known for the days ahead."""
        return tuple(name for name in self.readings.table.column_names if name not in (*OURS, *OPTIONAL))


def frames_of(df: Any, static: Any, events: Any, known_future: Sequence[str], argument: str = "df") -> Frames:
    """Frames as tables; `argument` is the caller's name of `df`. Raises SpecError for a column of
    `df` that is not in `known_future`, and if that is not a list, NoUsableData for a frame without
    rows."""
    if isinstance(known_future, str):
        raise SpecError(f"known_future: found the text {known_future!r}, wanted a list of names: [{known_future!r}]")
    if not isinstance(known_future, Iterable):
        raise SpecError(f"known_future: found {known_future!r}, wanted a list of names")
    readings = long_frame(df, argument)
    if len(readings.table) == 0:
        raise NoUsableData(f"{argument}: found no row, wanted one for each depot and day")
    _refuse_unnamed(readings.table, known_future, argument)
    return Frames(readings, _static(static, readings.kind), _events(events, readings.kind))


def frames_to_learn_from(df: Any, static: Any, events: Any, known_future: Sequence[str]) -> Frames:
    """Call `frames_of` for the data of a fit. Raises SpecError as that does, and for a name in
    `known_future` that neither `df` nor an event has."""
    frames = frames_of(df, static, events, known_future)
    _refuse_missing(known_future, frames.readings.table.column_names, frames.events)
    return frames


def days_ahead(future: Any, known_future: Sequence[str], covariates: Sequence[str]) -> pa.Table:
    """Known covariates of days ahead; existing counts are dropped. Raises SpecError as `frames_of`
    does, and if a covariate of the readings is missing."""
    table = long_frame(future, "future", demand=False).table
    _refuse_unnamed(table, known_future, "future")
    if missing := [name for name in covariates if name not in table.column_names]:
        columns = ", ".join(table.column_names)
        raise SpecError(f"future: found the columns {columns}; wanted {_quoted(missing)} too, which known_future names")
    return table.drop_columns([name for name in table.column_names if name == OURS.demand])


def _refuse_unnamed(table: pa.Table, known_future: Sequence[str], argument: str) -> None:
    if unknown := sorted(set(table.column_names) - {*OURS, *OPTIONAL, *known_future}):
        several = len(unknown) > 1
        raise SpecError(
            f"{argument}: found the {'columns' if several else 'column'} {_quoted(unknown)}, which nothing names; "
            f"wanted {'each of them' if several else 'it'} in known_future, where it is known of the days ahead, in "
            "the frame `static`, where it is one value a depot, or left out"
        )


def _refuse_missing(known_future: Sequence[str], columns: Sequence[str], events: pa.Table | None) -> None:
    kinds = events["kind"].to_pylist() if events is not None and "kind" in events.column_names else []
    candidates = [name for name in dict.fromkeys([*columns, *kinds]) if name not in (*OURS, *OPTIONAL)]
    folded = {fold(str(kind)) for kind in kinds}  # as kinds are compared
    if missing := [name for name in known_future if name not in candidates and fold(str(name)) not in folded]:
        expected = f"wanted one of {', '.join(map(str, candidates))}" if candidates else "wanted a column that df has"
        raise SpecError(
            f"known_future: found {_quoted(missing)}, which {'are no columns' if len(missing) > 1 else 'is no column'} "
            f"of df, and no kind of the frame `events`; {expected}"
        )


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def _static(static: Any, kind: FrameKind) -> pa.Table | None:
    if static is None:
        return None
    table, _ = to_arrow(static, "static")
    name = kind.names.depot_id
    if name not in table.column_names:
        raise SpecError(f"static: found the columns {', '.join(table.column_names)}; wanted '{name}', as df has it")
    return _with_ids(table.rename_columns([OURS.depot_id if n == name else n for n in table.column_names]))


def _events(events: Any, kind: FrameKind) -> pa.Table | None:
    if events is None:
        return None
    table, _ = to_arrow(events, "events")
    if missing := [name for name in (kind.names.date, "kind", "name") if name not in table.column_names]:
        raise SpecError(f"events: found the columns {', '.join(table.column_names)}; wanted {_quoted(missing)} too")
    ours = dict(zip(kind.names, OURS, strict=True))
    return _with_ids(table.rename_columns([ours.get(name, name) for name in table.column_names]))


def _with_ids(table: pa.Table) -> pa.Table:
    if OURS.depot_id not in table.column_names:
        return table
    place = table.column_names.index(OURS.depot_id)
    return table.set_column(place, OURS.depot_id, table[OURS.depot_id].cast(pa.string()))


class WorkFolder:
    """Temporary folder that exists as long as this process references the object."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix="forecaster-"))
        weakref.finalize(self, _remove, self.path, os.getpid())


def _remove(folder: Path, process: int) -> None:
    """Remove the folder; a forked process also has the object, but must not remove it."""
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class PipelineFolder:
    """Tables of a pipeline in a folder, and the pipeline as a value and as the content of a file."""

    folder: Path
    spec: Spec
    content: Mapping[str, Any]

    @classmethod
    def create(
        cls, folder: Path, content: Mapping[str, Any], frames: Frames, names: Mapping[str, str] = ARGUMENTS
    ) -> PipelineFolder:
        """Write the tables. Raises SpecError for invalid pipeline content, using the caller's
        `names` of its keys."""
        content = dict(content)
        columns = {name: name for name in OPTIONAL if name in frames.readings.table.column_names}
        demand = {"source": {"kind": "parquet", "path": "demand"}, "recorded": "next_day", "columns": columns}
        content["demand"] = merged(demand, content.get("demand", {}))
        if frames.static is not None:
            attributes = [name for name in frames.static.column_names if name not in (OURS.depot_id, *_BUSINESS)]
            business = {name: name for name in _BUSINESS if name in frames.static.column_names}
            content["depots"] = merged(
                {"source": {"kind": "parquet", "path": STATIC}, "static": attributes, "columns": business},
                content.get("depots", {}),
            )
        if frames.events is not None:
            events = {"events": {"source": {"kind": "parquet", "path": EVENTS}}}
            content["calendar"] = merged(events, content.get("calendar", {}))
        (folder / "demand").mkdir(exist_ok=True)
        pq.write_table(frames.readings.table, folder / READINGS)
        for name, table in ((STATIC, frames.static), (EVENTS, frames.events)):
            if table is not None:
                pq.write_table(table, folder / name)
        content = as_python(content)
        return cls(folder, spec_of(content, folder, names), content)

    @classmethod
    def open(cls, folder: Path) -> PipelineFolder:
        """Open the pipeline of a folder that `save` wrote. Raises SpecError."""
        spec = load(folder / FILE)
        return cls(folder, spec, yaml.safe_load((folder / FILE).read_text("utf-8")))

    def file_text(self) -> str:
        """Text of the pipeline file. Raises SpecError for values that YAML cannot represent."""
        try:
            return yaml.safe_dump(self.content, sort_keys=False, allow_unicode=True)
        except yaml.YAMLError as error:
            raise SpecError(f"options: {error}; wanted text, numbers, lists and mappings") from error

    def spec_to_train(self) -> Spec:
        """The pipeline with this user's folder of compiled programs, unless `options` sets one. The
        file sets none: on another machine, the folder would belong to another user."""
        if self.spec.execution.compile_cache is not None:
            return self.spec
        execution = self.spec.execution.model_copy(update={"compile_cache": str(compile_cache())})
        return self.spec.model_copy(update={"execution": execution})

    def knowledge(self, logged: set[str] | None = None) -> tuple[Knowledge, tuple[Finding, ...]]:
        """Ingest the tables and read them; also return the findings of the checks. Findings are
        logged, too, except lines already in `logged`, to which new ones are added.

        Raises NoUsableData if no row remains, or if the batch is stopped.
        """
        from forecaster.demand.history.point_in_time import read_as_of
        from forecaster.demand.ingest import ingest

        now, logged = datetime.now(UTC), set() if logged is None else logged
        batch = ingest(self.spec, now=now)
        log_findings(batch.findings, logged)
        if batch.stopped:
            raise NoUsableData(batch.stopped)
        if batch.read == batch.quarantined:
            raise NoUsableData(f"none of {count(batch.read, 'row')} can be used: {batch.findings[0].message}")
        return read_as_of(self.spec, as_of=now), tuple(batch.findings)

    def with_future(self, future: pa.Table) -> None:
        """Write the known values of days ahead next to the readings."""
        table = future.append_column(OURS.demand, pa.nulls(len(future), pa.float64()))
        pq.write_table(table, self.folder / FUTURE)


def log_findings(findings: Iterable[Finding], logged: set[str]) -> None:
    """Log findings except lines already in `logged`; add the new ones to it."""
    for finding in findings:
        if (line := f"{finding.rule} × {finding.count}: {finding.message}") not in logged:
            logged.add(line)
            logger.warning(line)


def strangers_in(future: pa.Table, frames: Frames) -> list[str]:
    """Depots with values ahead that are named in no reading and no attribute."""
    known_depots = depots_of(frames.readings.table)
    if frames.static is not None:
        known_depots |= depots_of(frames.static)
    return sorted(depots_of(future) - known_depots)


def depots_of(table: pa.Table) -> set[str]:
    """Depots in a table, stripped as in the checks."""
    return set(pc.utf8_trim_whitespace(table[OURS.depot_id].unique()).to_pylist()) - {None}


_BUSINESS = ("opened", "closed", "timezone")  # columns of the depots source that are not attributes


def merged(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings recursively; other values of the second one take precedence."""
    both = {
        name: merged(base[name], more[name])
        for name in base.keys() & more.keys()
        if isinstance(base[name], Mapping) and isinstance(more[name], Mapping)
    }
    return {**base, **more, **both}


def compile_cache() -> Path:
    """Cache of this user's compiled programs between fits: `forecaster` in the cache folder of the
    XDG base directory specification."""
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "forecaster" / "programs"
