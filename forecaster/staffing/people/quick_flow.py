"""A good plan at once, where there is no time for the cheapest: people choose one after the other.

Each takes the way through the graph of the contract that saves most compared with whoever chose before
(dynamic programming over the days), and then each once more compared with all others, as often as that
saves something. Rules hold in every such plan; what it may cost more than the cheapest is for
`flow` to say.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from forecaster.staffing.people.rule_graph import OFF, Arc, RuleGraph, WorkState

Slot = tuple[int, int]  # places of a day and of a shift in it
Way = tuple[Arc, ...]
ROUNDS = 3  # in which everybody chooses again
LEAST_GAIN = 1e-9  # of money


@dataclass(frozen=True)
class Crowd:
    """The people of one contract: where they enter the graph, and how many took each arc in the
    plan before."""

    graph: RuleGraph
    entering: Mapping[WorkState, int]
    cost_overtime: float
    planned_before: Mapping[Arc, int]
    burdens: Mapping[Slot, float] = field(default_factory=dict)  # cost of a shift beyond money
    premiums: Mapping[Slot, float] = field(default_factory=dict)  # of another person in a published shift

    @cached_property
    def published(self) -> Mapping[Slot, tuple[int, float]]:
        """Slots where another person has a premium: how many worked them in the plan before, and the premium."""
        before = slot_counts(self.planned_before)
        return {slot: (count, owed) for slot, count in before.items() if (owed := self.premiums.get(slot, 0.0)) > 0}

    def spread_cost(self, arc: Arc) -> float:
        """Cost of an arc beyond money: of a weekend or late shift for those who had many, or of a wish declined."""
        return self.burdens.get((arc.day, arc.shift), 0.0)


def one_by_one(
    crowds: Sequence[Crowd], savings: Mapping[Slot, Sequence[float]], *, covers: float, stays: float
) -> tuple[dict[Arc, int], ...]:
    """Number of people of each crowd on each arc. `savings` has what each driver of a slot saves,
    the first one first; beyond money a covered shift is worth `covers`, and one that stays as it
    was planned `stays`; in a published shift it saves the premium, too."""
    people = [
        (place, crowd.graph.entry[state])
        for place, crowd in enumerate(crowds)
        for state in Counter(crowd.entering).elements()
    ]
    drivers: Counter[Slot] = Counter()
    taken: list[Counter[Arc]] = [Counter() for _ in crowds]
    ways: list[Way] = [()] * len(people)
    for _ in range(ROUNDS):
        gained = 0.0
        for who, (place, entry) in enumerate(people):
            _count(ways[who], drivers, taken[place], -1)
            worth = _worth(crowds[place], savings, drivers, taken[place], covers, stays)
            before = sum(worth.get(arc, 0.0) for arc in ways[who])
            way, value = _best_way(crowds[place].graph, entry, worth)
            if not ways[who] or value > before + LEAST_GAIN:
                ways[who], gained = way, gained + value - before
            _count(ways[who], drivers, taken[place], 1)
        if gained <= LEAST_GAIN:
            break
    return tuple(map(dict, taken))


def slot_counts(people: Mapping[Arc, int]) -> Counter[Slot]:
    """Number of people at each slot, by how many take each arc."""
    counts: Counter[Slot] = Counter()
    for arc, count in people.items():
        if arc.shift != OFF:
            counts[arc.day, arc.shift] += count
    return counts


def _count(way: Way, drivers: Counter[Slot], taken: Counter[Arc], by: int) -> None:
    for arc in way:
        taken[arc] += by
        if arc.shift != OFF:
            drivers[arc.day, arc.shift] += by


def _worth(
    crowd: Crowd,
    savings: Mapping[Slot, Sequence[float]],
    drivers: Counter[Slot],
    taken: Counter[Arc],
    covers: float,
    stays: float,
) -> dict[Arc, float]:
    """Value of one more person on each arc; arcs on which nobody is wanted are left out."""
    worth, here = {}, slot_counts(taken) if crowd.published else Counter[Slot]()
    for arc in crowd.graph.arcs:
        stay = stays if taken[arc] < crowd.planned_before.get(arc, 0) else 0.0
        if arc.shift == OFF:
            worth[arc] = stay
            continue
        slot = arc.day, arc.shift
        before, premium = crowd.published.get(slot, (0, 0.0))
        stay += premium if here[slot] < before else 0.0
        values, count = savings.get(slot, ()), drivers[slot]
        is_wanted = count < len(values)
        if is_wanted or arc.day in crowd.graph.working:
            saved = max(values[count], 0.0) + covers if is_wanted else 0.0
            worth[arc] = saved - arc.overtime * crowd.cost_overtime - crowd.spread_cost(arc) + stay
    return worth


def _best_way(graph: RuleGraph, entry: int, worth: Mapping[Arc, float]) -> tuple[Way, float]:
    """The way of most worth from the first morning to the last evening, the first of equals."""
    # of a day's node: what follows it at best, and by which arc
    best: dict[tuple[int, int], tuple[float, Arc]] = {}
    for arc in reversed(graph.arcs):  # by day, so that what follows is there first
        if arc in worth:
            following = best.get((arc.day + 1, arc.target))
            value = worth[arc] + (following[0] if following else 0.0)
            here = best.get((arc.day, arc.source))
            if here is None or value >= here[0]:
                best[arc.day, arc.source] = (value, arc)
    way: list[Arc] = []
    node = entry
    for day in range(1 + max((arc.day for arc in graph.arcs), default=-1)):
        way.append(best[day, node][1])
        node = way[-1].target
    return tuple(way), best[0, entry][0] if way else 0.0
