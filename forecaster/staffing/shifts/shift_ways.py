"""Rosters by shift of those who have no model of cost, for backtests of staffing costs beside ours.

Somebody wants so many drivers on a day, in fractions. Each shift then gets its declared share of them, rounded up, as
ours have it. Where a limit or the vans leave some out, shifts lose drivers in proportion: those go first who are the
last in the order of (k - 1/2) / n, for the k-th of n drivers of a shift, which is how Webster's method apportions
seats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecaster.config import Staffing
from forecaster.core.arrays import Doubles, Floats, Ints
from forecaster.core.forecast import Fold
from forecaster.staffing import placing
from forecaster.staffing.need import DIGITS
from forecaster.staffing.placing import Claims
from forecaster.staffing.shifts import shift_crews
from forecaster.staffing.shifts.shift_crews import VanSharing
from forecaster.staffing.shifts.shift_shares import ShiftShares
from forecaster.staffing.vans import VanPool


@dataclass(frozen=True)
class ShiftWays:
    """Rosters of days with shifts; crews are (shifts, depots, horizon)."""

    costs: Staffing
    fleet: VanPool | None
    learned: ShiftShares | None = None  # of the depots of all folds; None: shares are declared

    @property
    def hours(self) -> Doubles:
        """Of each shift on the clock, (shifts,)."""
        return np.array([shift_crews.clock_hours(shift) for shift in self.costs.shifts])

    def cheapest(self, fold: Fold) -> Ints:
        """Our crews."""
        return shift_crews.roster(fold.forecast, self.costs, self.fleet, self.learned).crews

    def needed(self, orders: Floats | Doubles, fold: Fold) -> Doubles:
        """Drivers of each shift that so many orders of a fold's days need; NaN where these are not known."""
        return self._by_shift(orders.astype(float) / self.costs.orders_per_driver, fold)

    def limited(self, need: Doubles, fold: Fold) -> Ints:
        """The crews of somebody who wants so many drivers on a day, in fractions (depots, horizon), within limits and
        vans; where vans are too few, the next goes to the depot that has the smallest share of what it wants."""
        open_ = fold.forecast.open
        by_shift = np.where(open_, np.maximum(self._by_shift(need, fold), 0), 0).astype(np.int32)
        crews = self._within_crew(by_shift, fold)
        if self.fleet is None:
            return crews
        sharing, total = self._in_proportion(crews), crews.sum(axis=0)
        wanted = sharing.wanted_vans.reshape(open_.shape)
        depots, days = open_.shape

        def claims(day: int) -> Claims:
            depot, van, before = sharing.carried_before(np.arange(depots) * days + day)
            tier = np.where(before < self.costs.crew.min, placing.FIRST, placing.FURTHER)
            return Claims(depot, van, tier, before / np.maximum(total[depot, day], 1), np.zeros(len(van)))

        placed = self.fleet.allocate(wanted, wanted.astype(float), claims)
        return sharing.crews(placed.ravel()).reshape(crews.shape)

    def _by_shift(self, need: Doubles, fold: Fold) -> Doubles:
        drivers: Doubles = np.ceil(np.round(need * self._shares(fold), DIGITS))
        return drivers

    def _shares(self, fold: Fold) -> Doubles:
        return shift_crews.day_shares(fold.forecast, self.costs, self.learned)

    def _in_proportion(self, crews: Ints) -> VanSharing:
        """The drivers of crews in the order in which the last ones go first; vans are shared as ours are."""
        rows = []
        for place, crew in enumerate(crews.reshape(len(crews), -1)):
            cell, number = Claims.rows(crew)
            rows.append((cell, np.full(len(cell), place), number, -(number + 0.5) / crew[cell]))
        cell, shift, number, worth = (np.concatenate(column) for column in zip(*rows, strict=True))
        per_van = 1 if self.fleet is None else self.fleet.drivers_per_van
        return VanSharing.in_order(cell, shift, number, worth, self.costs.shifts, crews[0].size, per_van)

    def _within_crew(self, crews: Ints, fold: Fold) -> Ints:
        """Within `crew.min` and `crew.max`, which are of the sum; who is missing for `min` joins the largest share."""
        limits, open_ = self.costs.crew, fold.forecast.open
        if limits.max is not None:
            crews = self._in_proportion(crews).first_of_each(limits.max).reshape(crews.shape)
        further = np.zeros_like(crews)
        largest = np.broadcast_to(self._shares(fold).argmax(axis=0), open_.shape)[None]
        missing = np.where(open_, np.maximum(limits.min - crews.sum(axis=0), 0), 0).astype(np.int32)
        np.put_along_axis(further, largest, missing[None], axis=0)
        return crews + further
