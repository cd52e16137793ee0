"""Retention policy: remove what is older than declared in the pipeline file; items in use stay.

Called while no other run is at work. Everything removed can be recreated or is no longer read.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from forecaster.config import Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import counted, joined, sentence
from forecaster.core.state_paths import StatePaths
from forecaster.demand.history import lake_owner
from forecaster.lake import TABLES, Lake
from forecaster.ledger import plan_rows
from forecaster.ledger.store import Ledger
from forecaster.plugins import optional
from forecaster.serving import keys
from forecaster.serving.bundle import MANIFEST

LEFTOVER = timedelta(days=1)  # age of files left by a killed writer; a living one renames them within minutes


@dataclass(frozen=True)
class CleanupCounts:
    """Number of removed items by kind, and the number of the lake's files before and after."""

    bundles: int
    checkpoints: int
    caches: int
    leftovers: int
    runs: int
    files: tuple[int, int]
    nameless_plans: int = 0  # plans of the week whose names were removed

    def sentence(self) -> str:
        parts = [
            sentence(
                N_("{bundles} that were never champion"), bundles=counted(self.bundles, "{n} bundle", "{n} bundles")
            ),
            counted(self.checkpoints, "{n} checkpoint", "{n} checkpoints"),
            counted(self.caches, "{n} cached file or trace", "{n} cached files and traces"),
            counted(self.leftovers, "{n} leftover", "{n} leftovers"),
            counted(self.runs, "{n} old run", "{n} old runs"),
        ]
        if self.nameless_plans:
            plans = counted(self.nameless_plans, "{n} old plan", "{n} old plans")
            parts.append(sentence(N_("the names in {plans}"), plans=plans))
        return sentence(
            N_("removed {things}; the lake has {files}, had {before}"),
            things=joined(parts, ", "),
            files=counted(self.files[1], "{n} file", "{n} files"),
            before=self.files[0],
        )


def tidy(spec: Spec, *, now: datetime, keep: str) -> CleanupCounts:
    """Remove what is older than its retention; `keep` is the current run.

    Raises ForeignLake if the lake belongs to another fleet, LakeError or LedgerError if they are
    unreadable, or the ledger is not writable.
    """
    lake_owner.refuse_other_fleets(spec)
    paths, retention = spec.paths, spec.retention
    with Ledger.open(spec.ledger_url) as ledger:
        promotions = ledger.promotions(spec.name)
        reports_in_use = {
            promotion.run_id for promotion in promotions if promotion.bundle_digest == promotions[-1].bundle_digest
        }
        head, canaries = ledger.current(spec.name), optional("canary.ledger")
        with ledger.transaction() as connection:
            trial = canaries.running(connection, spec.name) if canaries else None
            in_use = {record.bundle_digest for record in (*promotions, head, trial) if record}
            old, seal = now - timedelta(days=retention.people), keys.sealing(paths.folder)
            nameless = plan_rows.forget_names(connection, spec.name, old, seal)
        runs = ledger.forget_runs(spec.name, before=now - timedelta(days=retention.runs), keep=keep)
    lake = Lake.of(spec)
    before = lake.files()
    for table in TABLES:
        lake.tidy(table, hours=24 * retention.lake)
    bundles = (path for path in paths.bundles.glob("*") if path.name not in in_use and _is_of(spec, path))
    reports = (path for path in paths.reports.glob("*") if path.name not in reports_in_use)
    caches = [path for folder in (paths.profiles, paths.graphs) for path in folder.glob("*")]
    checkpoints = [*paths.checkpoints.glob("*"), *paths.backtest_checkpoints.glob("*")]
    return CleanupCounts(
        bundles=_remove(bundles, now - timedelta(days=retention.bundles)),
        checkpoints=_remove(checkpoints, now - timedelta(days=retention.checkpoints)),
        caches=_remove(reports, now - timedelta(days=retention.runs))
        + _remove(caches, now - timedelta(days=retention.caches)),
        leftovers=_remove(_leftovers(paths), now - LEFTOVER),
        runs=runs,
        nameless_plans=nameless,
        files=(before, lake.files()),
    )


def sweep(spec: Spec) -> None:
    """Crash recovery: remove half-written files of a killed run; this process must hold its lease."""
    _remove(_leftovers(spec.paths), None)


def _is_of(spec: Spec, bundle: Path) -> bool:
    """Return true if a folder is a complete bundle of this pipeline: others may share the parent
    folder."""
    try:
        return bool(json.loads((bundle / MANIFEST).read_text("utf-8"))["pipeline"] == spec.name)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _leftovers(paths: StatePaths) -> Iterator[Path]:
    for folder in (paths.registry_outbox, paths.bundles, paths.saved_inputs):
        yield from (path for path in folder.glob("*") if _unfinished(path))


def _unfinished(path: Path) -> bool:
    """Return true for names that a writer uses before renaming."""
    return path.name.startswith(".") or path.name.endswith(".new")


def _remove(paths: Iterable[Path], before: datetime | None) -> int:
    """Remove files last changed before an instant, or all; return their number."""
    old = [path for path in paths if before is None or path.lstat().st_mtime < before.timestamp()]
    for path in old:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    return len(old)
