"""Plan of a depot's week: who works which shift at least cost, under the rules of the contracts.

The people of a contract are alike but for what they worked before, for days off, and for shifts
that they cannot work. So the plan is solved for how many do what (`flow`), and people are then led
along: whoever has a shift in the plan before keeps it where the flow allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, cast

from forecaster.config import EmploymentContract
from forecaster.ledger.week_plan import Duty, ForbiddingRule, Position, Rule, RuleCost, ShiftCover, WeekPlan
from forecaster.staffing.people import flow, rule_graph
from forecaster.staffing.people.quick_flow import Crowd, Slot
from forecaster.staffing.people.rule_graph import OFF, Arc, RuleGraph, ShiftHours, WorkState
from forecaster.staffing.people.worker import Worker

LOOKBACK_DAYS = 14  # days before the plan that rules may ask of
WITHOUT_RULE: dict[Rule, dict[str, float | None]] = {
    "max_shifts_week": {"max_shifts_week": 7},
    "min_rest_hours": {"min_rest_hours": 0.0},
    "max_days_in_row": {"max_days_in_row": 99},
    "hours_week": {"hours_week": None, "cost_overtime": None},
}
CENT = 0.005  # a difference in money that is none


@dataclass(frozen=True)
class WantedShift:
    """A shift of a day and its crew: what each driver of it saves, the first one first."""

    date: date
    name: str
    start: datetime
    end: datetime
    savings: tuple[float, ...]


@dataclass(frozen=True)
class Staff:
    """The people of a depot who have a contract: so many by number, and others by name."""

    contract: EmploymentContract
    people: int
    persons: tuple[Worker, ...] = ()

    def positions(self, days: Sequence[date]) -> list[Position]:
        """A position for each, with what matters of days off in these days and the week after."""
        contract = self.contract.name
        ahead = [*days, *(days[-1] + timedelta(days=step) for step in range(1, 8))]
        by_number = [Position(f"{contract} {number}", contract, ()) for number in range(1, self.people + 1)]
        by_name = [
            Position(
                person.name,
                contract,
                (),
                days_off=tuple(day for day in ahead if person.is_off(day)),
                cannot_work=person.cannot_work,
                is_named=True,
            )
            for person in self.persons
        ]
        return [*by_name, *by_number]


@dataclass(frozen=True)
class _Group:
    """People of a contract who may work on the same days and shifts."""

    contract: EmploymentContract
    people: tuple[Position, ...]

    @classmethod
    def of(cls, contract: EmploymentContract, people: Iterable[Position]) -> list[_Group]:
        """The groups of a contract's people, in the order of the first of each."""
        alike: dict[tuple[Any, ...], list[Position]] = {}
        for person in people:
            alike.setdefault((person.days_off, person.cannot_work, person.assigned), []).append(person)
        return [cls(contract, tuple(group)) for group in alike.values()]

    @property
    def assigned(self) -> dict[date, str]:
        """Shifts set by hand, "" for a free day."""
        return dict(self.people[0].assigned) if self.people else {}

    def may_work(self, day: date, shift: str) -> bool:
        if not self.people:
            return True
        alike = self.people[0]
        return day not in alike.days_off and shift not in alike.cannot_work and self.assigned.get(day, shift) == shift


@dataclass(frozen=True)
class WeekTask:
    """A depot's days that are to be planned, made at an instant; `before` is the plan before it."""

    depot_id: str
    days: tuple[date, ...]
    wanted: tuple[WantedShift, ...]
    staff: tuple[Staff, ...]
    cost_short: float
    at: datetime
    before: WeekPlan | None = None
    # shifts set by hand, by person, "" for a free day
    assigned: Mapping[str, tuple[tuple[date, str], ...]] = field(default_factory=dict)

    def plan(self, seconds: float = flow.TIME_LIMIT) -> WeekPlan:
        """The cheapest plan that all rules allow, or after so many seconds a good one; without what
        rules cost.

        Equal inputs give equal plans.
        """
        groups, problem = self._groups, self._problem
        crowds = [problem.crowd(group) for group in groups]
        solution = flow.cheapest(crowds, problem.savings, self.cost_short, seconds)
        by_name: dict[str, Position] = {}
        for group, crowd, taken in zip(groups, crowds, solution.people, strict=True):
            for person, way in zip(group.people, _lead(group, crowd, taken, problem), strict=True):
                by_name[person.name] = _position(person, way, problem, self.at)
        positions = [
            replace(by_name[person.name], assigned=person.assigned, forbidden_by=forbidden_by)
            for _, person, forbidden_by in self._people
        ]
        planned = Counter((duty.date, duty.shift) for position in positions for duty in position.duties)
        shifts = tuple(_cover(shift, planned[shift.date, shift.name]) for shift in self.wanted)
        overtime = float(sum(count * arc.overtime for taken in solution.people for arc, count in taken.items()))
        return WeekPlan(self.depot_id, tuple(positions), shifts, (), solution.cost, overtime, solution.gap)

    def explain(self, plan: WeekPlan) -> WeekPlan:
        """The plan of this task with what it would cost less without each rule of each contract,
        and with one person more of it."""
        if plan.cost <= CENT:
            return plan
        return replace(plan, rules=_rule_costs(self._problem, self.staff, self._groups, plan.cost))

    @property
    def _groups(self) -> list[_Group]:
        """The people of each contract who are alike; shifts set by hand that a rule forbids are left out."""
        held: dict[str, list[Position]] = {staff.contract.name: [] for staff in self.staff}
        for contract, person, forbidden_by in self._people:
            held[contract.name].append(replace(person, assigned=()) if forbidden_by else person)
        return [group for staff in self.staff for group in _Group.of(staff.contract, held[staff.contract.name])]

    @cached_property
    def _people(self) -> list[tuple[EmploymentContract, Position, ForbiddingRule | None]]:
        """The people as they stood in the plan before: worked is what was planned up to the first
        day; with the rule that forbids what is set by hand."""
        asked = _Problem.of(self, (each for shifts in self.assigned.values() for each in shifts))
        return [
            (staff.contract, person, asked.forbidding_rule(person, staff.contract))
            for staff in self.staff
            for person in _as_before(self._positions(staff), self.days[0], self.before)
        ]

    def _positions(self, staff: Staff) -> Iterator[Position]:
        for person in staff.positions(self.days):
            of_days = (each for each in self.assigned.get(person.name, ()) if each[0] in self.days)
            yield replace(person, assigned=tuple(sorted(of_days)))

    @cached_property
    def _problem(self) -> _Problem:
        return _Problem.of(
            self, (each for _, who, forbidden_by in self._people if not forbidden_by for each in who.assigned)
        )


def plan_week(
    depot_id: str,
    days: Sequence[date],
    wanted: Sequence[WantedShift],
    staff: Sequence[Staff],
    *,
    cost_short: float,
    at: datetime,
    before: WeekPlan | None = None,
    explain: bool = True,
) -> WeekPlan:
    """The plan of a `WeekTask`, with what each rule costs."""
    task = WeekTask(depot_id, tuple(days), tuple(wanted), tuple(staff), cost_short, at, before)
    return task.explain(task.plan()) if explain else task.plan()


@dataclass(frozen=True)
class _Problem:
    """Planning problem, by the places of days and of shifts in them."""

    days: tuple[date, ...]
    shifts: Mapping[Slot, WantedShift]
    savings: Mapping[Slot, tuple[float, ...]]
    hours: tuple[tuple[ShiftHours, ...], ...]
    cost_short: float

    @classmethod
    def of(cls, task: WeekTask, assigned: Iterable[tuple[date, str]]) -> _Problem:
        """The problem of a task with a shift set by hand for each of `assigned`: whoever it does not want saves
        nothing."""
        days, by_hand = task.days, Counter(assigned)
        places = {day: place for place, day in enumerate(days)}
        by_day: list[list[WantedShift]] = [[] for _ in days]
        for shift in task.wanted:
            unwanted = by_hand[shift.date, shift.name] - len(shift.savings)
            by_day[places[shift.date]].append(replace(shift, savings=shift.savings + (0.0,) * unwanted))
        shifts = {(day, i): shift for day, there in enumerate(by_day) for i, shift in enumerate(there) if shift.savings}
        hours = tuple(
            tuple(ShiftHours(i, shift.start, shift.end) for i, shift in enumerate(there) if shift.savings)
            for there in by_day
        )
        savings = {slot: shift.savings for slot, shift in shifts.items()}
        return cls(tuple(days), shifts, savings, hours, task.cost_short)

    def crowd(self, group: _Group) -> Crowd:
        """The people of a group, its graph, and the way that the plan before led each of them
        through it."""
        contract = group.contract
        entering = Counter(rule_graph.state_after(person.before, self.days[0], contract) for person in group.people)
        hours = tuple(
            tuple(shift for shift in there if group.may_work(day, self.shifts[place, shift.index].name))
            for place, (day, there) in enumerate(zip(self.days, self.hours, strict=True))
        )
        at_work = frozenset(place for place, day in enumerate(self.days) if group.assigned.get(day))
        graph = rule_graph.build(contract, self.days, hours, frozenset(entering), at_work)
        earlier: Counter[Arc] = Counter()
        for person in group.people if len(graph.entry) == len(entering) else ():
            earlier.update(self._way_before(person, contract, graph))
        return Crowd(graph, entering, contract.cost_overtime or 0.0, earlier)

    def forbidding_rule(self, person: Position, contract: EmploymentContract) -> ForbiddingRule | None:
        """The rule by which a person cannot work the shifts that are set by hand; None where all hold."""

        def holds(who: Position, rules: EmploymentContract) -> bool:
            return bool(self.crowd(_Group(rules, (who,))).graph.entry)

        if not person.assigned or holds(person, contract):
            return None
        slots = {(shift.date, shift.name) for shift in self.shifts.values()}
        if any(shift and (day, shift) not in slots for day, shift in person.assigned):
            return "closed"
        if holds(replace(person, days_off=()), contract):
            return "days_off"
        if holds(replace(person, cannot_work=()), contract):
            return "cannot_work"
        freed = (rule for rule, limits in WITHOUT_RULE.items() if holds(person, contract.model_copy(update=limits)))
        return cast(ForbiddingRule, next(freed, "rules"))

    def usual_shifts(self, person: Position) -> list[int] | None:
        """Planned shifts of a person's days in the plan before, OFF where nothing; None where there
        was none."""
        if not (person.duties or person.before or person.cancelled):
            return None
        slots = {(shift.date, shift.name): slot for slot, shift in self.shifts.items()}
        usual = [OFF] * len(self.days)
        for duty in person.duties:
            if (duty.date, duty.shift) in slots:
                day, shift = slots[duty.date, duty.shift]
                usual[day] = shift
        return usual

    def _way_before(self, person: Position, contract: EmploymentContract, graph: RuleGraph) -> list[Arc]:
        """The arcs that a person took in the plan before, on free days where the rules allow its
        shift no more."""
        usual, node, way = self.usual_shifts(person), graph.entry[self._entry(person, contract)], []
        if usual is None:
            return []
        arcs = {(arc.day, arc.source, arc.shift): arc for arc in graph.arcs}
        for day, shift in enumerate(usual):
            usual_arc = arcs.get((day, node, shift)) or arcs.get((day, node, OFF))
            arc = usual_arc or next(arc for (on, source, _), arc in arcs.items() if (on, source) == (day, node))
            way.append(arc)
            node = arc.target
        return way

    def _entry(self, person: Position, contract: EmploymentContract) -> WorkState:
        return rule_graph.state_after(person.before, self.days[0], contract)


def _as_before(people: Iterable[Position], first: date, before: WeekPlan | None) -> Iterator[Position]:
    """People with what the plan before said of them; worked is what was planned up to `first`."""
    positions = {position.name: position for position in before.positions} if before else {}
    for person in people:
        earlier = positions.get(person.name, person)
        worked = [duty for duty in (*earlier.before, *earlier.duties) if duty.date < first]
        yield replace(
            person,
            before=tuple(duty for duty in worked if duty.date >= first - timedelta(days=LOOKBACK_DAYS)),
            duties=tuple(duty for duty in earlier.duties if duty.date >= first),
            cancelled=tuple(duty for duty in earlier.cancelled if duty.date >= first),
        )


def _lead(group: _Group, crowd: Crowd, taken: Mapping[Arc, int], problem: _Problem) -> list[list[int]]:
    """Lead people through the graph as the flow says: the shift of each person (or OFF) on each
    day."""
    people, contract = group.people, group.contract
    node = [crowd.graph.entry[rule_graph.state_after(person.before, problem.days[0], contract)] for person in people]
    usual = list(map(problem.usual_shifts, people))
    left, ways = dict(taken), [list[int]() for _ in people]

    def free(who: int) -> list[Arc]:
        return [arc for arc in arcs[node[who]] if left[arc] > 0]

    for day in range(len(problem.days)):
        arcs = _arcs_by_source(left, day)
        waiting = []
        for who, habits in enumerate(usual):
            again = next((arc for arc in free(who) if habits and arc.shift == habits[day]), None)
            if again:
                _step(who, again, left, node, ways)
            else:
                waiting.append(who)
        for who in waiting:
            _step(who, max(free(who), key=lambda arc: (arc.shift != OFF, -arc.shift)), left, node, ways)
    return ways


def _arcs_by_source(arcs: Iterable[Arc], day: int) -> dict[int, list[Arc]]:
    """The arcs of a day by the node that they leave."""
    by_source: dict[int, list[Arc]] = {}
    for arc in arcs:
        if arc.day == day:
            by_source.setdefault(arc.source, []).append(arc)
    return by_source


def _step(who: int, arc: Arc, left: dict[Arc, int], node: list[int], ways: list[list[int]]) -> None:
    left[arc] -= 1
    node[who] = arc.target
    ways[who].append(arc.shift)


def _position(person: Position, way: Sequence[int], problem: _Problem, at: datetime) -> Position:
    """A person's week, with the instants since which each shift is planned so."""
    earlier = {duty.date: duty for duty in person.duties}
    duties = []
    for place, shift_index in enumerate(way):
        if shift_index == OFF:
            continue
        shift = problem.shifts[place, shift_index]
        duty = Duty(shift.date, shift.name, shift.start, shift.end, at)
        same = earlier.get(shift.date)
        if same is not None and replace(same, since=duty.since) == duty:
            duty = same
        duties.append(duty)
    working = {duty.date for duty in duties}
    cancelled = {duty.date: duty for duty in person.cancelled}
    cancelled |= {duty.date: replace(duty, since=at) for duty in person.duties}
    return replace(
        person,
        duties=tuple(duties),
        cancelled=tuple(cancelled[day] for day in sorted(cancelled) if day not in working),
    )


def _cover(shift: WantedShift, planned: int) -> ShiftCover:
    missing = flow.uncovered_cost(shift.savings, planned)
    return ShiftCover(shift.date, shift.name, shift.start, shift.end, len(shift.savings), planned, missing)


def _rule_costs(
    problem: _Problem, staff: Sequence[Staff], groups: Sequence[_Group], cost: float
) -> tuple[RuleCost, ...]:
    """Savings without each rule of each contract, and with one person more of it."""
    costs: list[RuleCost] = []
    for contract in (of_contract.contract for of_contract in staff):
        here = [group for group in groups if group.contract == contract]
        others = [problem.crowd(group) for group in groups if group.contract != contract]
        for rule, limit, instead in _without_rules(contract, here):
            crowds = [*others, *(problem.crowd(group) for group in instead)]
            saved = cost - flow.cheapest(crowds, problem.savings, problem.cost_short).cost
            if saved > CENT:
                costs.append(RuleCost(contract.name, rule, limit, saved))
    return tuple(sorted(costs, key=lambda cost: -cost.cost))


def _without_rules(
    contract: EmploymentContract, groups: Sequence[_Group]
) -> Iterator[tuple[Rule, float, Sequence[_Group]]]:
    """The groups of a contract without each of its rules, with nobody off, and with one person
    more."""
    crew = [person for group in groups for person in group.people]
    for rule, freed in WITHOUT_RULE.items():
        if crew and getattr(contract, rule) is not None:
            without = contract.model_copy(update=freed)
            yield rule, float(getattr(contract, rule)), [replace(group, contract=without) for group in groups]
    if days_off := sum(len(person.days_off) for person in crew):
        present = [replace(person, days_off=()) for person in crew]
        yield "days_off", float(days_off), _Group.of(contract, present)
    one_more = _Group(contract, (Position(f"{contract.name} {len(crew) + 1}", contract.name, ()),))
    yield "per_depot", float(len(crew)), [*groups, one_more]
