"""Planning problem of a depot's week: wanted shifts, groups of interchangeable people, and the
graphs of their contracts' rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from types import MappingProxyType
from typing import Any, cast

from forecaster.config import EmploymentContract
from forecaster.ledger.week_plan import ForbiddingRule, Position, Rule
from forecaster.staffing.people import rule_graph
from forecaster.staffing.people.quick_flow import Crowd, Slot
from forecaster.staffing.people.rule_graph import OFF, Arc, RuleGraph, ShiftHours, WorkState
from forecaster.staffing.people.worker import Worker

SATURDAY = 5  # as returned by date.weekday
WITHOUT_RULE: dict[Rule, dict[str, float | None]] = {
    "max_shifts_week": {"max_shifts_week": 7},
    "min_rest_hours": {"min_rest_hours": 0.0},
    "max_days_in_row": {"max_days_in_row": 99},
    "hours_week": {"hours_week": None, "cost_overtime": None},
}


@dataclass(frozen=True)
class WantedShift:
    """A shift of a day and the savings of each of its drivers, the first one first."""

    date: date
    name: str
    start: datetime
    end: datetime
    savings: tuple[float, ...]


@dataclass(frozen=True)
class Spread:
    """Balancing of weekend and late shifts and declined wishes: the cost of one more for each that
    a person had beyond the depot's `average`, and the names of late shifts."""

    weight: float
    late: frozenset[str]
    average: float = 0.0

    def is_unpopular(self, day: date, shift: str) -> bool:
        """Return true for a weekend or late shift."""
        return day.weekday() >= SATURDAY or shift in self.late

    def burden(self, person: Position) -> int:
        """Number of a person's weekend and late shifts and declined wishes in the weeks before."""
        return sum(self.is_unpopular(duty.date, duty.shift) for duty in person.before) + person.declined_wishes

    def cost(self, person: Position) -> float:
        """Cost of one more of these; a wish costs `weight` more."""
        return self.weight * max(self.burden(person) - self.average, 0.0)


@dataclass(frozen=True)
class Staff:
    """People of a depot with a contract: a number of unnamed ones, and others by name."""

    contract: EmploymentContract
    people: int
    persons: tuple[Worker, ...] = ()

    def positions(self, days: Sequence[date]) -> list[Position]:
        """Positions of all people, with their days off in these days and the week after."""
        contract = self.contract.name
        all_days = [*days, *(days[-1] + timedelta(days=step) for step in range(1, 8))]
        by_number = [Position(f"{contract} {number}", contract, ()) for number in range(1, self.people + 1)]
        by_name = [
            Position(
                person.name,
                contract,
                (),
                days_off=tuple(day for day in all_days if person.is_off(day)),
                cannot_work=person.cannot_work,
                is_named=True,
            )
            for person in self.persons
        ]
        return [*by_name, *by_number]


@dataclass(frozen=True)
class Group:
    """People of a contract who may work the same days and shifts."""

    contract: EmploymentContract
    people: tuple[Position, ...]

    @classmethod
    def of(cls, contract: EmploymentContract, people: Iterable[Position], spread: Spread | None = None) -> list[Group]:
        """Groups of a contract's people, ordered by the first person of each."""
        alike: dict[tuple[Any, ...], list[Position]] = {}
        for person in people:
            burden = spread.cost(person) if spread else 0.0
            wishes = person.wishes if spread else ()
            alike.setdefault((person.days_off, person.cannot_work, person.assigned, burden, wishes), []).append(person)
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
class Problem:
    """Planning problem, with days and shifts by index."""

    days: tuple[date, ...]
    shifts: Mapping[Slot, WantedShift]
    savings: Mapping[Slot, tuple[float, ...]]
    hours: tuple[tuple[ShiftHours, ...], ...]
    cost_short: float
    spread: Spread | None = None
    premiums: Mapping[Slot, float] = field(default_factory=dict)  # for another person in a published shift

    @classmethod
    def of(
        cls,
        days: Sequence[date],
        wanted: Iterable[WantedShift],
        cost_short: float,
        assigned: Iterable[tuple[date, str]],
        spread: Spread | None = None,
        premiums: Mapping[tuple[date, str], float] = MappingProxyType({}),
    ) -> Problem:
        """Build the problem with room for each shift of `assigned` set by hand: unwanted ones save
        nothing."""
        by_hand = Counter(assigned)
        places = {day: place for place, day in enumerate(days)}
        by_day: list[list[WantedShift]] = [[] for _ in days]
        for shift in wanted:
            unwanted = by_hand[shift.date, shift.name] - len(shift.savings)
            by_day[places[shift.date]].append(replace(shift, savings=shift.savings + (0.0,) * unwanted))
        shifts = {
            (day, i): shift
            for day, day_shifts in enumerate(by_day)
            for i, shift in enumerate(day_shifts)
            if shift.savings
        }
        hours = tuple(
            tuple(ShiftHours(i, shift.start, shift.end) for i, shift in enumerate(day_shifts) if shift.savings)
            for day_shifts in by_day
        )
        savings = {slot: shift.savings for slot, shift in shifts.items()}
        owed = {slot: premiums.get((shift.date, shift.name), 0.0) for slot, shift in shifts.items()}
        return cls(tuple(days), shifts, savings, hours, cost_short, spread, owed)

    def crowd(self, group: Group) -> Crowd:
        """People of a group, its graph, and the previous plan's path of each person."""
        contract = group.contract
        entering = Counter(rule_graph.state_after(person.before, self.days[0], contract) for person in group.people)
        hours = tuple(
            tuple(shift for shift in day_shifts if group.may_work(day, self.shifts[place, shift.index].name))
            for place, (day, day_shifts) in enumerate(zip(self.days, self.hours, strict=True))
        )
        at_work = frozenset(place for place, day in enumerate(self.days) if group.assigned.get(day))
        graph = rule_graph.build(contract, self.days, hours, frozenset(entering), at_work)
        earlier: Counter[Arc] = Counter()
        for person in group.people if len(graph.entry) == len(entering) else ():
            earlier.update(self._way_before(person, contract, graph))
        overtime = contract.cost_overtime or 0.0
        return Crowd(graph, entering, overtime, earlier, self._burdens(group), self.premiums)

    def _burdens(self, group: Group) -> dict[Slot, float]:
        """Cost beyond money of each weekend or late shift, and of each shift on a day that people
        wish to be free."""
        if self.spread is None or not group.people:
            return {}
        alike, burdens = group.people[0], dict[Slot, float]()
        further = self.spread.cost(alike)
        for slot, shift in self.shifts.items():
            is_declined = shift.date in alike.wishes
            burdens[slot] = further * (self.spread.is_unpopular(shift.date, shift.name) + is_declined)
            burdens[slot] += self.spread.weight * is_declined
        return burdens

    def forbidding_rule(self, person: Position, contract: EmploymentContract) -> ForbiddingRule | None:
        """The rule that forbids a person's shifts set by hand; None if they are allowed."""

        def holds(who: Position, rules: EmploymentContract) -> bool:
            return bool(self.crowd(Group(rules, (who,))).graph.entry)

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
        """Shifts of a person in the previous plan by day, OFF if none; None if there was no plan."""
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
        """Arcs of a person in the previous plan; a free day where the rules no longer allow its
        shift."""
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
