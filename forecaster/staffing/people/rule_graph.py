"""A contract's rules as a graph: its paths are exactly the weeks that the rules allow.

Nodes are the state of a person that the rules need on the morning of a day: shifts and hours since
Monday, days in a row, and the end of the rest period. An arc is a shift of the day, or a free day.
People with the same contract differ in where they enter, by what they worked before, so that one
graph serves all of them, and a plan is a flow through it: the number of people on each arc (Côté,
Gendron, Quimper & Rousseau 2011, "Formal languages for integer programming modeling of shift
scheduling problems", Constraints 16). Nodes with the same continuations are merged, as in a minimal
automaton.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import lru_cache

from forecaster.config import EmploymentContract
from forecaster.ledger.week_plan import Duty

OFF = -1  # stands for a shift on the arc of a free day
TOLERANCE = 1e-9  # hours


@dataclass(frozen=True)
class ShiftHours:
    """A shift available on a day; `index` is its position among the day's shifts."""

    index: int
    start: datetime
    end: datetime

    @property
    def hours(self) -> float:
        return (self.end - self.start).total_seconds() / 3600


@dataclass(frozen=True)
class WorkState:
    """A person's state on a morning, as the rules need it."""

    days_in_row: int = 0
    shifts: int = 0  # since Monday
    hours: float = 0.0  # since Monday; counted if the contract has weekly hours
    rests_until: datetime | None = None  # None: no later shift is too early


@dataclass(frozen=True)
class Arc:
    """A choice on a day: from a node of its morning to one of the next, with a shift or OFF;
    overtime in hours."""

    day: int
    source: int
    shift: int
    target: int
    overtime: float


@dataclass(frozen=True)
class RuleGraph:
    """Graph of a contract over the days of a plan; nodes are numbered within each morning."""

    arcs: tuple[Arc, ...]  # by day and source, a free day first
    # earlier work → node of the first morning; a state without an allowed week is omitted
    entry: dict[WorkState, int]
    working: frozenset[int] = frozenset()  # indexes of days on which nobody is free


def state_after(duties: Sequence[Duty], first: date, contract: EmploymentContract) -> WorkState:
    """State on the morning of `first` after these shifts; `duties` are in date order, and complete
    for the rules' lookback."""
    monday = first - timedelta(days=first.weekday())
    before = [duty for duty in duties if duty.date < first]
    this_week = [duty for duty in before if duty.date >= monday]
    days, in_row = {duty.date for duty in before}, 0
    while first - timedelta(days=in_row + 1) in days:
        in_row += 1
    hours = sum(duty.hours for duty in this_week) if contract.hours_week is not None else 0.0
    rests_until = before[-1].end + timedelta(hours=contract.min_rest_hours) if before else None
    return WorkState(in_row, len(this_week), hours, rests_until)


@lru_cache(maxsize=512)  # depots with the same contracts and hours share graphs
def build(
    contract: EmploymentContract,
    days: tuple[date, ...],
    shifts: tuple[tuple[ShiftHours, ...], ...],
    starts: frozenset[WorkState],
    working: frozenset[int] = frozenset(),
) -> RuleGraph:
    """Build the graph over these days, each with its available shifts, for people who enter in
    these states.

    On the days with indexes `working`, everybody works.
    """
    steps: list[dict[WorkState, list[tuple[int, WorkState, float]]]] = []
    morning = {_settled(state, shifts) for state in starts}
    for place, day in enumerate(days):
        later = shifts[place + 1 :]
        steps.append(
            {state: _ways(state, day, shifts[place], later, contract) for state in sorted(morning, key=_order)}
        )
        if place in working:
            steps[-1] = {state: [way for way in ways if way[0] != OFF] for state, ways in steps[-1].items()}
        morning = {target for ways in steps[-1].values() for _, target, _ in ways}
    numbers: dict[WorkState, int] = dict.fromkeys(morning, 0)  # after the last day all states are equal
    arcs: list[Arc] = []
    for place in reversed(range(len(days))):
        kinds, numbers = _alike(steps[place], numbers)
        arcs += (Arc(place, number, *way) for kind, number in kinds.items() for way in kind)
    in_order = sorted(arcs, key=lambda arc: (arc.day, arc.source, arc.shift))
    entry = {state: numbers[settled] for state in starts if (settled := _settled(state, shifts)) in numbers}
    return RuleGraph(tuple(in_order), entry, working)


def _alike(
    ways_of: Mapping[WorkState, Sequence[tuple[int, WorkState, float]]], numbers: Mapping[WorkState, int]
) -> tuple[dict[tuple[tuple[int, int, float], ...], int], dict[WorkState, int]]:
    """Number each distinct set of choices of a day; return the numbers, and that of each state.

    `numbers` are those of the following day; states without a choice are omitted.
    """
    kinds: dict[tuple[tuple[int, int, float], ...], int] = {}
    before = {}
    for state, ways in ways_of.items():
        kind = tuple((shift, numbers[target], overtime) for shift, target, overtime in ways if target in numbers)
        if kind:
            before[state] = kinds.setdefault(kind, len(kinds))
    return kinds, before


def _ways(
    state: WorkState,
    day: date,
    today: Sequence[ShiftHours],
    later: Sequence[Sequence[ShiftHours]],
    contract: EmploymentContract,
) -> list[tuple[int, WorkState, float]]:
    """Choices in a state on a day: the shift, the following state, and the overtime in hours."""
    if day.weekday() == 0:
        state = replace(state, shifts=0, hours=0.0)
    ways = [(OFF, _settled(replace(state, days_in_row=0), later), 0.0)]
    if state.shifts >= contract.max_shifts_week or state.days_in_row >= contract.max_days_in_row:
        return ways
    for shift in today:
        hours, overtime = state.hours, 0.0
        if contract.hours_week is not None:
            overtime = max(hours + shift.hours - contract.hours_week, 0.0) - max(hours - contract.hours_week, 0.0)
            hours += shift.hours
        if (state.rests_until is not None and shift.start < state.rests_until) or (
            overtime > TOLERANCE and contract.cost_overtime is None
        ):
            continue
        rests_until = shift.end + timedelta(hours=contract.min_rest_hours)
        after = WorkState(state.days_in_row + 1, state.shifts + 1, hours, rests_until)
        ways.append((shift.index, _settled(after, later), overtime))
    return ways


def _settled(state: WorkState, later: Sequence[Sequence[ShiftHours]]) -> WorkState:
    """Drop a rest period that ends before every later shift."""
    if state.rests_until is None:
        return state
    is_felt = any(shift.start < state.rests_until for shifts in later for shift in shifts)
    return state if is_felt else replace(state, rests_until=None)


def _order(state: WorkState) -> tuple[int, int, float, str]:
    return (state.days_in_row, state.shifts, state.hours, str(state.rests_until))
