"""Distribution of the number of drivers that days need, N = ceil(orders / orders_per_driver), from
published quantiles.

Orders are whole, and models never forecast exactly zero: a quantile of less than half an order
counts as no order, unless it is a substantial part of a driver's day.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Staffing
from forecaster.core.arrays import Doubles, Ints

NO_ORDER = 0.5  # orders; a smaller quantile counts as none,
NO_WORK = 0.05  # if it is also below this share of a driver's day
DIGITS = 6  # decimals of driver numbers: 30.000002 orders, a float32 artifact, are three drivers' work


@dataclass(frozen=True)
class Need:
    """Need for drivers, as piecewise linear quantile functions of orders / orders_per_driver.

    Beyond the outermost published levels they continue linearly to level 0 or 1, at the slope that
    gives the tail the mean of a normal through the quantiles of the two outermost levels; they
    never fall below 0.
    """

    knots: Doubles  # (levels + 2, …), ascending along the first axis
    levels: tuple[float, ...]  # of the knots, from 0 to 1

    @classmethod
    def of(cls, quantiles: NDArray[np.floating], levels: Sequence[float], orders_per_driver: float) -> Need:
        """Need from quantiles of orders (…, quantile levels)."""
        none = quantiles < min(NO_ORDER, NO_WORK * orders_per_driver)
        drivers = np.moveaxis(np.where(none, 0.0, quantiles.astype(float)), -1, 0) / orders_per_driver
        lowest = np.maximum(drivers[0] - _tail_reach(levels[0], levels[1]) * (drivers[1] - drivers[0]), 0)
        highest = drivers[-1] + _tail_reach(1 - levels[-1], 1 - levels[-2]) * (drivers[-1] - drivers[-2])
        return cls(np.round(np.concatenate([[lowest], drivers, [highest]]), DIGITS), (0.0, *levels, 1.0))

    def at(self, cells: NDArray[np.intp]) -> Need:
        """Select days by their index in the flattened array."""
        return Need(self.knots.reshape(len(self.knots), -1)[:, cells], self.levels)

    def level(self, ratio: float) -> Doubles:
        """Quantiles at one quantile level."""
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
        """E(crew - N)+, exactly: the sum of P(N ≤ k) over all k below the crew, an arithmetic
        series on each piece."""
        expected: Doubles = np.maximum(crew - np.ceil(self.knots[-1]), 0.0)
        for left, right, low, high in self._pieces():
            # the integers from `first` to before `last`
            first, last = np.ceil(left), np.minimum(np.ceil(right), crew)
            count = np.maximum(last - first, 0)
            # sum of their distances from the left end
            beyond = count * ((first + last - 1) / 2 - left)
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
        """G(crew): expected cost of missing and idle drivers."""
        idle = self.idle(crew)
        bill = staffing.cost_short * (self.mean - crew + idle) + staffing.cost_idle * idle
        expected: Doubles = np.maximum(bill, 0)  # avoids -1e-14
        return expected

    def _pieces(self) -> zip[tuple[Doubles, Doubles, float, float]]:
        return zip(self.knots[:-1], self.knots[1:], self.levels[:-1], self.levels[1:], strict=True)


def _tail_reach(outer: float, inner: float) -> float:
    """Length of the tail beyond the outer level, as a multiple of the distance between the two
    outermost quantiles."""
    normal = NormalDist()
    first, second = normal.inv_cdf(outer), normal.inv_cdf(inner)
    mean = -normal.pdf(first) / outer  # of a standard normal below its `outer` quantile
    return 2 * (first - mean) / (second - first)
