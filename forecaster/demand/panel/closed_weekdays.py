"""Closed weekdays: the weekdays on which a depot does business, declared or learned from weekdays
without readings.

Learned point in time: a day's closure depends only on the weeks before it, as known to the run
before it, and the first reading on such a day revokes it. All of it is decided here; callers read
`Panel.open`.
"""

from __future__ import annotations

import calendar
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np
from numpy.typing import NDArray

from forecaster.config import WEEKDAYS, Spec, data_rules
from forecaster.core.arrays import Bools, Floats, Ints
from forecaster.core.imputation import cold_start
from forecaster.core.knowledge import Finding
from forecaster.core.language import N_
from forecaster.core.language.sentences import as_sentence, joined, sentence
from forecaster.core.marks import CLOSED_WEEKDAY, Mark
from forecaster.core.panel import Panel
from forecaster.demand.panel.grid import Grid

WEEK = 7
# without a weekday that never occurred: with fewer, a depot lacks the 28 days that end a cold start
NEVER_WEEKS = 6
BEFORE_WEEKS = 8  # without a weekday that occurred before: longer than summer holidays
# share of a depot's other weekdays that must have readings in these weeks: 0.2 ** 6 excludes chance
REGULAR = 0.8
RULE = "closed_weekday"
PLACES = 50  # depots and days named in the finding
MOST_NAMED = 4  # sets of weekdays named in its sentence
_CELLS = 1 << 20  # processed at a time
Habits = Mapping[str, NDArray[np.int64]]
"""By city, (2, days): number of settled depots, and of closed ones among them."""


@dataclass(frozen=True)
class Arrivals:
    """Arrivals of each day, (depots, days): counts (NaN = none), rejected rows, days that the
    source declares open (None: it never does), and rows rejected for a word in place of the count,
    such as closed (None: none)."""

    counts: Floats
    refused: Bools
    declared_open: Bools | None = None
    words: Bools | None = None

    @property
    def readings(self) -> Bools:
        """Mark days with a reading, valid or not; a word is none."""
        refused = self.refused if self.words is None else self.refused & ~self.words
        return ~np.isnan(self.counts) | refused | _proven(self)


def days_off(
    arrivals: Arrivals, cities: NDArray[np.str_], spec: Spec, grid: Grid, habits: Habits | None = None
) -> Bools:
    """Mark days that are closed because of their weekday, (depots, days), judged by the days before
    them.

    `cities` (depots,) are "" if unknown; `habits` are those of the network that these depots belong
    to, by default their own. With `demand.weekdays: all` no day is closed; a list states the open
    days. A day with orders, or that the source declares open, is never closed.
    """
    declared = spec.demand.weekdays
    if declared == "all":
        return np.zeros(grid.shape, np.bool_)
    is_proven = _proven(arrivals)
    if declared != "learn":
        is_open = np.array([name in declared for name in WEEKDAYS])
        declared_off: Bools = ~is_proven & ~is_open[(grid.numbers + 3) % WEEK]
        return declared_off
    has_reading = arrivals.readings
    closed, settled, newcomer = _learnt(has_reading[:, : grid.history])
    if habits is not None or closed.any():
        habits = city_habits(closed, settled, cities) if habits is None else habits
        closed |= newcomer & _habit_of_peers(habits, cities)
    return _week_later(closed, grid) & ~has_reading


def habits_of(arrivals: Arrivals, cities: NDArray[np.str_], spec: Spec, grid: Grid) -> Habits:
    """Weekday habits of these depots, for others; empty if weekdays are not learned."""
    if spec.demand.weekdays != "learn":
        return {}
    has_reading = arrivals.readings
    closed, settled, _ = _learnt(has_reading[:, : grid.history])
    return city_habits(closed, settled, cities)


def city_habits(closed: Bools, settled: Bools, cities: NDArray[np.str_]) -> Habits:
    """Number of settled depots of each city on each day, and of the closed ones among them."""
    return {
        str(name): np.stack(
            [np.count_nonzero(cells[cities == name], axis=0).astype(np.int64) for cells in (settled, settled & closed)]
        )
        for name in np.unique(cities)
    }


def _proven(arrivals: Arrivals) -> Bools:
    """Mark days on which a depot was certainly open."""
    return arrivals.counts > 0 if arrivals.declared_open is None else (arrivals.counts > 0) | arrivals.declared_open


def marks(is_off: Bools, spec: Spec, grid: Grid) -> list[tuple[Mark, Ints]]:
    """Marks for each day off, from a week before the days ahead on, and the depots concerned."""
    day_marks = []
    for column in range(max(grid.history - WEEK, 0), len(grid.days)):
        rows = np.flatnonzero(is_off[:, column]).astype(np.int32)
        if len(rows):
            day: date = grid.days[column].astype(object)
            learnt = (
                f"taken as closed, because no {day:%A} has readings" if spec.demand.weekdays == "learn" else "closed"
            )
            day_marks.append((Mark(day, CLOSED_WEEKDAY, f"{day:%A}: {learnt}"), rows))
    return day_marks


def never_on_weekdays(panel: Panel, spec: Spec) -> tuple[Finding, ...]:
    """Finding about weekdays learned to be closed on the panel's last seven days."""
    if spec.demand.weekdays != "learn":
        return ()
    weekdays: dict[int, list[int]] = {}
    first: dict[int, date] = {}
    for mark, audience in sorted(panel.marks.entries, key=lambda entry: entry[0].date):
        if mark.kind == CLOSED_WEEKDAY and np.datetime64(mark.date, "D") >= panel.days[-WEEK]:
            for row in panel.marks.audiences[audience].tolist():
                weekdays.setdefault(row, []).append(mark.date.weekday())
                first.setdefault(row, mark.date)
    if not weekdays:
        return ()
    rows = sorted(weekdays)
    message = _message([tuple(sorted(days)) for days in weekdays.values()], panel.depot_ids[rows[0]])
    severity = data_rules.severity(RULE, spec.demand.rules.severity)
    places = tuple((panel.depot_ids[row], first[row].isoformat()) for row in rows[:PLACES])
    return (Finding(RULE, severity, len(rows), message, places),)


def _message(habits: Sequence[tuple[int, ...]], first: str) -> str:
    """Sentence about weekdays that depots never have; `first` is the first depot."""
    groups = Counter(habits).most_common()
    one_habit = len(groups) == 1
    which = _list_weekdays(groups[0][0]) if one_habit else sentence(N_("some weekday"))
    habit_counts = [
        sentence(N_("{days} {n}"), days=_list_weekdays(days), n=number) for days, number in groups[:MOST_NAMED]
    ]
    if more := sum(number for _, number in groups[MOST_NAMED:]):
        habit_counts.append(sentence(N_("other days {n}"), n=more))
    first_depot = sentence(N_("first {message}"), message=first)
    examples = first_depot if one_habit else joined([joined(habit_counts, ", ") or "", first_depot])
    singular = N_("1 depot never counts on {days}: taken as closed; demand.weekdays overrides this ({examples})")
    plural = N_("{n} depots never count on {days}: taken as closed; demand.weekdays overrides this ({examples})")
    return sentence(singular if len(habits) == 1 else plural, n=len(habits), days=which, examples=examples or "")


def _list_weekdays(days: tuple[int, ...]) -> str:
    """ "a Saturday or Sunday"."""
    names = [as_sentence(calendar.day_name[day]) for day in days]
    if len(names) == 1:
        return sentence(N_("a {day}"), day=names[0])
    return sentence(N_("a {days} or {day}"), days=joined(names[:-1], ", ") or "", day=names[-1])


def _learnt(has_reading: Bools) -> tuple[Bools, Bools, Bools]:
    """State known at the end of each day, (depots, history), as in `_learn`."""
    closed, settled, newcomer = (np.zeros(has_reading.shape, np.bool_) for _ in range(3))
    days = np.arange(has_reading.shape[1])
    step = max(_CELLS // max(len(days), 1), 1)
    for start in range(0, len(has_reading), step):
        part = has_reading[start : start + step]
        has_weekday = _within(part, np.arange(NEVER_WEEKS) * WEEK)
        since = days - part.argmax(axis=1)[:, None]  # the first reading
        settled[start : start + step] = since >= NEVER_WEEKS * WEEK
        # Only few depots need a closer look: those that lack a weekday for weeks, and those without
        # any reading.
        rows = np.flatnonzero((~has_weekday & (since > 0)).any(axis=1) | ~part.any(axis=1))
        if len(rows):
            places = rows + start
            closed[places], settled[places], newcomer[places] = _learn(part[rows], has_weekday[rows])
    return closed, settled, newcomer


def _learn(has_reading: Bools, has_weekday: Bools) -> tuple[Bools, Bools, Bools]:
    """State known at the end of each day, (depots, days): the day's weekday is closed; others may
    follow this depot; this depot follows others, because it has not had such a weekday yet and is
    too new."""
    heard = _within(has_reading, np.arange(WEEK))  # weeks of silence are no evidence
    known_days = np.cumsum(has_reading, axis=1, dtype=np.int32)
    days = NEVER_WEEKS * WEEK
    recent_days = known_days.copy()
    recent_days[:, days:] -= known_days[:, :-days]
    usual_days = np.zeros(has_reading.shape, np.int32)
    for lag in range(WEEK):
        usual_days[:, lag:] += has_weekday[:, : max(has_weekday.shape[1] - lag, 0)]
    usual_days *= NEVER_WEEKS
    is_regular = (recent_days > 0) & (recent_days >= REGULAR * usual_days) & (known_days >= cold_start.MIN_HISTORY)
    closed, settled, newcomer = (np.zeros(has_reading.shape, np.bool_) for _ in range(3))
    for weekday in range(min(WEEK, has_reading.shape[1])):
        days_of = np.s_[:, weekday::WEEK]
        weekday_readings = has_reading[days_of]
        place = np.arange(1, weekday_readings.shape[1] + 1, dtype=np.int32)
        weeks = np.cumsum(heard[days_of], axis=1, dtype=np.int32)
        last_week, last = (np.maximum.accumulate(np.where(weekday_readings, x, 0), axis=1) for x in (weeks, place))
        enough = weeks - last_week >= np.where(last > 0, BEFORE_WEEKS, NEVER_WEEKS)
        learnt = np.maximum.accumulate(np.where(enough & is_regular[days_of], place, 0), axis=1)
        # until such a day occurs, whatever happens on the depot's other days
        closed[days_of] = learnt > last
        is_new = (weeks < NEVER_WEEKS) | (known_days[days_of] < cold_start.MIN_HISTORY)
        settled[days_of], newcomer[days_of] = ~is_new & (recent_days[days_of] > 0), is_new & (last == 0)
    return closed, settled, newcomer


def _habit_of_peers(habits: Habits, cities: NDArray[np.str_]) -> Bools:
    """Mark days on which all settled depots of a depot's city are closed; in a city with too few,
    all of the fleet."""
    all_peers, all_shut = sum(habits.values(), np.zeros(2, np.int64)[:, None])
    in_fleet = (all_peers > 0) & (all_shut == all_peers)
    names, city = np.unique(cities, return_inverse=True)
    peers, shut = np.stack([habits[str(name)] for name in names], axis=1)
    enough = (peers >= cold_start.CITY) & (names != "")[:, None]
    habit: Bools = np.where(enough, shut == peers, in_fleet)[city]
    return habit


def _week_later(closed: Bools, grid: Grid) -> Bools:
    """For each day, the state of its weekday a week before; for later days ahead, the state on its
    last past day."""
    result = np.zeros(grid.shape, np.bool_)
    for weekday in range(min(WEEK, grid.shape[1])):
        days_of = result[:, weekday::WEEK]
        past_states = closed[:, weekday::WEEK]
        days_ahead = days_of.shape[1] - past_states.shape[1]
        days_of[:, 1 : past_states.shape[1]] = past_states[:, :-1]
        if days_ahead and past_states.shape[1]:
            days_of[:, past_states.shape[1] :] = past_states[:, -1:]
    return result


def _within(cells: Bools, lags: NDArray[np.int64]) -> Bools:
    """Mark days with a marked day at any of these lags."""
    result = cells.copy()
    for lag in lags[lags > 0]:
        result[:, lag:] |= cells[:, :-lag]
    return result
