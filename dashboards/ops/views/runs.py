"""Run history as JSON: the ledger's record of each of the latest runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from dashboards.ops.formatting.retelling import told, told_objections
from dashboards.ops.views.health import by_severity
from forecaster.ledger.records import Run


@dataclass(frozen=True)
class FindingOut:
    """Finding of a run; `severity` is the consequence: `stop`, `quarantine` or `warn`."""

    rule: str
    severity: str
    count: int
    message: str


@dataclass(frozen=True)
class RunOut:
    """A run. `timings` are seconds by stage, `lake_versions` the Delta version read of each table,
    `measures` its own resource use: compilation, memory, processor, devices."""

    run_id: str
    pipeline: str
    started_at: datetime
    finished_at: datetime | None
    as_of: datetime
    outcome: str
    exit_code: int | None
    tier: str | None
    bundle_digest: str | None
    spec_digest: str
    message: str | None
    findings: list[FindingOut]
    timings: Mapping[str, float]
    lake_versions: Mapping[str, int]
    verdict: Mapping[str, Any] | None
    measures: Mapping[str, Any] | None


@dataclass(frozen=True)
class RunsOut:
    """The latest runs, newest first."""

    runs: list[RunOut]


def runs_out(runs: Sequence[Run]) -> RunsOut:
    """Return every run with its findings, most serious first."""
    return RunsOut([_run(run) for run in runs])


def _run(run: Run) -> RunOut:
    findings = [
        FindingOut(**{name: finding[name] for name in _FINDING} | {"message": told(finding["message"])})
        for finding in by_severity(run.findings)
    ]
    columns = {name: getattr(run, name) for name in RunOut.__dataclass_fields__ if name != "findings"}
    columns |= {"message": told(run.message or "") or None, "verdict": _verdict(run.verdict)}
    return RunOut(**columns, findings=findings)


def _verdict(verdict: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if verdict is None else {**verdict, "objections": told_objections(verdict)}


_FINDING = tuple(FindingOut.__dataclass_fields__)
