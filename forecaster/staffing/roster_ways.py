"""Rosters of past days and their bills, by shift: ours, and those of rivals without a cost model.

A day without declared shifts is one shift with all of its orders. A rival wants a fractional number
of drivers on a day. Each shift gets its share of them, rounded up as in our rosters. If a limit or
the vans exclude some, shifts lose drivers in proportion: the last in the order of (k - 1/2) / n go
first, for the k-th of n drivers of a shift, which is Webster's method of apportioning seats.
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
    """Account of crews on past days, (depots, days); NaN if the orders are unknown."""

    cost: Doubles  # of missing and idle drivers
    short: Doubles  # missing drivers, over all shifts
    idle: Doubles  # surplus drivers

    @property
    def known(self) -> Bools:
        return np.isfinite(self.cost)


@dataclass(frozen=True)
class RosterWays:
    """Rosters of past days within declared limits and vans; crews are (shifts, depots, horizon)."""

    costs: Staffing
    fleet: VanPool | None
    learned: ShiftShares | None = None  # for the depots of all folds; None: shares are declared

    @classmethod
    def of_depots(
        cls, costs: Staffing, fleet: VanPool | None, depots: int, shares: ShiftShares | None = None
    ) -> RosterWays:
        """Build with the learned `shares` of shifts, or with the shares of their hours if nothing
        was learned."""
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
        """Drivers of each shift needed for the orders of a fold's days; NaN if these are unknown."""
        return self._by_shift(orders.astype(float) / self.costs.orders_per_driver, fold)

    def billed(self, crews: Ints, fold: Fold) -> Billed:
        """Account of crews against the actual orders of a fold."""
        missing = self.needed(fold.actuals, fold) - crews
        short, idle = np.maximum(missing, 0), np.maximum(-missing, 0)
        paid = self.costs.cost_short * short + self.costs.cost_idle * idle
        return Billed(paid.sum(axis=0), short.sum(axis=0), idle.sum(axis=0))

    def limited(self, need: Doubles, fold: Fold) -> Ints:
        """Crews for a fractional number of drivers per day (depots, horizon), within limits and
        vans.

        If there are too few vans, the next one goes to the depot with the smallest share of its
        wanted drivers.
        """
        open_ = fold.forecast.open
        by_shift = np.where(open_, np.maximum(self._by_shift(need, fold), 0), 0).astype(np.int32)
        crews = self._within_crew(by_shift, fold)
        if self.fleet is None:
            return crews
        sharing, total = self._in_proportion(crews), crews.sum(axis=0)
        desired_vans = sharing.wanted_vans.reshape(open_.shape)
        depots, days = open_.shape

        def claims(day: int) -> Claims:
            depot, van, before = sharing.carried_before(np.arange(depots) * days + day)
            tier = np.where(before < self.costs.crew.min, placing.FIRST, placing.FURTHER)
            return Claims(depot, van, tier, before / np.maximum(total[depot, day], 1), np.zeros(len(van)))

        usual = desired_vans.astype(float) if self.costs.shifts else total / self.fleet.drivers_per_van
        placed = self.fleet.allocate(desired_vans, usual, claims)
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
        """Drivers of crews in the order in which they are kept; vans are shared as in our rosters."""
        rows = []
        for place, crew in enumerate(crews.reshape(len(crews), -1)):
            cell, number = Claims.rows(crew)
            rows.append((cell, np.full(len(cell), place), number, -(number + 0.5) / crew[cell]))
        cell, shift, number, worth = (np.concatenate(column) for column in zip(*rows, strict=True))
        per_van = 1 if self.fleet is None else self.fleet.drivers_per_van
        return VanSharing.in_order(cell, shift, number, worth, self.costs.shifts, crews[0].size, per_van)

    def _within_crew(self, crews: Ints, fold: Fold) -> Ints:
        """Crews within `crew.min` and `crew.max`, which apply to their sum; drivers missing for
        `min` join the largest share."""
        limits, open_ = self.costs.crew, fold.forecast.open
        if limits.max is not None:
            crews = self._in_proportion(crews).first_of_each(limits.max).reshape(crews.shape)
        further = np.zeros_like(crews)
        largest = np.broadcast_to(self._shares(fold).argmax(axis=0), open_.shape)[None]
        missing = np.where(open_, np.maximum(limits.min - crews.sum(axis=0), 0), 0).astype(np.int32)
        np.put_along_axis(further, largest, missing[None], axis=0)
        return crews + further
