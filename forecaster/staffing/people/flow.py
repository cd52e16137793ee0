"""The cheapest flow of people through the graphs of their contracts: a mixed-integer program,
solved by HiGHS.

The linear relaxation is solved first. Its flows are nearly always integral, and are optimal then;
otherwise it gives a lower bound of the cost. If time runs out without a plan, or with a worse one,
`quick_flow` makes one, and its distance to that bound is reported.

The number of people on each arc is an integer; each driver of a shift saves less than the one
before, so that drivers need no order in the program. A person who stays in a published shift saves
the premium of a change. The other preferences between plans of equal cost are far smaller than
money: a covered shift before an uncovered one, then shifts planned by an earlier run, then
contracts in declared order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from forecaster.core.arrays import Doubles
from forecaster.staffing.people import quick_flow
from forecaster.staffing.people.quick_flow import Crowd, Slot
from forecaster.staffing.people.rule_graph import OFF, Arc

TIME_LIMIT = 5.0  # seconds for a depot's plan
WHOLE = 1e-6  # tolerance of integer numbers of people
NO_GAP = 1e-6  # of money: optimality gap that HiGHS may leave
# worth beyond money, as shares of a missing driver's cost
COVERS, STAYS, ORDER = 1e-4, 2e-5, 1e-7


@dataclass(frozen=True)
class Flow:
    """Number of people of each contract on each arc, and the cost."""

    people: tuple[Mapping[Arc, int], ...]
    cost: float  # of uncovered drivers and overtime
    gap: float  # upper bound of the distance from the optimum


@dataclass
class _Program:
    """A program under construction: columns with cost, upper bound and integrality; rows with two
    bounds."""

    cost: list[float]
    upper: list[float]
    whole: list[bool]
    entries: list[tuple[int, int, float]]
    bounds: list[tuple[float, float]]

    def column(self, cost: float, upper: float, *, whole: bool = False) -> int:
        self.cost.append(cost)
        self.upper.append(upper)
        self.whole.append(whole)
        return len(self.cost) - 1

    def row(self, columns: Sequence[tuple[int, float]], low: float, high: float) -> None:
        self.entries += [(len(self.bounds), column, factor) for column, factor in columns]
        self.bounds.append((low, high))


def cheapest(
    crowds: Sequence[Crowd], savings: Mapping[Slot, Sequence[float]], scale: float, seconds: float = TIME_LIMIT
) -> Flow:
    """Return the cheapest flow, or the best known one after `seconds`.

    `savings` has the saving of each driver of a slot, the first one first; nobody is planned beyond
    these. `scale` is the cost of a missing driver.
    """
    program, arcs = _whole_program(crowds, savings, scale)
    if not program.bounds:
        return Flow(tuple({} for _ in crowds), 0.0, 0.0)
    loose = _solve(program, whole=False, seconds=TIME_LIMIT)
    if loose.x is None:
        return _quick(crowds, savings, scale, 0.0)
    if _is_whole(loose.x, program):
        return _flow(loose.x, arcs, crowds, savings, 0.0)
    flows = list[Flow]()
    if seconds > 0 and (solved := _solve(program, whole=True, seconds=seconds)).x is not None:
        gap = solved.objective - solved.bound
        flows = [_flow(solved.x, arcs, crowds, savings, gap if gap > NO_GAP else 0.0)]
        if flows[0].gap == 0:
            return flows[0]
    everything = sum(uncovered_cost(values, 0) for values in savings.values())
    everything += sum(count * premium for crowd in crowds for count, premium in crowd.published.values())
    flows.append(_quick(crowds, savings, scale, loose.objective + everything))
    return min(flows, key=lambda found: found.cost)


def _whole_program(
    crowds: Sequence[Crowd], savings: Mapping[Slot, Sequence[float]], scale: float
) -> tuple[_Program, list[dict[Arc, int]]]:
    """Return the program, and the columns of each crowd's arcs."""
    program = _Program([], [], [], [], [])
    workers: dict[Slot, list[tuple[int, float]]] = {slot: [] for slot in savings}
    arcs = [_add_crowd(program, crowd, workers, scale * ORDER * place, scale) for place, crowd in enumerate(crowds)]
    for slot, values in savings.items():
        covered = [(program.column(-max(value, 0.0) - scale * COVERS, 1.0), -1.0) for value in values]
        program.row([*workers[slot], *covered], 0, 0)
    return program, arcs


class _Solution(NamedTuple):
    """Result of a solver: the columns, (columns,), None if there are none; the objective and its
    proven bound."""

    x: Doubles | None
    objective: float
    bound: float


def _solve(program: _Program, *, whole: bool, seconds: float) -> _Solution:
    """Solve by HiGHS, as an integer program or as its linear relaxation."""
    import highspy  # needed only for planning weeks

    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = len(program.cost), len(program.bounds)
    model.col_cost_, model.col_upper_ = np.array(program.cost, float), np.array(program.upper, float)
    model.col_lower_ = np.zeros(len(program.cost))
    model.row_lower_, model.row_upper_ = np.array(program.bounds, float).T
    rows, columns, factors = zip(*program.entries, strict=True)  # row by row
    model.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    model.a_matrix_.start_ = np.searchsorted(rows, np.arange(len(program.bounds) + 1)).astype(np.int32)
    model.a_matrix_.index_ = np.array(columns, np.int32)
    model.a_matrix_.value_ = np.array(factors, float)
    if whole:
        kinds = highspy.HighsVarType
        model.integrality_ = [kinds.kInteger if is_integer else kinds.kContinuous for is_integer in program.whole]
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in {"output_flag": False, "time_limit": seconds, "mip_rel_gap": 0.0}.items():
        solver.setOptionValue(option, value)
    solver.passModel(model)
    solver.run()
    info = solver.getInfo()
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    x = np.array(solver.getSolution().col_value) if feasible else None
    objective = float(info.objective_function_value)
    return _Solution(x, objective, float(info.mip_dual_bound) if whole and any(program.whole) else objective)


def _is_whole(x: Doubles, program: _Program) -> bool:
    people = x[np.array(program.whole, bool)]
    return bool((np.abs(people - np.round(people)) < WHOLE).all())


def _flow(
    x: Doubles,
    arcs: Sequence[Mapping[Arc, int]],
    crowds: Sequence[Crowd],
    savings: Mapping[Slot, Sequence[float]],
    gap: float,
) -> Flow:
    people = tuple({arc: round(x[column]) for arc, column in of_crowd.items()} for of_crowd in arcs)
    return Flow(people, cost_of(people, crowds, savings), gap)


def _quick(crowds: Sequence[Crowd], savings: Mapping[Slot, Sequence[float]], scale: float, least_cost: float) -> Flow:
    people = quick_flow.one_by_one(crowds, savings, covers=scale * COVERS, stays=scale * STAYS)
    cost = cost_of(people, crowds, savings)
    return Flow(people, cost, max(cost - max(least_cost, 0.0), 0.0))


def cost_of(
    people: Sequence[Mapping[Arc, int]], crowds: Sequence[Crowd], savings: Mapping[Slot, Sequence[float]]
) -> float:
    """Cost of uncovered shifts and overtime, in the currency."""
    drivers: Counter[Slot] = Counter()
    overtime = 0.0
    for arc_counts, crowd in zip(people, crowds, strict=True):
        for arc, count in arc_counts.items():
            if arc.shift != OFF:
                drivers[arc.day, arc.shift] += count
            overtime += count * arc.overtime * crowd.cost_overtime
    return float(overtime) + sum(uncovered_cost(values, drivers[slot]) for slot, values in savings.items())


def uncovered_cost(savings: Sequence[float], drivers: int) -> float:
    """Loss of a shift that lacks its drivers from `drivers` on."""
    return float(sum(max(value, 0.0) for value in savings[drivers:]))


def _add_crowd(
    program: _Program, crowd: Crowd, workers: dict[Slot, list[tuple[int, float]]], order: float, scale: float
) -> dict[Arc, int]:
    """Add a contract's arcs and flow conservation; the columns of workers are added to `workers` by
    slot."""
    size = sum(crowd.entering.values())
    columns: dict[Arc, int] = {}
    balance: dict[tuple[int, int], list[tuple[int, float]]] = {}
    last = max((arc.day for arc in crowd.graph.arcs), default=0)
    for arc in crowd.graph.arcs:
        is_work = arc.shift != OFF
        if is_work and (arc.day, arc.shift) not in workers:
            continue
        cost = arc.overtime * crowd.cost_overtime + crowd.spread_cost(arc) + order * is_work
        column = program.column(cost, size, whole=True)
        columns[arc] = column
        balance.setdefault((arc.day, arc.source), []).append((column, 1.0))
        if arc.day < last:
            balance.setdefault((arc.day + 1, arc.target), []).append((column, -1.0))
        if is_work:
            workers[arc.day, arc.shift].append((column, 1.0))
    supply: Counter[tuple[int, int]] = Counter()
    for state, count in crowd.entering.items():
        supply[0, crowd.graph.entry[state]] += count
    for node, flows in balance.items():
        program.row(flows, supply[node], supply[node])
    for arc, count in crowd.planned_before.items():
        again = program.column(-scale * STAYS, count)
        program.row([(again, 1.0), (columns[arc], -1.0)], -np.inf, 0)
    for slot, (count, premium) in crowd.published.items():
        again = program.column(-premium, count)
        slot_columns = [(column, -1.0) for arc, column in columns.items() if (arc.day, arc.shift) == slot]
        program.row([(again, 1.0), *slot_columns], -np.inf, 0)
    return columns
