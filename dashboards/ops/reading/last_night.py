"""Notices about the last run: quarantined data, or a run that published nothing."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from dashboards.ops.formatting import display
from forecaster.core.language import _, ngettext
from forecaster.ledger.records import Head, Run

NIGHTS = 14


@dataclass(frozen=True)
class Notice:
    """Quarantined data of the last run: the rules that stopped its batch, and the number of rows."""

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
    """Return the quarantined data of the last run; None if there is none."""
    findings = run.findings if run else ()
    stopped = tuple(sorted({str(finding["rule"]) for finding in findings if finding["severity"] == "stop"}))
    rows = sum(finding["count"] for finding in findings if finding["severity"] == "quarantine")
    return Notice(stopped, rows) if stopped or rows else None


def fruitless(run: Run | None, head: Head) -> datetime | None:
    """Return the start of the last ended run, if it published nothing and the shown publication is
    older."""
    if run is None or run.outcome not in ("failed", "no_data") or run.started_at < head.published_at:
        return None
    return run.started_at
