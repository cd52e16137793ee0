"""Notices about the last night: what it quarantined, and whether it published nothing."""

from __future__ import annotations

from datetime import datetime

from dashboards.ops.formatting import display
from forecaster.ledger.records import Head, Run

NIGHTS = 14


def notice(run: Run | None) -> str | None:
    """One line for the front page when the last night kept something aside."""
    findings = run.findings if run else ()
    stopped = sorted({str(finding["rule"]) for finding in findings if finding["severity"] == "stop"})
    rows = sum(finding["count"] for finding in findings if finding["severity"] == "quarantine")
    if stopped:
        return f"The last night kept its whole batch aside ({', '.join(stopped)}): nothing of it counts."
    return f"The last night kept {display.count(rows, 'row')} aside." if rows else None


def fruitless(run: Run | None, head: Head) -> datetime | None:
    """When the last night that ended began, if it published nothing and what is shown is older."""
    if run is None or run.outcome not in ("failed", "no_data") or run.started_at < head.published_at:
        return None
    return run.started_at
