"""Notices about the last night: what it quarantined, and whether it published nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboards.ops.formatting import display
from forecaster.core.language import _, ngettext
from forecaster.ledger.records import Head, Run

NIGHTS = 14


@dataclass(frozen=True)
class Notice:
    """Quarantined data of the last night: batches by the rules that stopped them, and rows."""

    stopped: tuple[str, ...]
    rows: int

    @property
    def sentence(self) -> str:
        """One line for the front page."""
        if self.stopped:
            rules = display.listed(self.stopped)
            return _("The last night quarantined its whole batch ({rules}): none of its rows counts.", rules=rules)
        return ngettext(
            "The last night quarantined {n} row.",
            "The last night quarantined {n} rows.",
            self.rows,
            n=display.number(self.rows),
        )


def notice(run: Run | None) -> Notice | None:
    """Quarantined data of the last night; None where there is none."""
    findings = run.findings if run else ()
    stopped = tuple(sorted({str(finding["rule"]) for finding in findings if finding["severity"] == "stop"}))
    rows = sum(finding["count"] for finding in findings if finding["severity"] == "quarantine")
    return Notice(stopped, rows) if stopped or rows else None


def fruitless(run: Run | None, head: Head) -> datetime | None:
    """Start of the last ended night, if it published nothing and the shown publication is older."""
    if run is None or run.outcome not in ("failed", "no_data") or run.started_at < head.published_at:
        return None
    return run.started_at
