"""Try a pipeline file against its sources; change nothing.

The readings are ingested into a copy of what the lake holds, which is gone afterwards.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from forecaster.check.profile import Profile, profile
from forecaster.config import AnySource, Spec
from forecaster.core.knowledge import Finding
from forecaster.core.panel import Panel
from forecaster.demand import sources
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import former_ids, read_as_of
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.demand.panel import build as panels
from forecaster.demand.validation import external_forecasts
from forecaster.errors import LakeError, NoUsableData, SourceError, StaleHistory
from forecaster.lake import TABLES, Lake
from forecaster.publishing import caveats
from forecaster.reports import finding_examples
from forecaster.reports.finding_examples import Evidence

TRIED = tuple(table for table in TABLES if table not in ("forecasts", "scores"))  # what ingesting reads and adds to
_LOG = "_delta_log"


@dataclass(frozen=True)
class Reached:
    """A declared source: how many rows it gave, or why none. Rows that nobody counted are None."""

    place: str  # where the pipeline file declares it
    name: str
    rows: int | None
    fault: str | None = None


@dataclass(frozen=True)
class Trial:
    """What became of the trial; `fault` says why no forecast can start from it."""

    spec: Spec
    reached: tuple[Reached, ...]
    ingested: IngestResult | None = None
    profile: Profile | None = None
    evidence: Evidence | None = None
    fault: str | None = None
    seen: Past | None = None  # the panel at earlier cutoffs, where it was asked for
    caveats: tuple[str, ...] = ()  # what has to be said of a forecast that starts from it


def check(spec: Spec, *, now: datetime, past: bool = False) -> Trial:
    """Reach every source, try the readings against the contract and build the panel as of `now`; with `past` also what
    a backtest would see of it.

    Data that cannot be used is no error here but the trial's `fault`. Raises SpecError when a source does not fit the
    pipeline file, LakeError when the lake cannot be read.
    """
    reached = tuple(_reach(place, source, keys, spec) for place, source, keys in _declared(spec))
    if unreached := [source for source in reached if source.fault]:
        return Trial(spec, reached, fault=f"{len(unreached)} of {len(reached)} sources cannot be read")
    ingested = None
    with tempfile.TemporaryDirectory(prefix="forecaster-check-") as folder:
        copy = spec.model_copy(update={"lake": folder})
        _copy(spec.lake_url, folder)
        try:
            ingested = ingest(copy, now=now)
            reached = (*reached[:-1], replace(reached[-1], rows=ingested.read))
            knowledge = read_as_of(copy, as_of=now)
            panel = panels.build(knowledge, copy)
            ingested = replace(ingested, findings=(*ingested.findings, *_of_legacy(copy, panel)))
        except NoUsableData as error:
            return Trial(spec, reached, ingested, fault=_why_not(ingested) or str(error))
        found = finding_examples.collect(panel, ingested.batch, spec, Lake(folder))
        seen = Past(knowledge, panel, copy) if past else None
    told = tuple(caveats.stale_feed(panel, spec, now))
    return Trial(spec, reached, ingested, profile(panel), found, _too_old(panel, spec, now), seen, told)


def _too_old(panel: Panel, spec: Spec, now: datetime) -> str | None:
    """Why the night would refuse a history of this age, None where it would not."""
    try:
        caveats.refuse_stale(panel, spec, now)
    except StaleHistory as error:
        return str(error)
    return None


def _of_legacy(spec: Spec, panel: Panel) -> list[Finding]:
    """What is wrong with the other system's forecasts."""
    findings: list[Finding] = []
    external_forecasts.external_forecasts(spec, panel, former_ids(spec), findings)
    return findings


def _why_not(done: IngestResult | None) -> str | None:
    """What became of the readings, where that is why there is nothing to start from."""
    if done is None or done.accepted + done.unchanged:
        return None
    return f"the batch was stopped: {done.stopped}" if done.stopped else "no row was accepted"


def _declared(spec: Spec) -> Iterator[tuple[str, AnySource, tuple[str, ...]]]:
    """Each source with the columns that its rows cannot do without; readings come last."""
    if spec.depots is not None:
        yield "depots.source", spec.depots.source, (spec.depots.columns.depot_id,)
        if spec.depots.aliases is not None:
            yield "depots.aliases.source", spec.depots.aliases.source, ("alias", "depot_id")
    if spec.calendar.events is not None:
        yield "calendar.events.source", spec.calendar.events.source, spec.calendar.events.columns.needed
    if spec.legacy is not None:
        said = spec.legacy.columns
        wanted = (said.depot_id, said.date, said.forecast, said.made_on)
        yield "legacy.source", spec.legacy.source, tuple(name for name in wanted if name)
    columns = spec.demand.columns
    counted = () if spec.demand.aggregate == "count" else (columns.demand,)
    yield "demand.source", spec.demand.source, (columns.depot_id, columns.date, *counted)


def _reach(place: str, source: AnySource, columns: tuple[str, ...], spec: Spec) -> Reached:
    name = sources.name(source)
    try:
        blocks = sources.open_feed(source, spec, columns).blocks
        first = len(next(blocks))
        # the readings are counted when they are ingested, as there may be very many
        rows = None if source is spec.demand.source else first + sum(len(block) for block in blocks)
    except SourceError as error:
        return Reached(place, name, None, str(error))
    return Reached(place, name, rows)


def _copy(lake_url: str, folder: str) -> None:
    """The tables that ingesting needs, copied file by file where the lake is a folder, else read and written."""
    if "://" in lake_url:
        for table in TRIED:
            Lake(folder).append(table, Lake(lake_url).read(table))
        return
    for table in TRIED:
        there, here = Path(lake_url) / table, Path(folder) / table
        if not there.is_dir():
            continue
        try:  # the log first: what a night may add meanwhile is then not in it, and does not count
            shutil.copytree(there / _LOG, here / _LOG)
            shutil.copytree(there, here, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_LOG))
        except OSError as error:
            why = f"{str(error)[:200]}; wanted a lake that can be read"
            raise LakeError(f"lake table '{table}' at {lake_url} cannot be copied: {why}") from error
