"""Dry run of the ingestion: test a pipeline file against its sources and the data contract without
changing anything.

The readings are ingested into a temporary copy of the lake.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from forecaster.check.profile import Profile, profile
from forecaster.config import AnySource, Spec
from forecaster.core import timezones
from forecaster.core.knowledge import Finding
from forecaster.core.language.near_words import did_you_mean, nearest_word
from forecaster.core.panel import Panel
from forecaster.demand import doubts, sources, worked_hours
from forecaster.demand.arrangement import refuse_unknown_covariates, source_columns
from forecaster.demand.history import lake_owner, report_errors
from forecaster.demand.history.past_panels import Past
from forecaster.demand.history.point_in_time import former_ids, read_as_of
from forecaster.demand.ingest import IngestResult, ingest
from forecaster.demand.panel import build as panels
from forecaster.demand.panel import subdivision_days
from forecaster.demand.panel.panel_findings import panel_findings
from forecaster.demand.validation import external_forecasts
from forecaster.errors import LakeError, NoUsableData, SourceError, StaleHistory
from forecaster.lake import TABLES, Lake
from forecaster.plugins import plugin
from forecaster.publishing import caveats
from forecaster.reports import finding_examples
from forecaster.reports.finding_examples import Evidence

COPIED_TABLES = tuple(
    name for name in TABLES if name not in ("forecasts", "scores", "canary_forecasts")
)  # tables that ingestion reads and appends to
_LOG = "_delta_log"


@dataclass(frozen=True)
class SourceCheck:
    """Check of a declared source: its number of rows, or its fault. Rows are None if not counted."""

    place: str  # key in the pipeline file that declares it
    name: str
    rows: int | None
    fault: str | None = None


@dataclass(frozen=True)
class DryRun:
    """Result of a dry run; `fault` is the reason why no forecast can start from it."""

    spec: Spec
    sources: tuple[SourceCheck, ...]
    ingested: IngestResult | None = None
    profile: Profile | None = None
    evidence: Evidence | None = None
    fault: str | None = None
    panel_at: Past | None = None  # panel at earlier cutoffs, if requested
    caveats: tuple[str, ...] = ()  # caveats of a forecast that starts from it
    contradictions: tuple[str, ...] = ()  # between the pipeline file and the table

    @property
    def caution(self) -> str | None:
        """Most serious doubt about readings from which a forecast can start; None if there is none."""
        if self.ingested is None or self.profile is None:
            return None
        if doubt := doubts.rows_lost(self.ingested) or next(iter(self.contradictions), None):
            return doubt
        if doubt := doubts.heaviest_finding(self.ingested):
            return doubt
        silent = self.profile.silent
        return f"{silent:,} of {self.profile.depots:,} depots have no count" if silent else None


def check(spec: Spec, *, now: datetime, as_of: datetime | None = None, past: bool = False) -> DryRun:
    """Dry run: read every source, test the readings against the data contract and build the panel
    as of `as_of`, or of `now`; with `past` also the panels for a backtest.

    Unusable data is not an error but the result's `fault`. Raises SpecError when a source does not
    fit the pipeline file, LakeError when the lake cannot be read.
    """
    lake_owner.refuse_other_fleets(spec)
    source_checks = tuple(_reach(place, source, keys, spec) for place, source, keys in _declared_sources(spec))
    if unreachable := [source for source in source_checks if source.fault]:
        return DryRun(spec, source_checks, fault=f"{len(unreachable)} of {len(source_checks)} sources cannot be read")
    ingested = None
    with tempfile.TemporaryDirectory(prefix="forecaster-check-") as folder, _faults_of(spec.lake_url, folder):
        copy = spec.model_copy(update={"lake": folder})
        _copy(spec.lake_url, folder)
        try:
            ingested = ingest(copy, now=now)
            source_checks = (*source_checks[:-1], replace(source_checks[-1], rows=ingested.read))
            refuse_unknown_covariates(copy)
            knowledge = read_as_of(copy, as_of=as_of or now)
            report_errors.refuse_other_than_numbers(spec, knowledge.demand)
            panel = panels.build(knowledge, copy)
            ingested = replace(
                ingested,
                findings=(*ingested.findings, *panel_findings(knowledge, panel, copy), *_table_findings(copy, panel)),
            )
        except NoUsableData as error:
            return DryRun(spec, source_checks, ingested, fault=_why_not(ingested) or str(error))
        evidence = finding_examples.collect(panel, ingested.batch, spec, Lake(folder))
        panel_at = Past(knowledge, panel, copy) if past else None
    return DryRun(
        spec,
        source_checks,
        ingested,
        profile(panel),
        evidence,
        _stopped(ingested) or _staleness(panel, spec, as_of or now),
        panel_at,
        (
            *(note.text for note in caveats.stale_feed(panel.cutoff, spec, as_of or now)),
            *caveats.archive(panel, spec, as_of or now),
            *caveats.silent_depots(panel, spec),
            *subdivision_days.left_out_holidays(panel, spec),
            *_unknown_cities(panel, spec),
            *filter(None, [timezones.caveat(spec.timezone)]),
        ),
    )


@contextmanager
def _faults_of(lake_url: str, copy: str) -> Iterator[None]:
    """Report errors of the lake's copy as errors of the lake."""
    try:
        yield
    except LakeError as error:
        raise type(error)(str(error).replace(copy, lake_url)) from error


def _stopped(ingested: IngestResult) -> str | None:
    """Reason why the whole batch would be rejected; None if it would not."""
    return f"the batch was stopped: {ingested.stopped}" if ingested.stopped else None


def _staleness(panel: Panel, spec: Spec, now: datetime) -> str | None:
    """Reason why the nightly run would reject a history of this age; None if it would not."""
    try:
        caveats.refuse_stale(panel, spec, now)
    except StaleHistory as error:
        return str(error)
    return None


def _unknown_cities(panel: Panel, spec: Spec) -> Iterator[str]:
    """Caveats about cities of `page.access.cities` without a depot, whose readers see nothing."""
    cities = sorted({*panel.attributes.get("city", ())})
    for reader, visible in spec.page.access.cities.items():
        for name in visible:
            if name not in ("*", *cities):
                hint = did_you_mean(nearest_word(name, cities))
                yield f"page.access.cities: found '{name}' for {reader}, wanted a city of the depots{hint}"


def _table_findings(spec: Spec, panel: Panel) -> list[Finding]:
    """Findings about the other system's forecasts, the table of people, and worked hours."""
    findings: list[Finding] = []
    external_forecasts.external_forecasts(spec, panel, former_ids(spec), findings)
    if spec.staffing is not None and spec.staffing.people_table is not None:
        plugin("people.table").people(spec, panel.depot_ids, former_ids(spec), findings)
    worked_hours.worked_hours(spec, panel.depot_ids, former_ids(spec), findings)
    return findings


def _why_not(ingested: IngestResult | None) -> str | None:
    """Reason why the readings are not usable."""
    if ingested is None or ingested.accepted + ingested.unchanged:
        return None
    return _stopped(ingested) or "no row was accepted"


def _declared_sources(spec: Spec) -> Iterator[tuple[str, AnySource, tuple[str, ...]]]:
    """Each source with its indispensable columns; readings come last."""
    if spec.depots is not None:
        yield "depots.source", spec.depots.source, (spec.depots.columns.depot_id,)
        if spec.depots.aliases is not None:
            yield "depots.aliases.source", spec.depots.aliases.source, ("alias", "depot_id")
    if spec.calendar.events is not None:
        yield "calendar.events.source", spec.calendar.events.source, spec.calendar.events.columns.needed
    if spec.legacy is not None:
        yield "legacy.source", spec.legacy.source, spec.legacy.columns.required
    if spec.staffing is not None and spec.staffing.people_table is not None:
        table = spec.staffing.people_table
        yield "staffing.people_table.source", table.source, table.columns.required
    if spec.staffing is not None and spec.staffing.worked_hours is not None:
        yield (
            "staffing.worked_hours.source",
            spec.staffing.worked_hours.source,
            spec.staffing.worked_hours.columns.required,
        )
    yield "demand.source", spec.demand.source, tuple(source_columns(spec)[0])


def _reach(place: str, source: AnySource, columns: tuple[str, ...], spec: Spec) -> SourceCheck:
    name = sources.name(source)
    try:
        blocks = sources.open_feed(source, spec, columns).blocks
        first = len(next(blocks))
        # the readings are counted during ingestion, as there may be very many
        rows = None if source is spec.demand.source else first + sum(len(block) for block in blocks)
    except SourceError as error:
        return SourceCheck(place, name, None, str(error))
    return SourceCheck(place, name, rows)


def _copy(lake_url: str, folder: str) -> None:
    """Copy the tables needed for ingestion, file by file if the lake is a folder, else by reading
    and writing."""
    if "://" in lake_url:
        for table in COPIED_TABLES:
            Lake(folder).append(table, Lake(lake_url).read(table))
        return
    for table in COPIED_TABLES:
        original, copy = Path(lake_url) / table, Path(folder) / table
        if not original.is_dir():
            continue
        try:  # the log first: rows added by a run meanwhile are then not in it, and do not count
            shutil.copytree(original / _LOG, copy / _LOG)
            shutil.copytree(original, copy, dirs_exist_ok=True, ignore=shutil.ignore_patterns(_LOG))
        except OSError as error:
            why = f"{str(error)[:200]}; wanted a readable lake"
            raise LakeError(f"lake table '{table}' at {lake_url} cannot be copied: {why}") from error
