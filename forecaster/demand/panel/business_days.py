"""Check declared days of business against the counts: find depots with counts before they opened or
after they closed.

A depot with counts is at work, whatever is declared. So a declared day that most of the newest
counts contradict is ignored, and a finding reports it; a declared day that only some counts
contradict is followed, and also reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from forecaster.config import Spec, data_rules
from forecaster.core.arrays import Bools, Days, Floats
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import Sentence, counted, joined, sentence
from forecaster.core.panel import Panel

RECENT = 14  # last days of the history; if most of their counts contradict a declared day, it is ignored
# minimum number of them that are declared out of business: counts on a day or two after the last
# one are usual
LEAST = 7
RULE = "out_of_business"
_NAMED = 5  # depots named in a finding
_PLACES = 50


def declared_span(depots: pd.DataFrame, counts: Floats, days: Days) -> pd.DataFrame:
    """Declared columns `opened` and `closed` of the depots in the rows of the counts (depots,
    history), without days that their newest counts contradict; `days` are the history's."""
    table = depots[["opened", "closed"]]
    opened, closed = _dates(table, "opened"), _dates(table, "closed")
    rows = np.flatnonzero((opened > days[-1]) | (closed <= days[-1]))
    if not len(rows):
        return table
    outside = _outside(days[-RECENT:], opened[rows], closed[rows])
    has_count = outside & (counts[rows, -RECENT:] > 0)
    works = np.zeros(len(table), np.bool_)
    works[rows] = (outside.sum(axis=1) >= LEAST) & (2 * has_count.sum(axis=1) > outside.sum(axis=1))
    return table.assign(
        opened=table["opened"].mask(works & (opened > days[-1])),
        closed=table["closed"].mask(works & (closed <= days[-1])),
    )


def out_of_business(knowledge: Knowledge, panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    """Finding about depots with counts before they opened or after they closed; first those that
    are therefore forecast as open, then those with the most days."""
    table = knowledge.depots.set_index("depot_id").reindex(panel.depot_ids)[["opened", "closed"]]
    opened, closed, days = _dates(table, "opened"), _dates(table, "closed"), panel.days[: panel.history]
    rows = np.flatnonzero((opened > days[0]) | (closed <= days[-1]))
    before = (days < opened[rows, None]) & (panel.demand[rows] > 0)
    after = (days >= closed[rows, None]) & (panel.demand[rows] > 0)
    number = np.count_nonzero(before | after, axis=1)
    if not number.any():
        return ()
    span = declared_span(table, panel.demand, days)
    followed = (span.notna() | table.isna()).all(axis=1).to_numpy()[rows]
    order = [place for place in np.lexsort((-number, followed)) if number[place]]
    sentences = [
        _contradiction(
            panel.depot_ids[rows[place]],
            (opened[rows[place]], closed[rows[place]]),
            (before[place], after[place]),
            days,
            is_open=not followed[place],
        )
        for place in order[:_NAMED]
    ]
    if len(order) > _NAMED:
        sentences.append(sentence(N_("and {n} more depots"), n=len(order) - _NAMED))
    last = [str(days[np.flatnonzero(before[place] | after[place])[-1]]) for place in order[:_PLACES]]
    places = tuple((panel.depot_ids[rows[place]], day) for place, day in zip(order, last, strict=False))
    requirement = data_rules.requirement(RULE)
    message = sentence(N_("{detail}; wanted {wanted}"), detail=joined(sentences) or "", wanted=requirement)
    return (Finding(RULE, data_rules.severity(RULE, spec.demand.rules.severity), int(number.sum()), message, places),)


def _contradiction(
    depot: str, span: tuple[Any, Any], counts: tuple[Bools, Bools], days: Days, *, is_open: bool
) -> Sentence:
    """Sentence about counts before the first day of a span and after its end; `is_open` is true if
    the depot is forecast as open for them."""
    parts = [
        sentence(
            template,
            day=day.astype(object),
            days=counted(int(has_count.sum()), "{n} day", "{n} days"),
            last=days[np.flatnonzero(has_count)[-1]].astype(object),
        )
        for template, day, has_count in zip((_BEFORE, _AFTER), span, counts, strict=True)
        if has_count.any()
    ]
    open_ = N_("depot {depot} {when}: forecast as open, because it has counts")
    template = open_ if is_open else N_("depot {depot} {when}")
    return sentence(template, depot=depot, when=joined(parts, N_(", and ")) or "")


_BEFORE = N_("is not in business before {day} but has counts on {days} before, up to {last}")
_AFTER = N_("is out of business from {day} on but has counts on {days} since, up to {last}")


def _outside(days: Days, opened: Days, closed: Days) -> Bools:
    """True where a depot is declared out of business, (depots, days)."""
    result: Bools = (days < opened[:, None]) | (days >= closed[:, None])
    return result


def _dates(table: pd.DataFrame, name: str) -> Days:
    return np.asarray(table[name], "datetime64[D]")
