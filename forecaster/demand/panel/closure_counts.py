"""Check announced closures against the counts: find depots with counts while an event closes them."""

from __future__ import annotations

from datetime import date

import numpy as np
import pandas as pd

from forecaster.config import Spec, data_rules
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import counted, joined, sentence
from forecaster.core.panel import Panel
from forecaster.demand.panel.event_scope import event_scope
from forecaster.demand.panel.events import announced_events
from forecaster.demand.panel.grid import Grid
from forecaster.demand.panel.opening_days import CLOSURE

RECENT = 14  # last days of the history
# minimum number of them with counts, which must also be most of the closed ones: leftovers of one
# day contradict nothing
LEAST = 2
RULE = "closure_counts"
_NAMED = 5  # depots named in a finding
_PLACES = 50


def closure_counts(knowledge: Knowledge, panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    """Finding about depots that an event closes on the first day ahead, and that had counts on most
    of the recent days on which it closed them, too. They are forecast as closed."""
    if spec.calendar.events is None or knowledge.events.empty:
        return ()
    first = max(panel.history - RECENT, 0)
    days = panel.days[first : panel.history + 1]
    grid = Grid(pd.Index(panel.depot_ids), days, panel.history - first, np.zeros(0, np.int64))
    scope = event_scope(pd.DataFrame({**panel.attributes, "depot_id": panel.depot_ids}), spec)
    near = knowledge.events[grid.columns(knowledge.events["date"]) >= 0]
    closed = np.zeros(grid.shape, np.bool_)
    announced_events(near, scope, grid).paint(closed, CLOSURE, True)
    has_count = closed[:, :-1] & (panel.demand[:, first:] > 0)
    number = np.count_nonzero(has_count, axis=1)
    contradicts = closed[:, -1] & (number >= LEAST) & (2 * number > np.count_nonzero(closed[:, :-1], axis=1))
    rows = np.flatnonzero(contradicts)
    if not len(rows):
        return ()
    rows = rows[np.argsort(-number[rows], kind="stable")]
    last = [str(grid.days[np.flatnonzero(has_count[row])[-1]]) for row in rows[:_PLACES]]
    template = N_("depot {depot} is closed by an event but has counts on {days} of it, up to {day}")
    names = [
        sentence(
            template,
            depot=panel.depot_ids[row],
            days=counted(int(number[row]), "{n} day", "{n} days"),
            day=date.fromisoformat(day),
        )
        for row, day in zip(rows[:_NAMED], last, strict=False)
    ]
    if len(rows) > _NAMED:
        names.append(sentence(N_("and {n} more depots"), n=len(rows) - _NAMED))
    requirement = data_rules.requirement(RULE)
    message = sentence(
        N_("{depots}: forecast as closed; wanted {wanted}"), depots=joined(names) or "", wanted=requirement
    )
    places = tuple((panel.depot_ids[row], day) for row, day in zip(rows, last, strict=False))
    severity = data_rules.severity(RULE, spec.demand.rules.severity)
    return (Finding(RULE, severity, int(number[rows].sum()), message, places),)
