"""Newsvendor staffing: the number of drivers at which one more would cost more than it saves.

The newsvendor model (Arrow, Harris & Marschak 1951; Porteus, Foundations of Stochastic Inventory
Theory, ch. 1) in whole drivers. A day needs N = ceil(orders / orders_per_driver) drivers; each
missing one costs `cost_short`, each one too many `cost_idle`. A crew of n costs G(n) = cost_short
E(N - n)+ + cost_idle E(n - N)+ in expectation, and one driver more changes that by (cost_short +
cost_idle) P(N ≤ n) - cost_short, which rises with n. So G is convex, and the cheapest crew is the
smallest that suffices with probability cost_short / (cost_short + cost_idle). Where vans are too
few for these crews, `shortage` says what each is worth.
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


@dataclass(frozen=True)
class Roster:
    """Rosters; arrays (depots, horizon), on closed days 0, and NaN in `one_more` and `one_fewer`.

    Money is what the crew is expected to cost in missing and idle drivers, each at what is declared
    of the first, not its wages.
    """

    drivers: Ints
    vans: Ints | None  # None = the pipeline counts no vans
    chance_short: Doubles  # that the day needs more drivers than these
    expected_cost: Doubles
    one_more: Doubles  # expected cost with one driver more; NaN where `crew.max` forbids it
    one_fewer: Doubles  # with one driver fewer; NaN where `crew.min` forbids it
    desired: Ints  # drivers with vans for all
    loans: tuple[Loan, ...] = ()
    shortages: Mapping[tuple[int, int], Shortage] = field(default_factory=dict)  # by depot and day
    # crews that stay as they are published
    left: Mapping[tuple[int, int], LeftCrew] = field(default_factory=dict)
    changed: Bools | None = None  # from what was published; None = that does not count


def cheapest_crew(need: Need, open_: Bools, staffing: Staffing) -> Ints:
    """The cheapest crew of each open day within the limits of `staffing.crew`, none on closed
    days."""
    desired = np.ceil(need.level(staffing.cost_short / (staffing.cost_short + staffing.cost_idle)))
    return within_limits(desired, open_, staffing)


def within_limits(desired: NDArray[np.floating], open_: Bools, staffing: Staffing) -> Ints:
    """Crews within the declared limits; since cost is convex, the nearest one allowed is the
    cheapest one allowed."""
    limits = staffing.crew
    return np.where(open_, np.clip(desired, limits.min, limits.max), 0).astype(np.int32)


def roster(forecast: Forecast, staffing: Staffing, fleet: VanPool | None = None) -> Roster:
    """The cheapest roster of all depots under the declared limits and, with a fleet, the vans that
    there are."""
    need = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    desired = cheapest_crew(need, forecast.open, staffing)
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
    """The vans (depots, horizon) of the crews that the fleet can carry at least cost, over the
    declared floors."""
    cells = np.arange(desired.size).reshape(desired.shape)
    return fleet.allocate(
        -(-desired // fleet.drivers_per_van),
        need.level(0.5) / fleet.drivers_per_van,
        lambda day: shortage.claims(desired[:, day], need.at(cells[:, day]), staffing, fleet),
    )
