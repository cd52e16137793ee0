"""Rosters of past days and their bills, by shift: ours, and those of rivals that have no model of
cost.

A day without declared shifts is one shift with all of its orders. A rival wants so many drivers on
a day, in fractions. Each shift gets its share of them, rounded up as in our rosters. Where a limit
or the vans leave some out, shifts lose drivers in proportion: the last in the order of (k - 1/2) /
n go first, for the k-th of n drivers of a shift, which is how Webster's method apportions seats.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from forecaster.config import Staffing
from forecaster.core.arrays import Bools, Doubles, Floats, Ints
from forecaster.core.forecast import Fold
from forecaster.plugins import plugin
from forecaster.staffing import placing, rosters
from forecaster.staffing.need import DIGITS
from forecaster.staffing.placing import Claims
from forecaster.staffing.shift_values import ShiftRoster, ShiftShares
from forecaster.staffing.van_sharing import VanSharing
from forecaster.staffing.vans import VanPool


@dataclass(frozen=True)
class Billed:
    """The account of crews on past days, (depots, days); NaN where the orders are not known."""

    cost: Doubles  # of missing and idle drivers
    short: Doubles  # drivers missing, over all shifts
    idle: Doubles  # drivers too many

    @property
    def known(self) -> Bools:
        return np.isfinite(self.cost)


@dataclass(frozen=True)
class RosterWays:
    """Rosters of past days within declared limits and vans; crews are (shifts, depots, horizon)."""

    costs: Staffing
    fleet: VanPool | None
    learned: ShiftShares | None = None  # of the depots of all folds; None: shares are declared

    @classmethod
    def of_depots(
        cls, costs: Staffing, fleet: VanPool | None, depots: int, shares: ShiftShares | None = None
    ) -> RosterWays:
        """With `shares` of shifts where these are learned, or the shares of their hours where
        nothing was learned."""
        if shares is None and costs.learns_shares:
            shares = plugin("shifts.shares").of_hours(costs, depots)
        return cls(costs, fleet, shares if costs.shifts else None)

    @property
    def hours(self) -> Doubles:
        """Hours of each shift on the clock, (shifts,)."""
        shifts = [shift.minutes / 60 for shift in self.costs.shifts]
        return np.array(shifts or [self.costs.shift_hours])

    def cheapest(self, fold: Fold) -> Ints:
        """Our crews."""
        roster = rosters.cheapest(fold.forecast, self.costs, self.fleet, self.learned)
        return roster.crews if isinstance(roster, ShiftRoster) else roster.drivers[None]

    def needed(self, orders: Floats | Doubles, fold: Fold) -> Doubles:
        """Drivers of each shift that the orders of a fold's days need; NaN where these are not
        known."""
        return self._by_shift(orders.astype(float) / self.costs.orders_per_driver, fold)

    def billed(self, crews: Ints, fold: Fold) -> Billed:
        """The account of crews against the actual orders of a fold."""
        missing = self.needed(fold.actuals, fold) - crews
        short, idle = np.maximum(missing, 0), np.maximum(-missing, 0)
        paid = self.costs.cost_short * short + self.costs.cost_idle * idle
        return Billed(paid.sum(axis=0), short.sum(axis=0), idle.sum(axis=0))

    def limited(self, need: Doubles, fold: Fold) -> Ints:
        """Crews for so many drivers a day, in fractions (depots, horizon), within limits and vans;
        where vans are too few, the next one goes to the depot with the smallest share of what it
        wants."""
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

        usual = wanted.astype(float) if self.costs.shifts else total / self.fleet.drivers_per_van
        placed = self.fleet.allocate(wanted, usual, claims)
        return sharing.crews(placed.ravel()).reshape(crews.shape)

    def _by_shift(self, need: Doubles, fold: Fold) -> Doubles:
        drivers: Doubles = np.ceil(np.round(need * self._shares(fold), DIGITS))
        return drivers

    def _shares(self, fold: Fold) -> Doubles:
        if not self.costs.shifts:
            return np.ones((1, 1, 1))
        shares: Doubles = plugin("shifts").day_shares(fold.forecast, self.costs, self.learned)
        return shares

    def _in_proportion(self, crews: Ints) -> VanSharing:
        """The drivers of crews in the order in which the last ones go first; vans are shared as
        ours are."""
        rows = []
        for place, crew in enumerate(crews.reshape(len(crews), -1)):
            cell, number = Claims.rows(crew)
            rows.append((cell, np.full(len(cell), place), number, -(number + 0.5) / crew[cell]))
        cell, shift, number, worth = (np.concatenate(column) for column in zip(*rows, strict=True))
        per_van = 1 if self.fleet is None else self.fleet.drivers_per_van
        return VanSharing.in_order(cell, shift, number, worth, self.costs.shifts, crews[0].size, per_van)

    def _within_crew(self, crews: Ints, fold: Fold) -> Ints:
        """Within `crew.min` and `crew.max`, which are of the sum; who is missing for `min` joins
        the largest share."""
        limits, open_ = self.costs.crew, fold.forecast.open
        if limits.max is not None:
            crews = self._in_proportion(crews).first_of_each(limits.max).reshape(crews.shape)
        further = np.zeros_like(crews)
        largest = np.broadcast_to(self._shares(fold).argmax(axis=0), open_.shape)[None]
        missing = np.where(open_, np.maximum(limits.min - crews.sum(axis=0), 0), 0).astype(np.int32)
        np.put_along_axis(further, largest, missing[None], axis=0)
        return crews + further
