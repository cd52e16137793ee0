"""A good plan at once, if there is no time for the cheapest: people choose one after another.

Each person takes the path through the graph of the contract that saves most given the earlier
choices (dynamic programming over the days), and then chooses again given all others, as long as
that saves something. Every such plan obeys the rules; `flow` bounds its distance from the optimum.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from forecaster.staffing.people.rule_graph import OFF, Arc, RuleGraph, WorkState

Slot = tuple[int, int]  # indexes of a day and of a shift in it
Way = tuple[Arc, ...]
ROUNDS = 3  # maximum number of rounds of choices
LEAST_GAIN = 1e-9  # of money


@dataclass(frozen=True)
class Crowd:
    """The people of one contract: where they enter the graph, and how many took each arc in the
    previous plan."""

    graph: RuleGraph
    entering: Mapping[WorkState, int]
    cost_overtime: float
    planned_before: Mapping[Arc, int]
    burdens: Mapping[Slot, float] = field(default_factory=dict)  # cost of a shift beyond money
    premiums: Mapping[Slot, float] = field(default_factory=dict)  # for another person in a published shift

    @cached_property
    def published(self) -> Mapping[Slot, tuple[int, float]]:
        """Slots in which another person has a premium: the number of people in the previous plan,
        and the premium."""
        before = slot_counts(self.planned_before)
        return {slot: (count, owed) for slot, count in before.items() if (owed := self.premiums.get(slot, 0.0)) > 0}

    def spread_cost(self, arc: Arc) -> float:
        """Cost of an arc beyond money: of a weekend or late shift for people who had many, or of a
        declined wish."""
        return self.burdens.get((arc.day, arc.shift), 0.0)


def one_by_one(
    crowds: Sequence[Crowd], savings: Mapping[Slot, Sequence[float]], *, covers: float, stays: float
) -> tuple[dict[Arc, int], ...]:
    """Number of people of each crowd on each arc.

    `savings` has the saving of each driver of a slot, the first one first. Beyond money, a covered
    shift is worth `covers`, and an unchanged one `stays`; in a published shift it also saves the
    premium.
    """
    people = [
        (place, crowd.graph.entry[state])
        for place, crowd in enumerate(crowds)
        for state in Counter(crowd.entering).elements()
    ]
    drivers: Counter[Slot] = Counter()
    flows: list[Counter[Arc]] = [Counter() for _ in crowds]
    ways: list[Way] = [()] * len(people)
    for _ in range(ROUNDS):
        gained = 0.0
        for who, (place, entry) in enumerate(people):
            _count(ways[who], drivers, flows[place], -1)
            worth = _worth(crowds[place], savings, drivers, flows[place], covers, stays)
            before = sum(worth.get(arc, 0.0) for arc in ways[who])
            way, value = _best_way(crowds[place].graph, entry, worth)
            if not ways[who] or value > before + LEAST_GAIN:
                ways[who], gained = way, gained + value - before
            _count(ways[who], drivers, flows[place], 1)
        if gained <= LEAST_GAIN:
            break
    return tuple(map(dict, flows))


def slot_counts(people: Mapping[Arc, int]) -> Counter[Slot]:
    """Number of people in each slot, from the number on each arc."""
    counts: Counter[Slot] = Counter()
    for arc, count in people.items():
        if arc.shift != OFF:
            counts[arc.day, arc.shift] += count
    return counts


def _count(way: Way, drivers: Counter[Slot], arc_counts: Counter[Arc], by: int) -> None:
    for arc in way:
        arc_counts[arc] += by
        if arc.shift != OFF:
            drivers[arc.day, arc.shift] += by


def _worth(
    crowd: Crowd,
    savings: Mapping[Slot, Sequence[float]],
    drivers: Counter[Slot],
    arc_counts: Counter[Arc],
    covers: float,
    stays: float,
) -> dict[Arc, float]:
    """Value of one more person on each arc; arcs on which nobody is wanted are omitted."""
    worth, crowd_drivers = {}, slot_counts(arc_counts) if crowd.published else Counter[Slot]()
    for arc in crowd.graph.arcs:
        stay = stays if arc_counts[arc] < crowd.planned_before.get(arc, 0) else 0.0
        if arc.shift == OFF:
            worth[arc] = stay
            continue
        slot = arc.day, arc.shift
        before, premium = crowd.published.get(slot, (0, 0.0))
        stay += premium if crowd_drivers[slot] < before else 0.0
        values, count = savings.get(slot, ()), drivers[slot]
        is_wanted = count < len(values)
        if is_wanted or arc.day in crowd.graph.working:
            saved = max(values[count], 0.0) + covers if is_wanted else 0.0
            worth[arc] = saved - arc.overtime * crowd.cost_overtime - crowd.spread_cost(arc) + stay
    return worth


def _best_way(graph: RuleGraph, entry: int, worth: Mapping[Arc, float]) -> tuple[Way, float]:
    """Path with the largest worth from the first morning to the last evening; the first of equals."""
    # node of a day → best value from there on, and its first arc
    best: dict[tuple[int, int], tuple[float, Arc]] = {}
    for arc in reversed(graph.arcs):  # in reverse day order, so that successors come first
        if arc in worth:
            following = best.get((arc.day + 1, arc.target))
            value = worth[arc] + (following[0] if following else 0.0)
            incumbent = best.get((arc.day, arc.source))
            if incumbent is None or value >= incumbent[0]:
                best[arc.day, arc.source] = (value, arc)
    way: list[Arc] = []
    node = entry
    for day in range(1 + max((arc.day for arc in graph.arcs), default=-1)):
        way.append(best[day, node][1])
        node = way[-1].target
    return tuple(way), best[0, entry][0] if way else 0.0
