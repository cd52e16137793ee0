"""Plan of a depot's week: who works which shift at least cost, under the rules of the contracts.

The people of a contract are alike but for what they worked before. So the plan is solved for how many do what
(`flow`), and people are then led along: whoever has a shift in the plan before keeps it where the flow allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta

from forecaster.config import EmploymentContract
from forecaster.ledger.week_plan import Duty, Position, Rule, RuleCost, ShiftCover, WeekPlan
from forecaster.staffing.people import flow, rule_graph
from forecaster.staffing.people.quick_flow import Crowd, Slot
from forecaster.staffing.people.rule_graph import OFF, Arc, RuleGraph, ShiftHours, WorkState

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
    """How many people of a depot have a contract."""

    contract: EmploymentContract
    people: int


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

    def plan(self, seconds: float = flow.TIME_LIMIT) -> WeekPlan:
        """The cheapest plan that all rules allow, or after so many seconds a good one; without what rules cost.

        Equal inputs give equal plans. Raises MissingExtra without SciPy.
        """
        people, problem = self._people, self._problem
        crowds = self._crowds(people, problem)
        solution = flow.cheapest(crowds, problem.savings, self.cost_short, seconds)
        positions: list[Position] = []
        for group, crowd, taken in zip(self.staff, crowds, solution.people, strict=True):
            crew = people[group.contract.name]
            ways = _lead(crew, group.contract, crowd, taken, problem)
            positions += (_position(person, way, problem, self.at) for person, way in zip(crew, ways, strict=True))
        planned = Counter((duty.date, duty.shift) for position in positions for duty in position.duties)
        shifts = tuple(_cover(shift, planned[shift.date, shift.name]) for shift in self.wanted)
        overtime = float(sum(count * arc.overtime for taken in solution.people for arc, count in taken.items()))
        return WeekPlan(self.depot_id, tuple(positions), shifts, (), solution.cost, overtime, solution.gap)

    def explain(self, plan: WeekPlan) -> WeekPlan:
        """The plan of this task with what it would cost less without each rule of each contract, and with one person
        more of it."""
        if plan.cost <= CENT:
            return plan
        people, problem = self._people, self._problem
        crowds = self._crowds(people, problem)
        return replace(plan, rules=_rule_costs(problem, self.staff, people, crowds, plan.cost))

    @property
    def _people(self) -> dict[str, list[Position]]:
        return _people(self.staff, self.days[0], self.before)

    @property
    def _problem(self) -> _Problem:
        return _Problem.of(self.days, self.wanted, self.cost_short)

    def _crowds(self, people: Mapping[str, Sequence[Position]], problem: _Problem) -> list[Crowd]:
        return [problem.crowd(group.contract, people[group.contract.name]) for group in self.staff]


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
    """What is to be planned, by the places of days and of shifts in them."""

    days: tuple[date, ...]
    shifts: Mapping[Slot, WantedShift]
    savings: Mapping[Slot, tuple[float, ...]]
    hours: tuple[tuple[ShiftHours, ...], ...]
    cost_short: float

    @classmethod
    def of(cls, days: Sequence[date], wanted: Sequence[WantedShift], cost_short: float) -> _Problem:
        places = {day: place for place, day in enumerate(days)}
        by_day: list[list[WantedShift]] = [[] for _ in days]
        for shift in wanted:
            by_day[places[shift.date]].append(shift)
        shifts = {(day, i): shift for day, there in enumerate(by_day) for i, shift in enumerate(there) if shift.savings}
        hours = tuple(
            tuple(ShiftHours(i, shift.start, shift.end) for i, shift in enumerate(there) if shift.savings)
            for there in by_day
        )
        return cls(tuple(days), shifts, {slot: shift.savings for slot, shift in shifts.items()}, hours, cost_short)

    def crowd(self, contract: EmploymentContract, people: Sequence[Position]) -> Crowd:
        """The people of a contract, its graph, and the way that the plan before led each of them through it."""
        entering = Counter(rule_graph.state_after(person.before, self.days[0], contract) for person in people)
        graph = rule_graph.build(contract, self.days, self.hours, frozenset(entering))
        earlier: Counter[Arc] = Counter()
        for person in people:
            earlier.update(self._way_before(person, contract, graph))
        return Crowd(graph, entering, contract.cost_overtime or 0.0, earlier)

    def usual_shifts(self, person: Position) -> list[int] | None:
        """What the plan before said of a person's days, OFF where nothing; None where there was none."""
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
        """The arcs that a person took in the plan before, on free days where the rules allow its shift no more."""
        usual, node, way = self.usual_shifts(person), graph.entry[self._entry(person, contract)], []
        if usual is None:
            return []
        arcs = {(arc.day, arc.source, arc.shift): arc for arc in graph.arcs}
        for day, shift in enumerate(usual):
            arc = arcs.get((day, node, shift), arcs[day, node, OFF])
            way.append(arc)
            node = arc.target
        return way

    def _entry(self, person: Position, contract: EmploymentContract) -> WorkState:
        return rule_graph.state_after(person.before, self.days[0], contract)


def _people(staff: Sequence[Staff], first: date, before: WeekPlan | None) -> dict[str, list[Position]]:
    """The people of each contract as they stood in the plan before: worked is what was planned up to `first`."""
    positions = {position.name: position for position in before.positions} if before else {}
    people: dict[str, list[Position]] = {}
    for group in staff:
        name = group.contract.name
        people[name] = []
        for number in range(1, group.people + 1):
            earlier = positions.get(f"{name} {number}", Position(f"{name} {number}", name, ()))
            worked = [duty for duty in (*earlier.before, *earlier.duties) if duty.date < first]
            recent = tuple(duty for duty in worked if duty.date >= first - timedelta(days=LOOKBACK_DAYS))
            people[name].append(
                replace(
                    earlier,
                    before=recent,
                    duties=tuple(duty for duty in earlier.duties if duty.date >= first),
                    cancelled=tuple(duty for duty in earlier.cancelled if duty.date >= first),
                )
            )
    return people


def _lead(
    people: Sequence[Position],
    contract: EmploymentContract,
    crowd: Crowd,
    taken: Mapping[Arc, int],
    problem: _Problem,
) -> list[list[int]]:
    """Lead people through the graph as the flow says: the shift of each person (or OFF) on each day."""
    node = [crowd.graph.entry[rule_graph.state_after(person.before, problem.days[0], contract)] for person in people]
    usual = [problem.usual_shifts(person) for person in people]
    left, ways = dict(taken), [list[int]() for _ in people]
    for day in range(len(problem.days)):
        arcs: dict[int, list[Arc]] = {}
        for arc in left:
            if arc.day == day:
                arcs.setdefault(arc.source, []).append(arc)
        waiting = []
        for who, habits in enumerate(usual):
            again = [arc for arc in arcs[node[who]] if habits and arc.shift == habits[day] and left[arc] > 0]
            if again:
                _step(who, again[0], left, node, ways)
            else:
                waiting.append(who)
        for who in waiting:
            free = [arc for arc in arcs[node[who]] if left[arc] > 0]
            _step(who, max(free, key=lambda arc: (arc.shift != OFF, -arc.shift)), left, node, ways)
    return ways


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
    problem: _Problem,
    staff: Sequence[Staff],
    people: Mapping[str, Sequence[Position]],
    crowds: Sequence[Crowd],
    cost: float,
) -> tuple[RuleCost, ...]:
    """What the plan would cost less without each rule of each contract, and with one person more of it."""
    costs: list[RuleCost] = []
    for place, group in enumerate(staff):
        contract, crew = group.contract, people[group.contract.name]
        for rule, freed, crew_then in _without_rules(contract, crew):
            instead = [*crowds[:place], problem.crowd(freed, crew_then), *crowds[place + 1 :]]
            saved = cost - flow.cheapest(instead, problem.savings, problem.cost_short).cost
            if saved > CENT:
                limit = float(group.people if rule == "per_depot" else getattr(contract, rule))
                costs.append(RuleCost(contract.name, rule, limit, saved))
    return tuple(sorted(costs, key=lambda cost: -cost.cost))


def _without_rules(
    contract: EmploymentContract, crew: Sequence[Position]
) -> Iterator[tuple[Rule, EmploymentContract, Sequence[Position]]]:
    """The contract without each of its rules, and with one person more."""
    for rule, freed in WITHOUT_RULE.items():
        if crew and getattr(contract, rule) is not None:
            yield rule, contract.model_copy(update=freed), crew
    yield "per_depot", contract, [*crew, Position(f"{contract.name} {len(crew) + 1}", contract.name, ())]
