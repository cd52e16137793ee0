"""Plan of a depot's week: assign shifts to people at least cost, under the rules of their
contracts.

People of a contract differ only in what they worked before, in days off, and in shifts that they
cannot work. So the plan is solved for the number of people on each path (`flow`), and people are
then assigned to paths: a person keeps the shift of the previous plan if the flow allows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from functools import cached_property

from forecaster.config import EmploymentContract
from forecaster.ledger.week_plan import (
    DepotShifts,
    DepotWishes,
    Duty,
    ForbiddingRule,
    Position,
    Rule,
    RuleCost,
    ShiftCover,
    WeekPlan,
)
from forecaster.staffing.people import flow, rule_graph
from forecaster.staffing.people.quick_flow import Crowd
from forecaster.staffing.people.rule_graph import OFF, Arc
from forecaster.staffing.people.week_problem import WITHOUT_RULE, Group, Problem, Spread, Staff, WantedShift

LOOKBACK_DAYS = 14  # days before the plan that rules may depend on
SPREAD_DAYS = 56  # days before the plan over which weekend and late shifts are balanced
CENT = 0.005  # tolerance for amounts of money


@dataclass(frozen=True)
class WeekTask:
    """Days of a depot to be planned, at an instant; `before` is the previous plan."""

    depot_id: str
    days: tuple[date, ...]
    wanted: tuple[WantedShift, ...]
    staff: tuple[Staff, ...]
    cost_short: float
    at: datetime
    before: WeekPlan | None = None
    assigned: DepotShifts = field(default_factory=dict)
    wishes: DepotWishes = field(default_factory=dict)
    spread: Spread | None = None  # None: weekend and late shifts are not balanced, and wishes are ignored
    # premiums for another person in a published shift, by day and shift
    premiums: Mapping[tuple[date, str], float] = field(default_factory=dict)

    def plan(self, seconds: float = flow.TIME_LIMIT) -> WeekPlan:
        """Return the cheapest plan that all rules allow, or a good one after `seconds`; without the
        costs of rules.

        Equal inputs give equal plans.
        """
        groups, problem = self._groups, self._problem
        crowds = [problem.crowd(group) for group in groups]
        solution = flow.cheapest(crowds, problem.savings, self.cost_short, seconds)
        by_name: dict[str, Position] = {}
        for group, crowd, flows in zip(groups, crowds, solution.people, strict=True):
            for person, way in zip(group.people, _lead(group, crowd, flows, problem), strict=True):
                by_name[person.name] = _position(person, way, problem, self.at)
        positions = [
            replace(by_name[person.name], assigned=person.assigned, forbidden_by=forbidden_by)
            for _, person, forbidden_by in self._people
        ]
        planned = Counter((duty.date, duty.shift) for position in positions for duty in position.duties)
        shifts = tuple(_cover(shift, planned[shift.date, shift.name]) for shift in self.wanted)
        overtime = float(sum(count * arc.overtime for flows in solution.people for arc, count in flows.items()))
        late = tuple(sorted(self.spread.late)) if self.spread else None
        return WeekPlan(self.depot_id, tuple(positions), shifts, (), solution.cost, overtime, solution.gap, late)

    def explain(self, plan: WeekPlan) -> WeekPlan:
        """Return the plan with the savings without each rule of each contract, and with one person
        more."""
        if plan.cost <= CENT:
            return plan
        return replace(plan, rules=_rule_costs(self._problem, self.staff, self._groups, plan.cost))

    @property
    def _groups(self) -> list[Group]:
        """Groups of interchangeable people of each contract; shifts set by hand that a rule forbids
        are left out."""
        by_contract: dict[str, list[Position]] = {staff.contract.name: [] for staff in self.staff}
        for contract, person, forbidden_by in self._people:
            by_contract[contract.name].append(replace(person, assigned=()) if forbidden_by else person)
        spread = self._problem.spread
        return [
            group
            for staff in self.staff
            for group in Group.of(staff.contract, by_contract[staff.contract.name], spread)
        ]

    @cached_property
    def _people(self) -> list[tuple[EmploymentContract, Position, ForbiddingRule | None]]:
        """People with their history from the previous plan, whose shifts before the first day count
        as worked, and with the rule that forbids what is set by hand."""
        by_hand = (shift for shifts in self.assigned.values() for shift in shifts)
        problem = Problem.of(self.days, self.wanted, self.cost_short, by_hand)
        return [
            (staff.contract, person, problem.forbidding_rule(person, staff.contract))
            for staff in self.staff
            for person in _as_before(self._positions(staff), self.days[0], self.before, self._lookback)
        ]

    def _positions(self, staff: Staff) -> Iterator[Position]:
        for person in staff.positions(self.days):
            of_days = (shift for shift in self.assigned.get(person.name, ()) if shift[0] in self.days)
            yield replace(person, assigned=tuple(sorted(of_days)), wishes=self.wishes.get(person.name, ()))

    @property
    def _lookback(self) -> int:
        return SPREAD_DAYS if self.spread else LOOKBACK_DAYS

    @cached_property
    def _problem(self) -> Problem:
        spread = self.spread
        if spread and self._people:
            burdens = [spread.burden(person) for _, person, _ in self._people]
            spread = replace(spread, average=sum(burdens) / len(burdens))
        by_hand = (shift for _, who, forbidden_by in self._people if not forbidden_by for shift in who.assigned)
        return Problem.of(self.days, self.wanted, self.cost_short, by_hand, spread, self.premiums)


def _as_before(people: Iterable[Position], first: date, before: WeekPlan | None, lookback: int) -> Iterator[Position]:
    """Yield people with their shifts from the previous plan; those before `first` count as worked."""
    positions = {position.name: position for position in before.positions} if before else {}
    for person in people:
        earlier = positions.get(person.name, person)
        past_duties = [duty for duty in (*earlier.before, *earlier.duties) if duty.date < first]
        yield replace(
            person,
            before=tuple(duty for duty in past_duties if duty.date >= first - timedelta(days=lookback)),
            duties=tuple(duty for duty in earlier.duties if duty.date >= first),
            cancelled=tuple(duty for duty in earlier.cancelled if duty.date >= first),
        )


def _lead(group: Group, crowd: Crowd, flows: Mapping[Arc, int], problem: Problem) -> list[list[int]]:
    """Assign people to the paths of the flow; return the shift of each person (or OFF) on each day."""
    people, contract = group.people, group.contract
    node = [crowd.graph.entry[rule_graph.state_after(person.before, problem.days[0], contract)] for person in people]
    usual = list(map(problem.usual_shifts, people))
    remaining, ways = dict(flows), [list[int]() for _ in people]

    def free(who: int) -> list[Arc]:
        return [arc for arc in arcs[node[who]] if remaining[arc] > 0]

    for day in range(len(problem.days)):
        arcs = _arcs_by_source(remaining, day)
        waiting = []
        for who, habits in enumerate(usual):
            again = next((arc for arc in free(who) if habits and arc.shift == habits[day]), None)
            if again:
                _step(who, again, remaining, node, ways)
            else:
                waiting.append(who)
        for who in waiting:
            _step(who, max(free(who), key=lambda arc: (arc.shift != OFF, -arc.shift)), remaining, node, ways)
    return ways


def _arcs_by_source(arcs: Iterable[Arc], day: int) -> dict[int, list[Arc]]:
    """Arcs of a day by their source node."""
    by_source: dict[int, list[Arc]] = {}
    for arc in arcs:
        if arc.day == day:
            by_source.setdefault(arc.source, []).append(arc)
    return by_source


def _step(who: int, arc: Arc, remaining: dict[Arc, int], node: list[int], ways: list[list[int]]) -> None:
    remaining[arc] -= 1
    node[who] = arc.target
    ways[who].append(arc.shift)


def _position(person: Position, way: Sequence[int], problem: Problem, at: datetime) -> Position:
    """A person's week, with the instant since which each shift is planned."""
    earlier = {duty.date: duty for duty in person.duties}
    duties = []
    for place, shift_index in enumerate(way):
        if shift_index == OFF:
            continue
        shift = problem.shifts[place, shift_index]
        duty = Duty(shift.date, shift.name, shift.start, shift.end, at)
        same = earlier.get(shift.date)
        if same is not None:
            is_same = (same.shift, same.start, same.end) == (duty.shift, duty.start, duty.end)
            duty = same if is_same else replace(duty, lost_hours=max(same.hours - duty.hours, 0.0))
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


def _rule_costs(problem: Problem, staff: Sequence[Staff], groups: Sequence[Group], cost: float) -> tuple[RuleCost, ...]:
    """Savings without each rule of each contract, and with one person more."""
    costs: list[RuleCost] = []
    for contract in (of_contract.contract for of_contract in staff):
        contract_groups = [group for group in groups if group.contract == contract]
        other_crowds = [problem.crowd(group) for group in groups if group.contract != contract]
        for rule, limit, instead in _without_rules(contract, contract_groups, problem.spread):
            crowds = [*other_crowds, *(problem.crowd(group) for group in instead)]
            saved = cost - flow.cheapest(crowds, problem.savings, problem.cost_short).cost
            if saved > CENT:
                costs.append(RuleCost(contract.name, rule, limit, saved))
    if spread := problem.spread:
        crowds = [replace(problem, spread=None).crowd(group) for group in groups]
        saved = cost - flow.cheapest(crowds, problem.savings, problem.cost_short).cost
        if saved > CENT:
            costs.append(RuleCost("", "spread_weight", spread.weight, saved))
    return tuple(sorted(costs, key=lambda cost: -cost.cost))


def _without_rules(
    contract: EmploymentContract, groups: Sequence[Group], spread: Spread | None
) -> Iterator[tuple[Rule, float, Sequence[Group]]]:
    """Groups of a contract without each of its rules, with nobody off, and with one person more."""
    crew = [person for group in groups for person in group.people]
    for rule, freed in WITHOUT_RULE.items():
        if crew and getattr(contract, rule) is not None:
            without = contract.model_copy(update=freed)
            yield rule, float(getattr(contract, rule)), [replace(group, contract=without) for group in groups]
    if days_off := sum(len(person.days_off) for person in crew):
        present = [replace(person, days_off=()) for person in crew]
        yield "days_off", float(days_off), Group.of(contract, present, spread)
    one_more = Group(contract, (Position(f"{contract.name} {len(crew) + 1}", contract.name, ()),))
    yield "per_depot", float(len(crew)), [*groups, one_more]
