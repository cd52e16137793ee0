"""Canary line of the champion and health pages: the new model on trial, its depots, and the result."""

from __future__ import annotations

from dataclasses import dataclass

from dashboards.ops.formatting import display
from dashboards.ops.formatting.retelling import capitalised, told
from dashboards.ops.reading.header import zone_of
from forecaster.core.forecast import CanaryTrial
from forecaster.core.language import N_, _, ngettext
from forecaster.ledger.records import Head

STATES = {
    "running": N_("in progress"),
    "promoted": N_("was promoted"),
    "rolled_back": N_("withdrawn"),
    "stopped": N_("was stopped"),
    "superseded": N_("was overtaken by another model"),
}
NAMED = 12  # depots


@dataclass(frozen=True)
class CanaryLine:
    bundle: str
    state: str
    quality: str  # "good", "fair" or "bad"
    since: str
    depots: str
    days: str
    reason: str


def canary_line(trial: CanaryTrial | None, head: Head | None) -> CanaryLine | None:
    """Return the line of a canary trial; None without one."""
    if trial is None:
        return None
    zone = zone_of(head)
    depots = sorted(trial.cohort)
    more = [_("{n} more", n=display.number(len(depots) - NAMED))] if len(depots) > NAMED else []
    reason = trial.reason or (trial.judged or {}).get("reason") or ""
    return CanaryLine(
        trial.bundle_digest[:12],
        _(STATES[trial.state]),
        {"promoted": "good", "rolled_back": "bad"}.get(trial.state, "fair"),
        display.instant(trial.since, zone),
        display.listed([*depots[:NAMED], *more]) if depots else "–",
        ngettext("{n} day", "{n} days", trial.days, n=display.number(trial.days)),
        capitalised(told(reason)),
    )
