"""What tonight would do, and what differs from the last published night; nothing is changed and nothing refused.

A plan is written down with the digest of its pipeline file, so that `apply` deploys what was looked at.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from forecaster.check import dry_run as trials
from forecaster.config import Spec
from forecaster.core.metric_names import STAGES
from forecaster.core.panel import Panel
from forecaster.demand.history.past_panels import Past
from forecaster.errors import ForecasterError, LedgerError, SpecError
from forecaster.ledger.store import Head, Ledger, PublishedDepot
from forecaster.operations import due_nights

NAMED = 8  # of depots or days that a line names


@dataclass(frozen=True)
class Before:
    """What the ledger and the state folder say of the last published night; all empty before the first."""

    head: Head | None = None
    depots: tuple[PublishedDepot, ...] = ()
    said: Mapping[str, Any] | None = None  # its pipeline file
    timings: Mapping[str, float] | None = None
    missing: tuple[datetime, ...] = ()


def remember(spec: Spec) -> None:
    """Keep what a pipeline file says, under its digest: a later plan compares with it."""
    here = spec.paths.specs / f"{spec.digest}.json"
    if not here.exists():
        here.parent.mkdir(parents=True, exist_ok=True)
        beside = here.with_suffix(".new")
        beside.write_text(json.dumps(spec.model_dump(mode="json"), indent=1, sort_keys=True), "utf-8")
        beside.rename(here)


def plan(spec: Spec, file: Path, now: datetime) -> Iterator[str]:
    """The plan, line by line. Raises nothing on account of the data: what cannot be read is a line, too."""
    before = _before(spec, now)
    yield f"{spec.name}, as of {now.astimezone(spec.zone):%Y-%m-%d %H:%M} {spec.timezone}"
    yield from _nights(spec, before, now)
    yield from _changes(spec, before)
    yield from _data(spec, before, now)
    yield from _stages(before)
    yield f"`forecaster apply {file}` deploys exactly this"
    spec.paths.plan.parent.mkdir(parents=True, exist_ok=True)
    spec.paths.plan.write_text(json.dumps({"spec_digest": spec.digest, "at": now.isoformat()}), "utf-8")


def planned(spec: Spec, file: Path) -> None:
    """Raise SpecError unless the last plan was of this very pipeline file."""
    try:
        found = json.loads(spec.paths.plan.read_text("utf-8"))["spec_digest"]
    except (OSError, ValueError, KeyError):
        raise SpecError(f"{file}: found no plan; wanted one: `forecaster plan {file}`, then look at it") from None
    if found != spec.digest:
        raise SpecError(
            f"{file}: found digest {spec.digest[:12]}, wanted {found[:12]}, which the last plan was of: the file has "
            f"changed since; `forecaster plan {file}` shows what would now be done"
        )


def differences(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Each key whose value differs, as (path, before, now); None for one that is not there."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from differences(before.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif before != now:
        yield path, before, now


def _before(spec: Spec, now: datetime) -> Before:
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            head = ledger.current(spec.name)
            runs = {run.run_id: run for run in ledger.runs(spec.name, limit=200)}
            timings, missing = ledger.expected_timings(spec.name), tuple(due_nights.missing(spec, ledger, now))
            depots = ledger.depots(head.publication_id) if head else ()
    except LedgerError:
        return Before(missing=(next(due_nights.nights(spec, now)),))
    said = None
    if head is not None and (run := runs.get(head.run_id)):
        with suppress(OSError, ValueError):
            kept = spec.paths.specs / f"{run.spec_digest}.json"
            said = (
                spec.model_dump(mode="json") if run.spec_digest == spec.digest else json.loads(kept.read_text("utf-8"))
            )
    return Before(head, depots, said, timings, missing)


def _nights(spec: Spec, before: Before, now: datetime) -> Iterator[str]:
    following = due_nights.following(spec.schedule.cron, spec.zone, now)
    yield f"next night: {following:%Y-%m-%d %H:%M}, to be out by {spec.schedule.deadline}"
    if before.missing:
        yield f"missing now: {_some(f'{each:%Y-%m-%d}' for each in before.missing)}"
    if before.head is None:
        yield "last published night: none, so everything is new"
    else:
        yield f"last published night: run {before.head.run_id}, tier {before.head.tier}, cutoff {before.head.cutoff}"


def _changes(spec: Spec, before: Before) -> Iterator[str]:
    if before.head is None:
        return
    if before.said is None:
        yield "pipeline file: the last night's was not kept, so changes are not known"
        return
    found = list(differences(before.said, json.loads(json.dumps(spec.model_dump(mode="json")))))
    yield f"pipeline file: {len(found)} keys differ" if found else "pipeline file: unchanged"
    for path, old, new in found:
        yield f"  {path}: {json.dumps(old)} → {json.dumps(new)}"


def _data(spec: Spec, before: Before, now: datetime) -> Iterator[str]:
    try:
        trial = trials.check(spec, now=now, past=True)
    except ForecasterError as error:
        yield f"sources: {error}"
        return
    for reached in trial.reached:
        if reached.fault:
            yield f"sources: {reached.fault}"
    if trial.ingested is not None:
        yield f"readings: {trial.ingested.accepted:,} new, {trial.ingested.quarantined:,} to quarantine"
    if trial.evidence is None:
        yield f"no model can be made tonight: {trial.fault}; the champion or the fallback forecasts"
        return
    panel = trial.evidence.panel
    yield f"training: {_reused(spec, panel, trial.seen)}"
    for sentence in filter(None, (trial.fault, *trial.caveats)):
        yield f"forecast: {sentence}"
    if before.head is not None:
        yield from _compared(panel, before)


def _compared(panel: Panel, before: Before) -> Iterator[str]:
    """Depots and named days that are new or gone since the last published night."""
    shown = {depot.depot_id for depot in before.depots}
    open_ = {name for row, name in enumerate(panel.depot_ids) if panel.open[row, -60:].any()}
    yield from _new_and_gone("depots", open_ - shown, shown - set(panel.depot_ids))
    ahead = {str(day) for day in panel.days[panel.history :]}
    now = {(str(m.date), m.name) for row in range(len(panel.depot_ids)) for m in panel.marks.of(row)}
    then = {(mark.date.isoformat(), mark.name) for depot in before.depots for mark in depot.marks}
    fresh, gone = ({f"{day} {name}" for day, name in days if day in ahead} for days in (now - then, then - now))
    yield from _new_and_gone("calendar", fresh, gone)


def _new_and_gone(what: str, new: set[str], gone: set[str]) -> Iterator[str]:
    if not new and not gone:
        yield f"{what}: unchanged"
    if new:
        yield f"{what}: {len(new)} new: {_some(sorted(new))}"
    if gone:
        yield f"{what}: {len(gone)} gone: {_some(sorted(gone))}"


def _reused(spec: Spec, panel: Panel, seen: Past | None) -> str:
    try:
        from forecaster.training import train

        known = train.remembered(panel, spec, seen)
        return "remembered from an earlier run" if known else "anew, as data or file differ"
    except ModuleNotFoundError as error:
        return f"not on this machine: {error}"


def _stages(before: Before) -> Iterator[str]:
    known = before.timings or {}
    seconds = {stage: known.get(stage, about.seconds) for stage, about in STAGES.items() if stage != "tidy"}
    yield f"expected duration: {sum(seconds.values()):.0f} s ({'as earlier nights' if known else 'a guess'})"
    yield "  " + ", ".join(f"{stage} {each:.0f} s" for stage, each in seconds.items())


def _some(words: Iterable[str]) -> str:
    known = list(words)
    more = f" and {len(known) - NAMED} more" if len(known) > NAMED else ""
    return ", ".join(known[:NAMED]) + more
