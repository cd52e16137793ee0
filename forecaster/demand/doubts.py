"""Doubts about an accepted batch: the sentence after "usable, but"."""

from __future__ import annotations

from forecaster.demand.ingest import IngestResult

_LOST = 0.05  # share of the rows
# rules whose findings cast doubt on the counts themselves, most serious first
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
    """Most serious doubt about the counts of a batch; None if there is none."""
    return rows_lost(batch) or heaviest_finding(batch)


def rows_lost(batch: IngestResult) -> str | None:
    """Sentence about the quarantined rows, if they are many."""
    share = batch.quarantined / max(batch.read, 1)
    return f"{batch.quarantined:,} of {batch.read:,} rows ({share:.0%}) do not count" if share > _LOST else None


def heaviest_finding(batch: IngestResult) -> str | None:
    """Most serious finding that casts doubt on the counts, with its rule."""
    findings = [finding for finding in batch.findings if finding.rule in DOUBTFUL]
    worst = min(findings, key=lambda finding: (DOUBTFUL.index(finding.rule), -finding.count), default=None)
    return f"{worst.rule}: {worst.message}" if worst else None
