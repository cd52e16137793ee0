"""Changes between sites and ids: an id that begins where another one ends, and an id that returns
as another site."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from forecaster.config import Spec, data_rules
from forecaster.core.arrays import Bools, Doubles, Floats, Ints
from forecaster.core.knowledge import Finding, Knowledge
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, counted, sentence
from forecaster.core.panel import Panel

SUCCESSOR, REUSED = "successor", "reused_id"
WINDOW = 28  # days compared before and after a change
LEAST_BEFORE, LEAST_AFTER = 14, 5  # minimum number of them with counts
SILENT = 7  # minimum days without a count of an id that ended
BETWEEN = 7  # maximum days without a count of either id
ALIKE = 1.25  # maximum ratio between the levels of two ids of the same site
LONG_GAP = 60  # days without a count after which an id may belong to another site
OTHER_LEVEL = 2.0  # minimum ratio between the levels of two sites with the same id
OTHERS = 3  # minimum number of depots that show how much the level of all changed
ABREAST = 1024  # depots processed at a time
MOST = 1000  # maximum number of new ids examined
_PLACES, _NAMED = 50, 5


class SiteChange(NamedTuple):
    """Last day with counts of one site, first day of the next one, and the median count of each."""

    old: int  # position of the depot
    new: int
    last: int  # position of the day
    first: int
    before: float
    after: float


def changed_sites(knowledge: Knowledge, panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    """Findings about ids that begin within days of the end of another one, at its level, and about
    ids that return after a long time at another level.

    A former id of `depots.aliases` is no depot of the panel; an id with a declared last day is not
    examined.
    """
    table = knowledge.depots
    closed = set(table.loc[table["closed"].notna(), "depot_id"]) if "closed" in table else set()
    is_open_question = np.array([depot not in closed for depot in panel.depot_ids], np.bool_)
    return (
        *_finding(SUCCESSOR, successors(panel.demand, is_open_question), panel, spec),
        *_finding(REUSED, reused_ids(panel.demand), panel, spec),
    )


def successors(counts: Floats, may_go_on: Bools) -> list[SiteChange]:
    """Pairs of an id that ended and one that began, closest in level first, each id once.

    `counts` are (depots, days), NaN = unknown; `may_go_on` marks depots whose site may have another
    id.
    """
    first, last = _ends(counts)
    history = counts.shape[1]
    ended = np.flatnonzero(may_go_on & (last >= 0) & (last < history - SILENT))
    begun = np.flatnonzero((first > first.min(initial=history) + LEAST_BEFORE) & (first < history))[:MOST]
    if not (len(ended) and len(begun)):
        return []
    before = np.stack([_around(counts[old], int(last[old]))[0] for old in ended])
    usual = _by_weekday(before)
    candidates: list[tuple[float, SiteChange]] = []
    for new in begun.tolist():
        after = _around(counts[new], int(first[new]) - 1)[1]
        apart = first[new] - last[ended]
        near = np.flatnonzero((apart >= 1) & (apart <= 1 + BETWEEN))
        distances = np.abs(np.log(_ratios(usual[near], after, apart[near])))
        for place in np.flatnonzero(distances <= np.log(ALIKE)).tolist():
            row, old = int(near[place]), int(ended[near[place]])
            change = SiteChange(old, new, int(last[old]), int(first[new]), _median(before[row]), _median(after))
            candidates.append((float(distances[place]), change))
    pairs, in_pairs = list[SiteChange](), set[int]()
    for _, change in sorted(candidates):
        if not in_pairs & {change.old, change.new}:
            pairs.append(change)
            in_pairs |= {change.old, change.new}
    return pairs


def reused_ids(counts: Floats) -> list[SiteChange]:
    """Ids that return at another level after more than LONG_GAP days, not counting a change that
    the other depots share."""
    changes: list[SiteChange] = []
    for start in range(0, len(counts), ABREAST):
        part = counts[start : start + ABREAST]
        days = np.where(part > 0, np.arange(part.shape[1]), -1)
        latest = np.maximum.accumulate(days, axis=1)[:, :-1]
        returns = (days[:, 1:] > latest + LONG_GAP) & (latest >= 0)
        for row, day in np.argwhere(returns):
            depot, first, last = start + int(row), int(day) + 1, int(latest[row, day])
            before, after = _around(counts[depot], last)[0], _around(counts[depot], first - 1)[1]
            if min(np.isfinite(before).sum(), np.isfinite(after).sum()) < LEAST_BEFORE:
                continue
            ratio = _median(after) / _median(before)
            alone = ratio / _change_of_others(counts, depot, last, first)
            if min(max(ratio, 1 / ratio), max(alone, 1 / alone)) >= OTHER_LEVEL:
                changes.append(SiteChange(depot, depot, last, first, _median(before), _median(after)))
    return changes


def _ends(counts: Floats) -> tuple[Ints, Ints]:
    """First and last day with a count of each depot; the number of days, and -1, if there is none."""
    has_count = counts > 0
    any_count, days = has_count.any(axis=1), counts.shape[1]
    first: Ints = np.where(any_count, has_count.argmax(axis=1), days)
    last: Ints = np.where(any_count, days - 1 - has_count[:, ::-1].argmax(axis=1), -1)
    return first, last


def _around(counts: Floats, last: int) -> tuple[Floats, Floats]:
    """Counts of the WINDOW days up to a day, and after it; NaN for missing counts and zeros."""
    padded = np.full(2 * WINDOW, np.nan, np.float32)
    begin, end = max(last + 1 - WINDOW, 0), min(last + 1 + WINDOW, len(counts))
    offset = WINDOW - (last + 1)
    padded[begin + offset : end + offset] = counts[begin:end]
    padded[~(padded > 0)] = np.nan
    return padded[:WINDOW], padded[WINDOW:]


def _by_weekday(before: Floats) -> Doubles:
    """Mean count on each of the seven weekdays before a change, (depots, 7), starting with the
    weekday after it; NaN if unknown, or if few days are known."""
    weeks = before.reshape(len(before), -1, 7)
    week_count = np.isfinite(weeks).sum(axis=1)
    means = np.nansum(weeks, axis=1, dtype=np.float64) / np.where(week_count > 0, week_count, np.nan)
    means[week_count.sum(axis=1) < LEAST_BEFORE] = np.nan
    return means


def _ratios(usual: Doubles, after: Floats, apart: Ints) -> Doubles:
    """Level after a change relative to each depot's level before it, on the same weekdays; NaN if
    few are known."""
    weekdays = (apart[:, None] - 1 + np.arange(WINDOW)) % 7
    expected = np.take_along_axis(usual, weekdays, axis=1)
    both = np.isfinite(expected) & np.isfinite(after)
    totals = [np.where(both, part, 0).sum(axis=1, dtype=np.float64) for part in (after, expected)]
    ratios: Doubles = totals[0] / np.where(both.sum(axis=1) >= LEAST_AFTER, totals[1], np.nan)
    return ratios


def _change_of_others(counts: Floats, depot: int, last: int, first: int) -> float:
    """Median change of all other depots' levels between the same days; 1 if few have counts of
    both."""
    is_other = np.arange(len(counts)) != depot
    levels: list[Doubles] = []
    for days in (slice(max(last + 1 - WINDOW, 0), last + 1), slice(first, first + WINDOW)):
        window = counts[is_other, days]
        day_count = (window > 0).sum(axis=1)
        total = np.where(window > 0, window, 0).sum(axis=1, dtype=np.float64)
        levels.append(np.where(day_count >= LEAST_BEFORE, total / np.maximum(day_count, 1), np.nan))
    ratios = levels[1] / levels[0]
    ratios = ratios[np.isfinite(ratios)]
    return float(np.median(ratios)) if len(ratios) >= OTHERS else 1.0


def _median(counts: Floats) -> float:
    return float(np.nanmedian(counts))


_NEXT_DAY = N_(
    "depot {new} begins on {first}, the day after {old} ends, at its level (about {before} a day, then {after}): is it "
    "the same site? (depots.aliases)"
)
_DAYS_LATER = N_(
    "depot {new} begins on {first}, {days} after {old} ends, at its level (about {before} a day, then {after}): is it "
    "the same site? (depots.aliases)"
)
_BACK = N_(
    "depot {new} comes back on {first}, {days} after its last count, at another level (about {before} a day, then "
    "{after}): is its id used again for another site?"
)


def _finding(rule: str, changes: Sequence[SiteChange], panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    if not changes:
        return ()
    change, days = changes[0], panel.days.astype(object)
    apart = change.first - change.last
    template = _BACK if rule == REUSED else _NEXT_DAY if apart == 1 else _DAYS_LATER
    detail = sentence(
        template,
        new=panel.depot_ids[change.new],
        old=panel.depot_ids[change.old],
        first=days[change.first],
        days=counted(apart, "{n} day", "{n} days"),
        before=amount(change.before, "g"),
        after=amount(change.after, "g"),
    )
    if len(changes) > 1:
        other_ids = ", ".join(_ids(change, panel) for change in changes[1:_NAMED])
        detail = sentence(N_("{message} (also {places})"), message=detail, places=other_ids)
    message = sentence(N_("{detail}; wanted {wanted}"), detail=detail, wanted=data_rules.requirement(rule))
    severity = data_rules.severity(rule, spec.demand.rules.severity)
    places = tuple((panel.depot_ids[change.new], str(panel.days[change.first])) for change in changes[:_PLACES])
    return (Finding(rule, severity, len(changes), message, places),)


def _ids(change: SiteChange, panel: Panel) -> str:
    old, new = panel.depot_ids[change.old], panel.depot_ids[change.new]
    return new if old == new else f"{old} → {new}"
