"""Changes of crews since the last digest, in sentences; empty if no second digest is needed."""

from __future__ import annotations

from datetime import date

from dashboards.ops.formatting import display
from forecaster.core.language import _
from forecaster.ledger.once.digests import CLOSED, Crews

MOST_NAMED = 12  # depots in a sentence


def crew_changes(before: Crews, now: Crews) -> tuple[str, ...]:
    """Return a sentence for each day in both with a changed crew, or a depot that closed or opened."""
    sentences = []
    for iso in sorted(before.keys() & now.keys()):
        moved = [
            f"{depot_id} {_crew(before[iso][depot_id])} → {_crew(crew)}"
            for depot_id, crew in now[iso].items()
            if depot_id in before[iso] and before[iso][depot_id] != crew
        ]
        if moved:
            hidden = len(moved) - MOST_NAMED
            changes = ", ".join(moved[:MOST_NAMED])
            if hidden > 0:
                changes = _("{names} and {n} more", names=changes, n=display.number(hidden))
            day = display.day(date.fromisoformat(iso))
            sentences.append(_("Drivers changed for {day}: {changes}.", day=day, changes=changes))
    return tuple(sentences)


def _crew(drivers: int | None) -> str:
    return _("closed") if drivers == CLOSED else _("open") if drivers is None else display.number(drivers)
