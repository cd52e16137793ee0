"""Plan before apply: the actions of the next nightly run, and its diff against the last published
one; nothing is changed.

A plan is saved with the digest of its pipeline file, so that `apply` deploys exactly what was
reviewed.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from forecaster.check import dry_run
from forecaster.config import Spec
from forecaster.core import artifact
from forecaster.core.marks import CLOSED_WEEKDAY, Mark
from forecaster.core.metric_names import STAGES
from forecaster.core.panel import Panel
from forecaster.core.state_paths import StatePaths
from forecaster.demand.history.past_panels import Past
from forecaster.errors import ForecasterError, LakeError, NoLedger, SpecError
from forecaster.lake import NOT_THERE, Lake
from forecaster.ledger.publication import PublishedDepot, PublishedMark
from forecaster.ledger.records import Head
from forecaster.ledger.store import Ledger
from forecaster.operations import due_nights
from forecaster.plugins import plugin
from forecaster.publishing import champion_fit

MOST_NAMES = 8  # maximum number of depots or days named in a line


@dataclass(frozen=True)
class PreviousNight:
    """The last published night, from the ledger and the state folder; all empty before the first."""

    head: Head | None = None
    depots: tuple[PublishedDepot, ...] = ()
    pipeline_file: Mapping[str, Any] | None = None  # as saved by its run
    timings: Mapping[str, float] | None = None
    missing: tuple[datetime, ...] = ()
    champion: tuple[str, ...] = ()  # sentences on its compatibility


def save_spec(spec: Spec) -> None:
    """Save a pipeline file's declarations under its digest (idempotent), for comparison by later
    plans."""
    file = spec.paths.specs / f"{spec.digest}.json"
    if file.exists():
        file.touch()
    else:
        artifact.write(file, json.dumps(spec.model_dump(mode="json"), indent=1, sort_keys=True).encode())


def last_valid_spec(file: Path) -> Spec | None:
    """Pipeline file as saved by the newest run or deployment, in place of an invalid one; None if
    there is none.

    Its state folder and name are searched in the text, which need not be valid YAML.
    """
    text = file.read_text("utf-8", "replace") if file.is_file() else ""
    keys = dict(re.findall(r"^(name|state): *['\"]?([^\s'\"#]+)", text, re.MULTILINE))
    folder = StatePaths(file.resolve().parent / keys.get("state", "var")).specs
    for saved in sorted(folder.glob("*.json"), key=lambda place: place.stat().st_mtime, reverse=True):
        with suppress(OSError, ValueError):
            spec = Spec.model_validate_json(saved.read_text("utf-8"))
            if keys.get("name", spec.name) == spec.name:
                spec._folder = file.resolve().parent
                return spec
    return None


def plan(spec: Spec, file: Path, now: datetime) -> Iterator[str]:
    """Lines of the plan; an unreadable source is a line, too.

    Raises LedgerError and LakeError if these are unreadable, ForecasterError if the plan cannot be
    saved.
    """
    before = _previous_night(spec, now)
    yield f"{spec.name}, as of {now.astimezone(spec.zone):%Y-%m-%d %H:%M} {spec.timezone}"
    yield from _nights(spec, before, now)
    yield from _changes(spec, before)
    yield from (f"champion: {sentence}" for sentence in before.champion)
    yield from _data(spec, before, now)
    yield from _expected_duration(before)
    _save_plan(spec, now)
    yield f"`forecaster apply {file}` deploys exactly this"


def _save_plan(spec: Spec, now: datetime) -> None:
    try:
        spec.paths.plan.parent.mkdir(parents=True, exist_ok=True)
        spec.paths.plan.write_text(json.dumps({"spec_digest": spec.digest, "at": now.isoformat()}), "utf-8")
    except OSError as error:
        raise ForecasterError(
            f"{spec.paths.plan} cannot be written: {error.strerror}; wanted a state folder that can be, as "
            "`forecaster apply` deploys only what the plan there shows"
        ) from error


def require_plan(spec: Spec, file: Path) -> None:
    """Raises SpecError unless the last plan was made from this very pipeline file."""
    try:
        planned_digest = json.loads(spec.paths.plan.read_text("utf-8"))["spec_digest"]
    except (OSError, ValueError, KeyError):
        raise SpecError(f"{file}: found no plan; wanted one: `forecaster plan {file}`, then look at it") from None
    if planned_digest != spec.digest:
        raise SpecError(
            f"{file}: found digest {spec.digest[:12]}, wanted {planned_digest[:12]}, which the last plan was of: the "
            f"file has changed since; `forecaster plan {file}` shows what would now be done"
        )


def differences(before: Any, now: Any, path: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Recursive diff of two nested mappings: keys with different values, as (path, before, now);
    None if absent."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in sorted(before.keys() | now.keys()):
            yield from differences(before.get(key), now.get(key), f"{path}.{key}" if path else key)
    elif before != now:
        yield path, before, now


def _previous_night(spec: Spec, now: datetime) -> PreviousNight:
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            head = ledger.current(spec.name)
            runs = {run.run_id: run for run in ledger.runs(spec.name, limit=200)}
            timings, missing = ledger.expected_timings(spec.name), tuple(due_nights.missed_nights(spec, ledger, now))
            depots = ledger.depots(head.publication_id) if head else ()
            champion = tuple(champion_fit.of_champion(spec, ledger))
    except NoLedger:
        return PreviousNight(missing=(next(due_nights.scheduled_nights(spec, now)),))
    pipeline_file = None
    if head is not None and (run := runs.get(head.run_id)):
        with suppress(OSError, ValueError):
            saved = spec.paths.specs / f"{run.spec_digest}.json"
            pipeline_file = (
                spec.model_dump(mode="json") if run.spec_digest == spec.digest else json.loads(saved.read_text("utf-8"))
            )
    return PreviousNight(head, depots, pipeline_file, timings, missing, champion)


def _nights(spec: Spec, before: PreviousNight, now: datetime) -> Iterator[str]:
    following = due_nights.next_night(spec.schedule.cron, spec.zone, now)
    yield f"next night: {following:%Y-%m-%d %H:%M}, to be out by {spec.schedule.deadline}"
    if before.missing:
        yield f"missing now: {_first_names(f'{night:%Y-%m-%d}' for night in before.missing)}"
    if before.head is None:
        yield "last published night: none, so everything is new"
    else:
        yield f"last published night: run {before.head.run_id}, tier {before.head.tier}, cutoff {before.head.cutoff}"


def _changes(spec: Spec, before: PreviousNight) -> Iterator[str]:
    if before.head is None:
        return
    if before.pipeline_file is None:
        yield "pipeline file: the last night's was not stored, so changes are unknown"
        return
    changes = list(differences(before.pipeline_file, json.loads(json.dumps(spec.model_dump(mode="json")))))
    yield f"pipeline file: {len(changes)} keys differ" if changes else "pipeline file: unchanged"
    for path, old, new in changes:
        yield f"  {path}: {json.dumps(old)} → {json.dumps(new)}"


def _data(spec: Spec, before: PreviousNight, now: datetime) -> Iterator[str]:
    try:
        outcome = dry_run.check(spec, now=now, past=True)
    except LakeError:
        raise
    except ForecasterError as error:
        yield f"sources: {error}"
        return
    for source in outcome.sources:
        if source.fault:
            yield f"sources: {source.fault}"
    if outcome.ingested is not None:
        yield f"readings: {outcome.ingested.accepted:,} new, {outcome.ingested.quarantined:,} to quarantine"
    if outcome.evidence is None:
        yield _without_model(spec, outcome)
        return
    panel = outcome.evidence.panel
    yield f"training: {_training_reuse(spec, panel, outcome.panel_at)}"
    if spec.training.when == "worthwhile":
        yield f"training: {_worthwhile(spec, now)}"
    for sentence in filter(None, (outcome.fault, *outcome.caveats)):
        yield f"forecast: {sentence}"
    if before.head is not None:
        yield from _depots_and_calendar(panel, before)


def _without_model(spec: Spec, outcome: dry_run.DryRun) -> str:
    """Line on a night without a panel: if the lake holds readings, there is a forecast anyway."""
    if outcome.ingested is not None or Lake.of(spec).version("demand") == NOT_THERE:
        return f"nothing can be forecast tonight: {outcome.fault}"
    return f"no model can be made tonight: {outcome.fault}; the champion or the fallback forecasts"


def _depots_and_calendar(panel: Panel, before: PreviousNight) -> Iterator[str]:
    """Depots and named days added or removed since the last published night."""
    published = {depot.depot_id for depot in before.depots}
    open_ = {name for row, name in enumerate(panel.depot_ids) if panel.open[row, -60:].any()}
    yield from _new_and_dropped("depots", open_ - published, published - set(panel.depot_ids))
    target_days = {str(day) for day in panel.days[panel.history :]}
    now = _named_days(map(panel.marks.of, range(len(panel.depot_ids))))
    then = _named_days(depot.marks for depot in before.depots)
    fresh, dropped = (
        {f"{day} {name}" for day, name in days if day in target_days} for days in (now - then, then - now)
    )
    yield from _new_and_dropped("calendar", fresh, dropped)


def _named_days(marks_of_depots: Iterable[Iterable[Mark | PublishedMark]]) -> set[tuple[str, str]]:
    marks = itertools.chain.from_iterable(marks_of_depots)
    return {(mark.date.isoformat(), mark.name) for mark in marks if mark.kind != CLOSED_WEEKDAY}


def _new_and_dropped(topic: str, new: set[str], dropped: set[str]) -> Iterator[str]:
    if not new and not dropped:
        yield f"{topic}: unchanged"
    if new:
        yield f"{topic}: {len(new)} new: {_first_names(sorted(new))}"
    if dropped:
        yield f"{topic}: {len(dropped)} gone: {_first_names(sorted(dropped))}"


def _training_reuse(spec: Spec, panel: Panel, panel_at: Past | None) -> str:
    try:
        from forecaster.training import train

        cached = train.is_cached(panel, spec, panel_at)
        return "remembered from an earlier run" if cached else "again, because data or file differ"
    except ModuleNotFoundError as error:
        return f"not on this machine: {error}"


def _worthwhile(spec: Spec, now: datetime) -> str:
    """Latest date of the next training; whether the next run trains is decided by that run, from
    its data."""
    try:
        with Ledger.open_reader(spec.ledger_url) as ledger:
            latest = plugin("worthwhile").latest(spec, ledger, now)
    except NoLedger:
        latest = None
    if latest is None:
        return "the first one; later ones if worthwhile"
    return f"if worthwhile, at the latest in the night of {latest}"


def _expected_duration(before: PreviousNight) -> Iterator[str]:
    timings = before.timings or {}
    seconds = {stage: timings.get(stage, about.seconds) for stage, about in STAGES.items() if stage != "tidy"}
    yield f"expected duration: {sum(seconds.values()):.0f} s ({'as earlier nights' if timings else 'a guess'})"
    yield "  " + ", ".join(f"{stage} {duration:.0f} s" for stage, duration in seconds.items())


def _first_names(all_names: Iterable[str]) -> str:
    names = list(all_names)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(names[:MOST_NAMES]) + more
