"""Newsvendor staffing: the number of drivers at which one more would cost more than it saves.

The newsvendor model (Arrow, Harris & Marschak 1951; Porteus, Foundations of Stochastic Inventory
Theory, ch. 1) in whole drivers. A day needs N = ceil(orders / orders_per_driver) drivers; each
missing one costs `cost_short`, each surplus one `cost_idle`. The expected cost of a crew of n is
G(n) = cost_short E(N - n)+ + cost_idle E(n - N)+, and one driver more changes it by (cost_short +
cost_idle) P(N ≤ n) - cost_short, which increases with n. So G is convex, and the cheapest crew is
the smallest that suffices with probability cost_short / (cost_short + cost_idle). If there are too
few vans for these crews, `shortage` defines the worth of each van.

A published schedule adds premiums, `added` and `removed`, for each driver more or fewer than its
crew. That is convex too: a crew rises while one more driver saves more than `added`, falls while
the last one saves less than minus `removed`, and stays in between. The cheapest crew is the
published one, clipped to these two bounds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Staffing
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.core.forecast import Forecast
from forecaster.ledger.publication import LeftCrew, Shortage
from forecaster.staffing import shortage
from forecaster.staffing.need import Need
from forecaster.staffing.vans import Loan, VanPool

NOT_PUBLISHED = -1  # stands for a crew


@dataclass(frozen=True)
class PublishedSchedule:
    """Crews announced to people, and premiums of each driver more or fewer.

    Arrays (shifts, depots, horizon); a day without declared shifts is one shift.
    """

    crews: Ints  # NOT_PUBLISHED on days without a schedule
    added: Doubles
    removed: Doubles
    by_hand: Bools | None = None  # mask of days whose crew a planner set, (depots, horizon)

    @property
    def has(self) -> Bools:
        """Mask of the schedule's days, (depots, horizon)."""
        return np.asarray((self.crews >= 0).all(axis=0), bool)

    def premium(self, crews: Ints) -> Doubles:
        """Premiums for a change to these crews, (depots, horizon); 0 on days without a schedule."""
        further = crews - self.crews
        paid = self.added * np.maximum(further, 0) + self.removed * np.maximum(-further, 0)
        return np.where(self.has, paid.sum(axis=0), 0.0)

    def on(self, day: slice) -> PublishedSchedule:
        """Select some of the days."""
        by_hand = None if self.by_hand is None else self.by_hand[:, day]
        return PublishedSchedule(self.crews[:, :, day], self.added[:, :, day], self.removed[:, :, day], by_hand)


@dataclass(frozen=True)
class Roster:
    """Rosters; arrays (depots, horizon), on closed days 0, and NaN in `one_more` and `one_fewer`.

    Costs are expected costs of missing and idle drivers, all at the declared cost of the first,
    without wages.
    """

    drivers: Ints
    vans: Ints | None  # None: the pipeline counts no vans
    chance_short: Doubles  # probability that the day needs more drivers
    expected_cost: Doubles
    one_more: Doubles  # expected cost with one driver more; NaN if `crew.max` forbids it
    one_fewer: Doubles  # with one driver fewer; NaN if `crew.min` forbids it
    desired: Ints  # drivers if there were vans for all
    loans: tuple[Loan, ...] = ()
    shortages: Mapping[tuple[int, int], Shortage] = field(default_factory=dict)  # by depot and day
    # crews that stay as published
    left: Mapping[tuple[int, int], LeftCrew] = field(default_factory=dict)
    changed: Bools | None = None  # mask of crews that differ from the published ones; None: not tracked


def cheapest_crew(need: Need, open_: Bools, staffing: Staffing, schedule: PublishedSchedule | None = None) -> Ints:
    """Cheapest crew of each open day within `staffing.crew`, 0 on closed days; includes premiums of
    a schedule."""
    desired = _sufficient(need, np.zeros(open_.shape), staffing)
    if schedule is not None:
        least, most = (_sufficient(need, by, staffing) for by in (-schedule.added[0], schedule.removed[0]))
        desired = np.where(schedule.has, np.clip(schedule.crews[0], least, most), desired)
    return within_limits(desired, open_, staffing)


def _sufficient(need: Need, dearer: Doubles, staffing: Staffing) -> Doubles:
    """Smallest cheapest crews (depots, horizon) if a missing driver costs `dearer` more than
    `cost_short`, and an idle one that much less."""
    crews = np.zeros(dearer.shape)
    for further in np.unique(dearer):
        ratio = (staffing.cost_short + further) / (staffing.cost_short + staffing.cost_idle)
        enough = np.ceil(need.level(min(ratio, 1.0))) if ratio > 0 else 0.0
        crews = np.where(dearer == further, np.inf if ratio >= 1 else enough, crews)
    return crews


def within_limits(desired: NDArray[np.floating], open_: Bools, staffing: Staffing) -> Ints:
    """Crews within the declared limits; cost is convex, so the nearest allowed crew is the cheapest
    allowed one."""
    limits = staffing.crew
    return np.where(open_, np.clip(desired, limits.min, limits.max), 0).astype(np.int32)


def roster(
    forecast: Forecast, staffing: Staffing, fleet: VanPool | None = None, schedule: PublishedSchedule | None = None
) -> Roster:
    """The cheapest roster of all depots under the declared limits and, with a fleet, its vans.

    A published schedule changes only if that saves more than its premiums.
    """
    need = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    desired = cheapest_crew(need, forecast.open, staffing, schedule)
    if fleet is None:
        return with_crews(desired, desired, None, need, forecast.open, staffing)
    placed = place_vans(desired, need, staffing, fleet)
    drivers = np.minimum(desired, placed * fleet.drivers_per_van)
    bare = with_crews(drivers, desired, placed, need, forecast.open, staffing)
    reasons = shortage.shortages(desired, drivers, placed, fleet)
    return replace(bare, loans=fleet.loans(placed), shortages=reasons)


def with_crews(
    drivers: Ints, desired: Ints, placed: Ints | None, need: Need, open_: Bools, staffing: Staffing
) -> Roster:
    """Rosters with these crews (depots, horizon)."""
    limits, nan = staffing.crew, np.full(drivers.shape, np.nan)
    more, fewer = need.cost(drivers + 1, staffing), need.cost(np.maximum(drivers - 1, 0), staffing)
    may_fall = open_ & (drivers > limits.min)
    may_rise = open_ & (drivers < (np.inf if limits.max is None else limits.max))
    return Roster(
        drivers,
        placed,
        np.where(open_, np.clip(1 - need.suffices(drivers), 0, 1), 0.0),
        np.where(open_, need.cost(drivers, staffing), 0.0),
        np.where(may_rise, more, nan),
        np.where(may_fall, fewer, nan),
        desired,
    )


def place_vans(desired: Ints, need: Need, staffing: Staffing, fleet: VanPool) -> Ints:
    """Vans (depots, horizon) of the cheapest crews that the fleet can carry, above the declared
    floors."""
    cells = np.arange(desired.size).reshape(desired.shape)
    return fleet.allocate(
        -(-desired // fleet.drivers_per_van),
        need.level(0.5) / fleet.drivers_per_van,
        lambda day: shortage.claims(desired[:, day], need.at(cells[:, day]), staffing, fleet),
    )
