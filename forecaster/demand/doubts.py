"""Doubts about a batch that counts: the sentence behind "usable, but"."""

from __future__ import annotations

from forecaster.demand.ingest import IngestResult

_LOST = 0.05  # of the rows
# rules whose findings put the counts themselves in doubt, the heaviest first
DOUBTFUL = (
    "lost_rows",
    "lost_depot_rows",
    "meter",
    "cadence",
    "unread_sheets",
    "several_rows",
    "repeated_rows",
    "total_row",
    "day_stamps",
    "decimals",
    "other_depots",
    "restated",
    "unreadable",
    "unit_change",
    "cut_day",
)


def of(batch: IngestResult) -> str | None:
    """The heaviest doubt about the counts of a batch; None where there is none."""
    return rows_lost(batch) or heaviest_finding(batch)


def rows_lost(batch: IngestResult) -> str | None:
    """Sentence on the rows in quarantine, where they are many."""
    lost = batch.quarantined / max(batch.read, 1)
    return f"{batch.quarantined:,} of {batch.read:,} rows ({lost:.0%}) do not count" if lost > _LOST else None


def heaviest_finding(batch: IngestResult) -> str | None:
    """The heaviest of the findings that put the counts in doubt, with its rule."""
    findings = [finding for finding in batch.findings if finding.rule in DOUBTFUL]
    worst = min(findings, key=lambda finding: (DOUBTFUL.index(finding.rule), -finding.count), default=None)
    return f"{worst.rule}: {worst.message}" if worst else None
