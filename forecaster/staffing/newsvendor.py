"""Newsvendor staffing: the number of drivers at which one more would cost more than it saves.

The newsvendor model (Arrow, Harris & Marschak 1951; Porteus, Foundations of Stochastic Inventory Theory, ch. 1) in
whole drivers. A day needs N = ceil(orders / orders_per_driver) drivers; each missing one costs `cost_short`, each one
too many `cost_idle`. A crew of n costs G(n) = cost_short E(N - n)+ + cost_idle E(n - N)+ in expectation, and one
driver more changes that by (cost_short + cost_idle) P(N ≤ n) - cost_short, which rises with n. So G is convex, and the
cheapest crew is the smallest that suffices with probability cost_short / (cost_short + cost_idle).

Orders come whole, and models never say quite zero: a quantile of less than half an order is read as no order, unless
that much is a good part of a driver's day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Staffing
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.core.forecast import Forecast
from forecaster.staffing import vans
from forecaster.staffing.vans import Loan

NO_ORDER = 0.5  # orders below which a quantile stands for none,
NO_WORK = 0.05  # and shares of a driver's day that it must stay below as well
DIGITS = 6  # of drivers: 30.000002 orders, as float32 has it, are three drivers' worth


@dataclass(frozen=True)
class Roster:
    """Whom and what to roster; arrays (depots, horizon), on closed days 0, and NaN in `one_more` and `one_fewer`.

    Money is what the crew is expected to cost in missing and idle drivers, not its wages.
    """

    drivers: Ints
    vans: Ints | None  # None = the pipeline counts no vans
    chance_short: Doubles  # that the day needs more drivers than these
    expected_cost: Doubles
    one_more: Doubles  # expected cost with one driver more; NaN where `crew.max` forbids it
    one_fewer: Doubles  # with one driver fewer; NaN where `crew.min` forbids it
    loans: tuple[Loan, ...] = ()


@dataclass(frozen=True)
class Need:
    """How many drivers days may need, as quantile functions of orders / orders_per_driver that are straight between
    knots.

    Beyond the outermost published level they go on straight to level 0 or 1, as far as gives the tail the mean that a
    normal's would have whose quantiles run through the two outermost levels; they never pass below 0.
    """

    knots: Doubles  # (levels + 2, …), rising along the first axis
    levels: tuple[float, ...]  # of the knots, from 0 to 1

    @classmethod
    def of(cls, quantiles: NDArray[np.floating], levels: Sequence[float], orders_per_driver: float) -> Need:
        """From quantiles of orders (…, levels)."""
        none = quantiles < min(NO_ORDER, NO_WORK * orders_per_driver)
        drivers = np.moveaxis(np.where(none, 0.0, quantiles.astype(float)), -1, 0) / orders_per_driver
        lowest = np.maximum(drivers[0] - _tail_reach(levels[0], levels[1]) * (drivers[1] - drivers[0]), 0)
        highest = drivers[-1] + _tail_reach(1 - levels[-1], 1 - levels[-2]) * (drivers[-1] - drivers[-2])
        return cls(np.round(np.concatenate([[lowest], drivers, [highest]]), DIGITS), (0.0, *levels, 1.0))

    def at(self, cells: NDArray[np.intp]) -> Need:
        """Of some of the days, by their place when all are put in one row."""
        return Need(self.knots.reshape(len(self.knots), -1)[:, cells], self.levels)

    def level(self, ratio: float) -> Doubles:
        """The quantiles at one level."""
        right = int(np.clip(np.searchsorted(self.levels, ratio), 1, len(self.levels) - 1))
        share = (ratio - self.levels[right - 1]) / (self.levels[right] - self.levels[right - 1])
        quantiles: Doubles = np.round(self.knots[right - 1] * (1 - share) + self.knots[right] * share, DIGITS)
        return quantiles

    def suffices(self, crew: Ints) -> Doubles:
        """P(N ≤ crew)."""
        probability = np.zeros(np.broadcast_shapes(crew.shape, self.knots.shape[1:]))
        for left, right, low, high in self._pieces():
            width = right - left
            along = np.divide(crew - left, width, out=(crew >= right).astype(float), where=width > 0)
            probability += (high - low) * np.clip(along, 0, 1)
        return probability

    def idle(self, crew: Ints | Doubles) -> Doubles:
        """E(crew - N)+, exactly: the sum of P(N ≤ k) over all k below the crew, piece by piece an arithmetic series."""
        expected: Doubles = np.maximum(crew - np.ceil(self.knots[-1]), 0.0)
        for left, right, low, high in self._pieces():
            first, last = np.ceil(left), np.minimum(np.ceil(right), crew)  # whole numbers from first to before last
            count = np.maximum(last - first, 0)
            beyond = count * ((first + last - 1) / 2 - left)  # what they lie beyond the left end, together
            width = right - left
            expected += low * count + (high - low) * np.divide(
                beyond, width, out=np.zeros_like(expected), where=width > 0
            )
        return expected

    @property
    def mean(self) -> Doubles:
        """E(N)."""
        enough = np.ceil(self.knots[-1])
        expected: Doubles = enough - self.idle(enough)
        return expected

    def cost(self, crew: Ints, staffing: Staffing) -> Doubles:
        """G(crew): what this many drivers are expected to cost in missing and idle ones."""
        idle = self.idle(crew)
        bill = staffing.cost_short * (self.mean - crew + idle) + staffing.cost_idle * idle
        expected: Doubles = np.maximum(bill, 0)  # not -1e-14
        return expected

    def _pieces(self) -> zip[tuple[Doubles, Doubles, float, float]]:
        return zip(self.knots[:-1], self.knots[1:], self.levels[:-1], self.levels[1:], strict=True)


def cheapest_crew(need: Need, open_: Bools, staffing: Staffing) -> Ints:
    """The cheapest crew of each open day within the limits of `staffing.crew`, none on closed days."""
    desired = np.ceil(need.level(staffing.cost_short / (staffing.cost_short + staffing.cost_idle)))
    return within_limits(desired, open_, staffing)


def within_limits(desired: NDArray[np.floating], open_: Bools, staffing: Staffing) -> Ints:
    """Crews within the declared limits; since cost is convex, the nearest one allowed is the cheapest one allowed."""
    limits = staffing.crew
    return np.where(open_, np.clip(desired, limits.min, limits.max), 0).astype(np.int32)


def roster(forecast: Forecast, staffing: Staffing, fleet: vans.VanPool | None = None) -> Roster:
    """The cheapest roster of all depots under the declared limits and, with a fleet, the vans that there are."""
    need = Need.of(forecast.quantiles, forecast.levels, staffing.orders_per_driver)
    drivers = cheapest_crew(need, forecast.open, staffing)
    placed: Ints | None = None
    loans: tuple[Loan, ...] = ()
    if fleet is not None:
        drivers, placed, loans = limit_to_vans(drivers, need, staffing, fleet)
    limits, nan = staffing.crew, np.full(drivers.shape, np.nan)
    more, fewer = need.cost(drivers + 1, staffing), need.cost(np.maximum(drivers - 1, 0), staffing)
    may_fall = forecast.open & (drivers > limits.min)
    may_rise = forecast.open & (drivers < (np.inf if limits.max is None else limits.max))
    return Roster(
        drivers,
        placed,
        np.where(forecast.open, np.clip(1 - need.suffices(drivers), 0, 1), 0.0),
        np.where(forecast.open, need.cost(drivers, staffing), 0.0),
        np.where(may_rise, more, nan),
        np.where(may_fall, fewer, nan),
        loans,
    )


def limit_to_vans(
    desired: Ints, need: Need, staffing: Staffing, fleet: vans.VanPool
) -> tuple[Ints, Ints, tuple[Loan, ...]]:
    """The crews (depots, horizon) that the fleet can carry at least expected cost, their vans, and what is lent.

    The first `crew.min` drivers of a depot come before any other depot's further ones.
    """
    cells = np.arange(desired.size).reshape(desired.shape)

    def saving(depot: NDArray[np.intp], day: int, van: Ints) -> Doubles:
        needs, full = need.at(cells[depot, day]), desired[depot, day]
        before = np.minimum(van * fleet.drivers_per_van, full)
        after = np.minimum(before + fleet.drivers_per_van, full)
        first = (before < staffing.crew.min) * vans.FIRST_VAN_BONUS
        gained: Doubles = needs.cost(before, staffing) - needs.cost(after, staffing) + first
        return gained

    placed = fleet.allocate(-(-desired // fleet.drivers_per_van), saving)
    return np.minimum(desired, placed * fleet.drivers_per_van), placed, fleet.loans(placed)


def _tail_reach(outer: float, inner: float) -> float:
    """How far the tail beyond the outer level goes, as a multiple of the step between the two outermost quantiles."""
    normal = NormalDist()
    first, second = normal.inv_cdf(outer), normal.inv_cdf(inner)
    mean = -normal.pdf(first) / outer  # of a standard normal below its `outer` quantile
    return 2 * (first - mean) / (second - first)
