"""Plans of the week of all depots of a publication: who works which shift, from the shifts' crews and the contracts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from time import monotonic
from zoneinfo import ZoneInfo

from forecaster.config import EmploymentContract, Shift, Staffing
from forecaster.core.arrays import Doubles
from forecaster.core.panel import Panel
from forecaster.errors import ForecasterError, MissingExtra, SpecError
from forecaster.ledger.publication import PublishedDepot
from forecaster.ledger.week_plan import WeekPlan
from forecaster.staffing.newsvendor import Roster
from forecaster.staffing.people.week_planner import Staff, WantedShift, plan_week
from forecaster.staffing.shift_crews import ShiftRoster

PLAN_SECONDS = 120.0  # after which no further depot is planned, so that the publication is not held up
MOST_EXPLAINED = 500  # depots of a publication for which the costs of rules are worked out: that takes the longest


@dataclass(frozen=True)
class PlannedWeeks:
    """The plans, in the order of the depots, and why others are missing, in sentences."""

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
) -> PlannedWeeks:
    """The plans of published depots; `before` are the plans before these, by depot, and `timezone` the pipeline's.

    No plans where the pipeline declares no people. A depot that cannot be planned is a trouble, and the others go on.
    """
    if staffing is None or not staffing.people or not isinstance(roster, ShiftRoster):
        return PlannedWeeks(())
    rows = {depot: row for row, depot in enumerate(panel.depot_ids)}
    plans: list[WeekPlan] = []
    troubles: list[str] = []
    start, explained, savings = monotonic(), 0, roster.savings(staffing)
    for place, depot in enumerate(depots):
        if monotonic() - start > PLAN_SECONDS:
            troubles.append(
                f"{len(depots) - place:,} depots have no plan of the week: {PLAN_SECONDS:g} seconds are over"
            )
            break
        row = rows[depot.depot_id]
        try:
            plan = plan_week(
                depot.depot_id,
                [day.target_date for day in depot.days],
                wanted_shifts(depot, savings, row, staffing, ZoneInfo(depot.timezone or timezone)),
                [Staff(contract, people_of(contract, panel, row)) for contract in staffing.people],
                cost_short=staffing.cost_short,
                at=at,
                before=before.get(depot.depot_id),
                explain=explained < MOST_EXPLAINED,
            )
        except MissingExtra as error:
            troubles.append(f"no week is planned: {error}")
            break
        except ForecasterError as error:
            troubles.append(f"depot {depot.depot_id} has no plan of the week: {error}")
            if len(troubles) == 3:
                break
            continue
        explained += bool(plan.rules)
        plans.append(plan)
    return PlannedWeeks(tuple(plans), tuple(troubles))


def wanted_shifts(
    depot: PublishedDepot, savings: Sequence[Sequence[Doubles]], row: int, staffing: Staffing, zone: ZoneInfo
) -> list[WantedShift]:
    """The shifts of a depot's open days with what their crews save, by day and time; `row` is the depot's place in
    `savings`, as `ShiftRoster` has them."""
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
    """When a shift of a local day begins and ends, in UTC; one during which clocks are put forward or back is shorter
    or longer than on other days. Of a time that comes twice, the first is meant."""
    ends_on = date.fromordinal(day.toordinal() + shift.passes_midnight)
    start, end = datetime.combine(day, shift.starts, zone), datetime.combine(ends_on, shift.ends, zone)
    return start.astimezone(UTC), end.astimezone(UTC)


def people_of(contract: EmploymentContract, panel: Panel, row: int) -> int:
    """How many people of a depot have a contract. Raises SpecError where its column holds no number."""
    if isinstance(contract.per_depot, int):
        return contract.per_depot
    words = panel.attributes.get(contract.per_depot)
    word = words[row] if words else ""
    try:
        number = float(word or 0)
    except ValueError:
        number = -1.0
    if not (0 <= number <= 500 and number.is_integer()):
        raise SpecError(
            f"staffing.people: found {word!r} in the depots' column '{contract.per_depot}', wanted a number up to 500"
        )
    return int(number)
