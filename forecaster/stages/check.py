"""Try a pipeline file against its sources; change nothing.

The readings are ingested into a copy of what the lake holds, which is gone afterwards.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime

import numpy as np
from rich.table import Table

from forecaster.demand import panel as panels
from forecaster.demand import sources
from forecaster.errors import NoUsableData, SourceError
from forecaster.lake import Lake
from forecaster.spec import Source, Spec
from forecaster.stages.ingest import Ingested, ingest, know
from forecaster.values import Panel

READ_BY_INGEST = ("demand", "quarantine", "depots", "events")


@dataclass(frozen=True)
class Reached:
    """A declared source: how many rows it gave, or why none."""

    place: str  # where the pipeline file declares it
    path: str
    rows: int | None
    fault: str | None = None


@dataclass(frozen=True)
class Profile:
    """What a night would start from. A depot day is one depot's day up to the cutoff."""

    depots: int
    first: date
    cutoff: date
    days: int
    closed: float  # share of all depot days; not yet, or no longer, in business is closed
    open_days: int  # depot days, open ones
    gaps: int  # open depot days without a count
    zeros: int  # open depot days with a count of 0
    silent: int  # depots without any count
    median: float  # count of an open depot day
    covariates: tuple[str, ...]
    statics: tuple[str, ...]
    targets: tuple[date, date]


@dataclass(frozen=True)
class Trial:
    """What became of the trial; `fault` says why no forecast can start from it."""

    spec: Spec
    reached: tuple[Reached, ...]
    ingested: Ingested | None = None
    profile: Profile | None = None
    fault: str | None = None


def check(spec: Spec, *, now: datetime) -> Trial:
    """Reach every source, try the readings against the contract and build the panel as of `now`.

    Data that cannot be used is no error here but the trial's `fault`. Raises SpecError when a source does not fit the
    pipeline file, LakeError when the lake cannot be read.
    """
    reached = tuple(_reach(place, source, keys, spec) for place, source, keys in _declared(spec))
    if unreached := [source for source in reached if source.fault]:
        return Trial(spec, reached, fault=f"{len(unreached)} of {len(reached)} sources cannot be read")
    ingested = None
    with tempfile.TemporaryDirectory(prefix="forecaster-check-") as folder:
        copy = spec.model_copy(update={"lake": folder})
        for table in READ_BY_INGEST:
            Lake(copy.lake_url).append(table, Lake(spec.lake_url).read(table))
        try:
            ingested = ingest(copy, now=now)
            profile = _profile(panels.build(know(copy, as_of=now), copy))
        except NoUsableData as error:
            nothing = ingested is not None and ingested.accepted + ingested.unchanged == 0
            return Trial(spec, reached, ingested, fault="no row was accepted" if nothing else str(error))
    return Trial(spec, reached, ingested, profile)


def told(trial: Trial, *, tables: bool) -> Iterator[str | Table]:
    """The trial for people, one line or table after another; without `tables` every finding is a plain line."""
    spec, done, profile = trial.spec, trial.ingested, trial.profile
    yield f"pipeline  {spec.name}: the file is valid (digest {spec.digest[:12]})"
    for source in trial.reached:
        rows = "1 row" if source.rows == 1 else f"{source.rows or 0:,} rows"
        yield f"source    {source.place}: {source.fault or f'{source.path}, {rows}'}"
    if done is not None:
        yield (
            f"contract  {done.read:,} rows read = {done.accepted:,} accepted + {done.unchanged:,} unchanged "
            f"+ {done.quarantined:,} quarantined"
        )
        yield from _findings(done, tables=tables)
    if profile is not None:
        yield from _shown(profile)
    yield f"not usable: {trial.fault}" if trial.fault else "usable; nothing was written"


def _declared(spec: Spec) -> Iterator[tuple[str, Source, tuple[str, ...]]]:
    """Each source with the columns that its rows cannot do without."""
    if spec.depots is not None:
        yield "depots.source", spec.depots.source, (spec.depots.columns.depot_id,)
    if spec.calendar.events is not None:
        yield "calendar.events.source", spec.calendar.events.source, ("date", "kind", "name")
    columns = spec.demand.columns
    yield "demand.source", spec.demand.source, (columns.depot_id, columns.date, columns.demand)


def _reach(place: str, source: Source, columns: tuple[str, ...], spec: Spec) -> Reached:
    try:
        return Reached(place, source.path, len(sources.read(source, spec, columns)))
    except SourceError as error:
        return Reached(place, source.path, None, str(error))


def _profile(panel: Panel) -> Profile:
    open_days = panel.open[:, : panel.history]
    counts = panel.demand[open_days]
    known = counts[~np.isnan(counts)]
    targets = panel.target_dates
    return Profile(
        depots=len(panel.depot_ids),
        first=panel.days[0].astype(object),
        cutoff=panel.cutoff,
        days=panel.history,
        closed=float(1 - open_days.mean()),
        open_days=counts.size,
        gaps=counts.size - known.size,
        zeros=int((known == 0).sum()),
        silent=int(np.isnan(panel.demand).all(axis=1).sum()),
        median=float(np.median(known)) if known.size else 0.0,
        covariates=panel.encoding.covariates,
        statics=tuple(panel.encoding.statics),
        targets=(targets[0], targets[-1]),
    )


def _findings(done: Ingested, *, tables: bool) -> Iterator[str | Table]:
    if not tables:
        for finding in done.findings:
            yield f"finding   {finding.rule} ({finding.severity}, {finding.count:,}): {finding.message}"
        return
    if done.findings:
        table = Table("rule", "what happens", "count", "the first of them", title="Findings", title_justify="left")
        table.columns[2].justify = "right"
        for finding in done.findings:
            table.add_row(finding.rule, finding.severity, f"{finding.count:,}", finding.message)
        yield table


def _shown(profile: Profile) -> Iterator[str]:
    silent = f", {profile.silent:,} of them without any count" if profile.silent else ""
    yield f"depots    {profile.depots:,}{silent}; attributes: {', '.join(profile.statics) or 'none'}"
    span = f"{profile.first} to {profile.cutoff}"
    yield f"days      {profile.days:,}, {span}; closed on {profile.closed:.1%} of depot days"
    yield (
        f"counts    median {profile.median:,.0f}; of {profile.open_days:,} open depot days, {profile.gaps:,} have "
        f"no count and {profile.zeros:,} a count of 0"
    )
    yield f"ahead     known covariates: {', '.join(profile.covariates) or 'nothing but the calendar'}"
    yield f"forecast  from cutoff {profile.cutoff}, for {profile.targets[0]} to {profile.targets[1]}"
