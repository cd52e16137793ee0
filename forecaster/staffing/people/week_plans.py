"""Plans of the week for all depots of a publication, from the shifts' crews and the contracts."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from time import monotonic
from types import MappingProxyType
from zoneinfo import ZoneInfo

from forecaster.config import EmploymentContract, Shift, Staffing
from forecaster.core.arrays import Doubles
from forecaster.core.language import N_
from forecaster.core.language.sentences import Sentence, amount, counted, of_error, sentence
from forecaster.core.panel import Panel
from forecaster.core.parallel import available_cores, in_processes
from forecaster.errors import MissingExtra, SpecError
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.week_plan import DepotShifts, DepotWishes, WeekPlan
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.people.flow import TIME_LIMIT
from forecaster.staffing.people.rule_sentences import FORBIDDING
from forecaster.staffing.people.week_planner import CENT, WeekTask
from forecaster.staffing.people.week_problem import Spread, Staff, WantedShift
from forecaster.staffing.people.worker import Worker
from forecaster.staffing.shift_values import ShiftRoster

# seconds after which no further depot is planned, so that the publication is not delayed
PLAN_SECONDS = 120.0
# seconds after which the integer program is skipped, and only the linear relaxation is solved
QUICK_SECONDS = 80.0
# depots per publication with explained costs of rules, the slowest step
MOST_EXPLAINED = 500
CHUNK = 25  # depots planned per task of a process
NOT_BY_HAND: Mapping[str, DepotShifts] = MappingProxyType({})
NO_WISHES: Mapping[str, DepotWishes] = MappingProxyType({})
FEW = 300  # below this number of depots, starting processes takes longer than they save


@dataclass(frozen=True)
class PlannedWeeks:
    """The plans, in depot order, and sentences on why others are missing."""

    plans: tuple[WeekPlan, ...]
    troubles: tuple[str, ...] = ()


def plan_weeks(
    depots: Sequence[PublishedDepot],
    roster: Roster | None,
    panel: Panel,
    staffing: Staffing | None,
    *,
    timezone: str,
    at: datetime,
    before: Mapping[str, WeekPlan],
    people: Sequence[Worker] | None = None,
    assigned: Mapping[str, DepotShifts] = NOT_BY_HAND,
    wishes: Mapping[str, DepotWishes] = NO_WISHES,
) -> PlannedWeeks:
    """Plan the weeks of published depots.

    `before` are the previous plans by depot, and `timezone` is the pipeline's. Without `people`,
    those named in the previous plans are planned again. `assigned` are shifts set by hand, by depot
    and person, "" for a free day; one that a rule forbids is a trouble. `wishes` are days that
    people wish to be free, by depot and person.

    No plans if the pipeline declares no people. A depot that cannot be planned is a trouble, and
    the others continue. The costs of rules are computed last, for the most expensive plans.
    """
    if staffing is None or not staffing.people or not isinstance(roster, ShiftRoster):
        return PlannedWeeks(())
    start, troubles = monotonic(), list[str]()
    by_contract = _by_contract(people_of_plans(before.values()) if people is None else people)
    tasks = _tasks(
        depots, roster, panel, staffing, troubles, timezone=timezone, at=at, before=before, named=by_contract
    )
    by_people = ((task, assigned.get(task.depot_id, {}), wishes.get(task.depot_id, {})) for task in tasks)
    tasks = [replace(task, assigned=by_hand, wishes=wished) for task, by_hand, wished in by_people]
    workers = available_cores() if len(tasks) > FEW else 1
    try:
        plans = [plan for plans in in_processes(_plan, _chunks(tasks, start), workers) for plan in plans]
        if len(plans) < len(tasks):
            late = N_("{n} depots have no plan of the week: the limit of {seconds} seconds was reached")
            troubles.append(sentence(late, n=len(tasks) - len(plans), seconds=amount(PLAN_SECONDS, "g")))
        troubles += [*_forbidden(plans), *_of_unknown_people(depots, plans, assigned, wishes)]
        _explain_dearest(tasks, plans, start, workers)
    except MissingExtra as error:
        return PlannedWeeks((), (sentence(N_("no week is planned: {why}"), why=of_error(error)),))
    return PlannedWeeks(tuple(plans), tuple(troubles))


def _forbidden(plans: Iterable[WeekPlan]) -> Iterator[str]:
    """Sentences on shifts set by hand that were left out, without names: they end up in logs."""
    left_out = N_("{depot}: shifts set by hand are left out of the plan for {people}, since {rule} forbids them")
    for plan in plans:
        for rule, n in Counter(who.forbidden_by for who in plan.positions if who.forbidden_by).items():
            yield sentence(left_out, depot=plan.depot_id, people=_people(n), rule=sentence(FORBIDDING[rule]))


def _of_unknown_people(
    depots: Sequence[PublishedDepot],
    plans: Iterable[WeekPlan],
    assigned: Mapping[str, DepotShifts],
    wishes: Mapping[str, DepotWishes],
) -> Iterator[str]:
    """Sentences on shifts set by hand and wishes of people who are not in the plan of their depot,
    without names: they end up in logs."""
    text = N_("{depot}: shifts set by hand or wishes of {people} are not in the plan, since nobody there has this name")
    days = {day.target_date for depot in depots for day in depot.days}
    people = {plan.depot_id: {position.name for position in plan.positions} for plan in plans}
    without_plan = {depot.depot_id for depot in depots} - people.keys()
    for depot_id in sorted({*assigned, *wishes} - without_plan):
        shifts = assigned.get(depot_id, {}).items()
        decided = {name for name, of_person in shifts if any(shift[0] in days for shift in of_person)}
        decided |= {name for name, wished in wishes.get(depot_id, {}).items() if days & {*wished}}
        if unknown := decided - people.get(depot_id, set()):
            yield sentence(text, depot=depot_id, people=_people(len(unknown)))


def _people(number: int) -> Sentence:
    return counted(number, "{n} person", "{n} people")


def _explain_dearest(tasks: Sequence[WeekTask], plans: list[WeekPlan], start: float, workers: int) -> None:
    """Replace the most expensive plans by ones with the costs of rules."""
    dearest = sorted(range(len(plans)), key=lambda place: -plans[place].cost)[:MOST_EXPLAINED]
    dearest = [place for place in dearest if plans[place].cost > CENT]
    pairs = _until(((tasks[place], plans[place]) for place in dearest), start)
    for place, plan in zip(dearest, in_processes(_explain, pairs, workers), strict=False):
        plans[place] = plan


def _tasks(
    depots: Sequence[PublishedDepot],
    roster: ShiftRoster,
    panel: Panel,
    staffing: Staffing,
    troubles: list[str],
    *,
    timezone: str,
    at: datetime,
    before: Mapping[str, WeekPlan],
    named: Mapping[tuple[str, str], tuple[Worker, ...]],
) -> list[WeekTask]:
    """Planning problem of each depot; `troubles` gets the first three failures."""
    rows, savings = {depot: row for row, depot in enumerate(panel.depot_ids)}, roster.savings(staffing)
    tasks = []
    for depot in depots:
        row = rows[depot.depot_id]
        try:
            staff = tuple(
                Staff(contract, people_of(contract, panel, row), named.get((depot.depot_id, contract.name), ()))
                for contract in staffing.people
            )
        except SpecError as error:
            without = N_("depot {depot} has no plan of the week: {why}")
            troubles.append(sentence(without, depot=depot.depot_id, why=of_error(error)))
            if len(troubles) == 3:
                break
            continue
        zone = ZoneInfo(depot.timezone or timezone)
        tasks.append(
            WeekTask(
                depot.depot_id,
                tuple(day.target_date for day in depot.days),
                tuple(wanted_shifts(depot, savings, row, staffing, zone)),
                staff,
                staffing.cost_short,
                at,
                before.get(depot.depot_id),
                spread=Spread(staffing.spread_weight, staffing.late_shifts) if staffing.spread_weight else None,
                premiums=_premiums(roster, row, depot),
            )
        )
    return tasks


def _premiums(roster: ShiftRoster, row: int, depot: PublishedDepot) -> dict[tuple[date, str], float]:
    """Premiums for another person in a published shift, by day and shift: one shift is cancelled,
    and one added. Days with a crew set by hand have none."""
    published = roster.schedule
    if published is None:
        return {}
    is_priced = published.has[row] if published.by_hand is None else published.has[row] & ~published.by_hand[row]
    both = published.added[:, row] + published.removed[:, row]
    return {
        (day.target_date, name): float(both[place, step])
        for step, day in enumerate(depot.days)
        for place, name in enumerate(roster.names)
        if is_priced[step] and both[place, step] > 0
    }


def people_of_plans(plans: Iterable[WeekPlan]) -> list[Worker]:
    """People named in plans, with their days off known there."""
    return [
        Worker(
            plan.depot_id,
            person.name,
            person.contract,
            tuple((day, day) for day in person.days_off),
            person.cannot_work,
        )
        for plan in plans
        for person in plan.positions
        if person.is_named
    ]


def _by_contract(people: Iterable[Worker]) -> dict[tuple[str, str], tuple[Worker, ...]]:
    """People by depot and contract."""
    groups: dict[tuple[str, str], tuple[Worker, ...]] = {}
    for person in people:
        key = (person.depot_id, person.contract)
        groups[key] = (*groups.get(key, ()), person)
    return groups


def _chunks(tasks: Sequence[WeekTask], start: float) -> Iterator[tuple[Sequence[WeekTask], float]]:
    """Chunks of tasks with the seconds for each, as long as there is time."""
    for place in range(0, len(tasks), CHUNK):
        elapsed = monotonic() - start
        if elapsed > PLAN_SECONDS:
            return
        yield tasks[place : place + CHUNK], 0.0 if elapsed > QUICK_SECONDS else TIME_LIMIT


def _until(pairs: Iterator[tuple[WeekTask, WeekPlan]], start: float) -> Iterator[tuple[WeekTask, WeekPlan]]:
    """Pairs, as long as there is time."""
    return itertools.takewhile(lambda _: monotonic() - start < PLAN_SECONDS, pairs)


def _plan(tasks: Sequence[WeekTask], seconds: float) -> list[WeekPlan]:
    return [task.plan(seconds) for task in tasks]


def _explain(task: WeekTask, plan: WeekPlan) -> WeekPlan:
    return task.explain(plan)


def wanted_shifts(
    depot: PublishedDepot, savings: Sequence[Sequence[Doubles]], row: int, staffing: Staffing, zone: ZoneInfo
) -> list[WantedShift]:
    """Shifts of a depot's open days with the savings of their crews, by day and time.

    `row` is the depot's index in `savings`, as in `ShiftRoster`.
    """
    order = sorted(range(len(staffing.shifts)), key=lambda place: staffing.shifts[place].starts)
    return [
        WantedShift(
            day.target_date,
            staffing.shifts[place].name,
            *instants(staffing.shifts[place], day.target_date, zone),
            tuple(savings[place][row * len(depot.days) + step].tolist()),
        )
        for step, day in enumerate(depot.days)
        if day.open
        for place in order
    ]


def instants(shift: Shift, day: date, zone: ZoneInfo) -> tuple[datetime, datetime]:
    """Start and end of a shift of a local day, in UTC.

    A shift during which clocks are put forward or back is shorter or longer than on other days. An
    ambiguous time means its first occurrence.
    """
    ends_on = date.fromordinal(day.toordinal() + shift.passes_midnight)
    start, end = datetime.combine(day, shift.starts, zone), datetime.combine(ends_on, shift.ends, zone)
    return start.astimezone(UTC), end.astimezone(UTC)


def people_of(contract: EmploymentContract, panel: Panel, row: int) -> int:
    """Number of people of a depot with a contract. Raises SpecError if its column holds no number."""
    if isinstance(contract.per_depot, int):
        return contract.per_depot
    values = panel.attributes.get(contract.per_depot)
    word = values[row] if values else ""
    try:
        number = float(word or 0)
    except ValueError:
        number = -1.0
    if not (0 <= number <= 500 and number.is_integer()):
        raise SpecError(
            f"staffing.people: found {word!r} in the depots' column '{contract.per_depot}', wanted a number up to 500"
        )
    return int(number)
