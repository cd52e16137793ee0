"""Worthwhile changes only: decide which crews of a published day stay when the day is replanned.

A change of a depot's crew costs `change_cost`. Among the depots that the new plan would change, a
crew stays if its change is expected to save no more than that, as far as there are vans for it: a
van given up by one depot goes to another, so the depots of a city are chosen together, by a 0/1
knapsack in which items may also free capacity (Bellman 1957, Dynamic Programming). Savings are
those of missing and idle drivers, all valued at the declared cost of the first missing one. After
`change_hour` a depot already changed that day stays too, unless the plan has at least two drivers
more than its crew.

The plan's own rules come first: a depot that would fall below a floor, or lend to one that is less
short, changes in any case. A change of a published schedule also costs its premiums; there, no
floor changes a crew. A crew set by hand stays in any case, within the available vans.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime
from typing import TypeVar
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Staffing
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.core.forecast import Forecast
from forecaster.core.language import N_
from forecaster.core.language.sentences import Sentence, counted, sentence
from forecaster.ledger.publication import LeftCrew, PublishedDay, PublishedDepot, PublishedRoster
from forecaster.staffing import lending, newsvendor, placing, shortage
from forecaster.staffing.lending import LEAST_NEED, DepotVans
from forecaster.staffing.need import Need
from forecaster.staffing.newsvendor import NOT_PUBLISHED, PublishedSchedule, Roster
from forecaster.staffing.vans import VanPool

RosterKind = TypeVar("RosterKind", bound=Roster)
SET_FOR_OTHER_SHIFTS = N_(
    "the crews set by hand for {days} have the shifts {published}, and staffing.shifts declares {declared}: these days "
    "have the crews of the plan; set their crews again, by the declared shifts"
)
PROHIBITIVE = 1e9  # premium for changing a crew set by hand, in the unit of the costs
WHOLE_DAY = ""  # name of a day's crew if no shifts are declared
FAR_SHORT = 2  # drivers that a crew must lack for a second change


@dataclass(frozen=True)
class PublishedCrews:
    """Crews with which days are already published, (depots, horizon)."""

    drivers: Ints  # NOT_PUBLISHED if there is no crew
    had_change: Bools  # changed today after the declared hour
    changed_at: Mapping[tuple[int, int], datetime] = field(default_factory=dict)  # by depot and day
    # (shifts, depots, horizon), in the declared order; None if no shifts are declared
    shifts: Ints | None = None
    schedule: PublishedSchedule | None = None  # these crews are the schedule's on its days

    def on(self, day: slice) -> PublishedCrews:
        """Select some of the days; `changed_at` is dropped."""
        shifts = None if self.shifts is None else self.shifts[:, :, day]
        schedule = None if self.schedule is None else self.schedule.on(day)
        return PublishedCrews(self.drivers[:, day], self.had_change[:, day], shifts=shifts, schedule=schedule)

    def premium(self, crews: Ints) -> Doubles:
        """Premiums for a change to these crews (shifts, depots, horizon), by depot and day."""
        return np.zeros(self.drivers.shape) if self.schedule is None else self.schedule.premium(crews)

    @property
    def scheduled(self) -> Bools:
        """Mask of days in a published schedule, (depots, horizon)."""
        return np.zeros(self.drivers.shape, bool) if self.schedule is None else self.schedule.has


def published_crews(
    depots: Iterable[PublishedDepot], forecast: Forecast, staffing: Staffing, timezone: str, now: datetime
) -> PublishedCrews | None:
    """Published crews of a forecast's days; None if changes are unrestricted."""
    if staffing.change_cost == 0 and staffing.change_hour is None:
        return None
    rows = {depot: row for row, depot in enumerate(forecast.depot_ids)}
    steps = {day: step for step, day in enumerate(forecast.target_dates)}
    drivers = np.full(forecast.open.shape, NOT_PUBLISHED, np.int32)
    had_change, changed_at = np.zeros(forecast.open.shape, bool), dict[tuple[int, int], datetime]()
    names = [shift.name for shift in staffing.shifts]
    shifts = np.zeros((len(names), *forecast.open.shape), np.int32)
    for depot in depots:
        row = rows.get(depot.depot_id)
        if row is None:
            continue
        zone = ZoneInfo(depot.timezone or timezone)
        for day, plan in _rostered_days(depot, names):
            step = steps.get(day.target_date)
            if step is None or day.drivers is None:
                continue
            drivers[row, step] = day.drivers + plan.missing_drivers
            crew, missing = dict(plan.shifts), dict(plan.missing)
            shifts[:, row, step] = [crew[name] + missing.get(name, 0) for name in names]
            if plan.changed_at is not None:
                changed_at[row, step] = plan.changed_at
                had_change[row] |= _same_evening(plan.changed_at, now, zone, staffing.change_hour)
    return PublishedCrews(drivers, had_change, changed_at, shifts if names else None)


def _rostered_days(depot: PublishedDepot, shifts: Sequence[str]) -> Iterator[tuple[PublishedDay, PublishedRoster]]:
    """Open days with a crew of exactly these shifts; other days were published with other declared
    shifts."""
    for day in depot.days:
        if day.open and day.roster is not None and sorted(dict(day.roster.shifts)) == sorted(shifts):
            yield day, day.roster


def _same_evening(at: datetime, now: datetime, zone: ZoneInfo, hour: int | None) -> bool:
    """Return true if both instants are on the same local day, at or after the hour."""
    local_at, local_now = at.astimezone(zone), now.astimezone(zone)
    return hour is not None and local_at.date() == local_now.date() and min(local_at.hour, local_now.hour) >= hour


def keep_unless_worthwhile(
    plan: Roster, crews: PublishedCrews, forecast: Forecast, staffing: Staffing, fleet: VanPool | None
) -> Roster:
    """Return the plan with the published crews that stay."""
    need = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    sharing = None if fleet is None else fleet.drivers_per_van
    change = CrewChange(
        drivers=plan.drivers,
        differs=crews.drivers != plan.drivers,
        further=plan.drivers - crews.drivers,
        saving=need.cost(np.maximum(crews.drivers, 0), staffing) - need.cost(plan.drivers, staffing),
        cost=staffing.change_cost + crews.premium(plan.drivers[None]),
        vans=None
        if sharing is None or plan.vans is None
        else VanChange(
            plan.vans,
            -(-np.maximum(crews.drivers, 0) // sharing),
            -(-plan.desired // sharing),
            need.level(0.5) / sharing,
        ),
    )
    staying = Staying.of(change, crews, need, forecast.open, staffing, fleet)
    drivers = np.where(staying.stay, crews.drivers, plan.drivers).astype(np.int32)
    placed = staying.vans(change)
    bare = newsvendor.with_crews(drivers, plan.desired, placed, need, forecast.open, staffing)
    explained = staying.explained(bare, change, crews, staffing, fleet)
    if crews.schedule is None:
        return explained
    free = newsvendor.cheapest_crew(need, forecast.open, staffing)[None]
    return with_premiums(explained, explained.drivers[None], free, [need], crews.schedule, staffing)


def with_premiums(
    roster: RosterKind,
    crews: Ints,
    free: Ints,
    needs: Sequence[Need],
    schedule: PublishedSchedule,
    staffing: Staffing,
    names: Sequence[str] = (),
) -> RosterKind:
    """Add the reason to each crew that a premium keeps from the cheapest one, `free`; crews are
    (shifts, depots, horizon)."""
    stays = schedule.has & (crews == schedule.crews).all(axis=0) & (free != crews).any(axis=0) & crews.any(axis=0)
    saving = sum(
        need.cost(was, staffing) - need.cost(best, staffing) for need, was, best in zip(needs, crews, free, strict=True)
    )
    by_hand = np.zeros(stays.shape, bool) if schedule.by_hand is None else schedule.by_hand
    premium = np.where(by_hand, 0.0, schedule.premium(free) + staffing.change_cost)
    reasons = {
        (row, day): LeftCrew(
            int(free[:, row, day].sum()),
            float(np.asarray(saving)[row, day]),
            float(premium[row, day]),
            shifts=tuple(zip(names, free[:, row, day].tolist(), strict=True)) if names else (),
            by_hand=bool(by_hand[row, day]),
        )
        for row, day in zip(*(axis.tolist() for axis in stays.nonzero()), strict=True)
    }
    return replace(roster, left=reasons | dict(roster.left))


@dataclass(frozen=True)
class VanChange:
    """Vans of a plan and of the published crews, (depots, horizon)."""

    placed: Ints  # by the plan
    before: Ints  # needed by the published crews
    desired: Ints  # for all wanted drivers
    usual: Doubles  # needed by the median


@dataclass(frozen=True)
class CrewChange:
    """Changes of published crews by a plan, (depots, horizon)."""

    drivers: Ints  # crew of the plan
    differs: Bools
    # drivers added to the published crew; with shifts, the sum over shifts that gain drivers
    further: Ints
    saving: Doubles  # expected, of missing and idle drivers, all at the declared cost of the first
    cost: Doubles  # of the change: the declared cost, and premiums
    vans: VanChange | None  # None if the pipeline counts no vans
    # name and crew of each shift of the plan; empty if no shifts are declared
    shifts: tuple[tuple[str, Ints], ...] = ()


@dataclass(frozen=True)
class Staying:
    """Published crews that stay, (depots, horizon), and those that stay because of a second change
    of the day."""

    stay: Bools
    bound: Bools

    @classmethod
    def of(
        cls,
        change: CrewChange,
        crews: PublishedCrews,
        need: Need,
        open_: Bools,
        staffing: Staffing,
        fleet: VanPool | None,
    ) -> Staying:
        """Choose the crews that save most, net of the costs of changes; `need` is that of whole
        days."""
        eligible = _may_stay(change, crews, need, open_, staffing)
        bound = eligible & crews.had_change & (change.further < FAR_SHORT)
        eligible &= bound | (change.cost > 0)
        worth = change.cost - change.saving + np.where(bound, 1 + 2 * np.abs(change.saving).sum(), 0)
        stay = np.zeros_like(eligible)
        for day in range(eligible.shape[1]):
            stay[:, day] = _stay_on(day, change.vans, eligible[:, day], worth[:, day], fleet)
        return cls(stay, bound)

    def vans(self, change: CrewChange) -> Ints | None:
        """Resulting vans, (depots, horizon); None if the pipeline counts no vans."""
        if change.vans is None:
            return None
        return np.where(self.stay, change.vans.before, change.vans.placed).astype(np.int32)

    def explained(
        self, roster: RosterKind, change: CrewChange, crews: PublishedCrews, staffing: Staffing, fleet: VanPool | None
    ) -> RosterKind:
        """Return the resulting roster, with the crews left unchanged and why, changes, loans and
        missing vans."""
        changed = (crews.drivers >= 0) & ~self.stay & change.differs
        left_crews = {
            (row, day): LeftCrew(
                int(change.drivers[row, day]),
                float(change.saving[row, day]),
                float(change.cost[row, day]),
                staffing.change_hour if self.bound[row, day] else None,
                tuple((name, int(crew[row, day])) for name, crew in change.shifts),
            )
            for row, day in zip(*(axis.tolist() for axis in self.stay.nonzero()), strict=True)
        }
        if fleet is not None and roster.vans is not None and change.vans is not None:
            reasons = shortage.shortages(roster.desired, roster.drivers, roster.vans, fleet, change.vans.desired)
            reasons = {cell: reason for cell, reason in reasons.items() if cell not in left_crews}
            roster = replace(roster, loans=fleet.loans(roster.vans), shortages=reasons)
        return replace(roster, left=left_crews, changed=changed)


def _may_stay(change: CrewChange, crews: PublishedCrews, need: Need, open_: Bools, staffing: Staffing) -> Bools:
    """Mask of depots whose published crew differs from the plan's, and is within limits and floors."""
    limits = staffing.crew
    floor = np.maximum(shortage.floors(need, staffing), limits.min)
    most = np.inf if limits.max is None else limits.max
    least = np.where(crews.scheduled, limits.min, np.minimum(floor, change.drivers))
    allowed = (crews.drivers >= least) & (crews.drivers <= most)
    may_stay: Bools = open_ & (crews.drivers >= 0) & change.differs & allowed
    return may_stay


def _stay_on(day: int, vans: VanChange | None, eligible: Bools, worth: Doubles, fleet: VanPool | None) -> Bools:
    """Depots that stay on a day (depots,).

    Repeat until no lender is shorter than a borrower would be without its last van.
    """
    if fleet is None or vans is None:
        return eligible & (worth >= 0)
    placed, before = vans.placed[:, day], vans.before[:, day]
    home = np.zeros_like(placed) if fleet.home is None else fleet.home
    depots = DepotVans(home, vans.desired[:, day], np.maximum(vans.usual[:, day], LEAST_NEED))
    while True:
        stay = _chosen(eligible, worth, before - placed, placed, fleet)
        allocation = np.where(stay, before, placed).astype(np.int32)
        unfair = lending.breaches(allocation, depots, fleet.city) if fleet.home is not None else {}
        if not unfair:
            return stay
        concerned = stay & np.isin(fleet.city, list(unfair))
        moved = concerned & (allocation != home)
        eligible = eligible & ~(moved if moved.any() else concerned)


def _chosen(eligible: Bools, worth: Doubles, further: Ints, placed: Ints, fleet: VanPool) -> Bools:
    """Depots that stay if this takes `further` vans each beyond those `placed`, (depots,)."""
    stay = np.zeros_like(eligible)
    if fleet.home is None:
        groups, spares = [np.arange(len(placed))], np.zeros(1, np.int32)
        reserve = fleet.total - int(placed.sum())
    else:
        groups = placing.members(fleet.city, int(fleet.city.max(initial=0)) + 1)
        of_city, home = placing.by_city(placed, fleet.city), placing.by_city(fleet.home, fleet.city)
        spares = np.maximum(home - of_city, 0)
        reserve = max(fleet.total - int(home.sum()), 0) - int(np.maximum(of_city - home, 0).sum())
    of_all = fleet.total - int(placed.sum())
    for members, spare in zip(groups, spares.tolist(), strict=True):
        items = members[eligible[members]]
        stay[items] = choose(worth[items], further[items], min(spare + reserve, of_all))
        used = int(further[items][stay[items]].sum())
        reserve, of_all = reserve - max(used - spare, 0), of_all - max(used, 0)
    return stay


def choose(worth: Doubles, vans: Ints, free: int) -> NDArray[np.bool_]:
    """Items with the largest total worth that need at most `free` vans; negative items free vans."""
    least = -int(vans[vans < 0].sum())
    best = np.full(least + int(vans[vans > 0].sum()) + 1, -np.inf)
    best[least] = 0
    took = np.zeros((len(worth), len(best)), bool)
    places = np.arange(len(best))
    for item, (value, count) in enumerate(zip(worth.tolist(), vans.tolist(), strict=True)):
        source = places - count
        inside = (source >= 0) & (source < len(best))
        candidate = np.where(inside, best[np.clip(source, 0, len(best) - 1)] + value, -np.inf)
        took[item] = inside & (candidate >= best) & ~np.isneginf(candidate)
        best = np.where(took[item], candidate, best)
    place = int(best[: least + max(free, 0) + 1].argmax())
    is_chosen = np.zeros(len(worth), bool)
    for item in range(len(worth) - 1, -1, -1):
        if took[item, place]:
            is_chosen[item] = True
            place -= int(vans[item])
    return is_chosen


def crew_names(staffing: Staffing) -> list[str]:
    """Names of a day's crews: those of the shifts, or that of the whole day."""
    return [shift.name for shift in staffing.shifts] or [WHOLE_DAY]


def other_shifts(text: str, crews: Mapping[tuple[str, date], Mapping[str, int]], staffing: Staffing) -> Sentence | None:
    """Sentence with {days}, {published} and {declared} about days whose crews have other shifts than
    those declared; None if there are none."""
    names = sorted(crew_names(staffing))
    other = [crew for crew in crews.values() if sorted(crew) != names]
    if not other:
        return None
    published, declared = (
        ", ".join(name or "whole day" for name in shifts) for shifts in (sorted(set().union(*other)), names)
    )
    days = counted(len(other), "{n} depot-day", "{n} depot-days")
    return sentence(text, days=days, published=published, declared=declared)


def with_set_crews(
    published: PublishedCrews | None,
    set_crews: Mapping[tuple[str, date], Mapping[str, int]],
    forecast: Forecast,
    staffing: Staffing,
) -> PublishedCrews | None:
    """Published crews of a forecast's days, replaced by those set by hand; crews of other shifts
    than those declared are dropped (`other_shifts` reports them)."""
    names, shape = crew_names(staffing), forecast.open.shape
    crews = np.full((len(names), *shape), NOT_PUBLISHED, np.int32)
    for row, depot in enumerate(forecast.depot_ids):
        for step, day in enumerate(forecast.target_dates):
            crew = set_crews.get((depot, day))
            if crew is not None and sorted(crew) == sorted(names):
                crews[:, row, step] = [crew[name] for name in names]
    by_hand = np.asarray((crews >= 0).all(axis=0), bool)
    if not by_hand.any():
        return published
    before = published or PublishedCrews(
        np.full(shape, NOT_PUBLISHED, np.int32),
        np.zeros(shape, bool),
        shifts=np.zeros_like(crews) if staffing.shifts else None,
    )
    nothing = np.zeros(crews.shape)
    schedule = before.schedule or PublishedSchedule(np.full(crews.shape, NOT_PUBLISHED, np.int32), nothing, nothing)
    return replace(
        before,
        drivers=np.where(by_hand, crews.sum(axis=0), before.drivers).astype(np.int32),
        had_change=before.had_change & ~by_hand,
        shifts=None if before.shifts is None else np.where(by_hand, crews, before.shifts),
        schedule=PublishedSchedule(
            np.where(by_hand, crews, schedule.crews).astype(np.int32),
            np.where(by_hand, PROHIBITIVE, schedule.added),
            np.where(by_hand, PROHIBITIVE, schedule.removed),
            by_hand,
        ),
    )
