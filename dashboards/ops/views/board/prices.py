"""Prices of published crews by the declared costs, as in the nightly run: the cost of other crews,
and the savings that govern van sharing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from forecaster.config import Staffing
from forecaster.core.arrays import Doubles, Ints
from forecaster.ledger.publication import PublishedDay, PublishedRoster
from forecaster.plugins import plugin
from forecaster.staffing import newsvendor, shortage
from forecaster.staffing.lending import LEAST_NEED
from forecaster.staffing.need import DIGITS, Need
from forecaster.staffing.van_sharing import blocks


@dataclass(frozen=True)
class PricedCells:
    """Need and crew of open depot-days with a roster; a day without shifts is one shift."""

    staffing: Staffing
    day: Need  # of whole days, (cells,)
    needs: tuple[Need, ...]  # of each shift, (cells,)
    crews: Ints  # (shifts, cells)

    def cost(self, crews: Ints) -> Doubles:
        """Return the expected cost of other crews (shifts, cells), (cells,)."""
        costs = [need.cost(crew, self.staffing) for need, crew in zip(self.needs, crews, strict=True)]
        total: Doubles = np.sum(costs, axis=0)
        return total

    @property
    def least_cost(self) -> Doubles:
        """Expected cost of the cheapest crews, with vans and people for all of them, (cells,)."""
        is_open = np.ones(self.crews.shape[1], bool)
        if not self.staffing.shifts:
            return self.cost(newsvendor.cheapest_crew(self.day, is_open, self.staffing)[None])
        return self.cost(plugin("shifts").cheapest_crews(self.needs, is_open, self.staffing))

    @property
    def next_saving(self) -> Doubles:
        """Expected saving of one more driver under scarce vans, at the best shift, (cells,)."""
        saving: Doubles = self._last_savings(self.crews + np.int32(1)).max(axis=0)
        return saving

    @property
    def last_saving(self) -> Doubles:
        """Expected saving of the driver who saves least under scarce vans, (cells,)."""
        saving: Doubles = self._last_savings(self.crews).min(axis=0)
        return saving

    @property
    def floors(self) -> Doubles:
        """Drivers that no depot lends, (cells,)."""
        return shortage.floors(self.day, self.staffing)

    def _last_savings(self, crews: Ints) -> Doubles:
        """Return the saving of the last driver of each crew (shifts, cells); infinite for an empty
        crew."""
        rows = []
        for need, crew in zip(self.needs, crews, strict=True):
            savings = np.append(shortage.driver_savings(crew, need, self.staffing), np.inf)
            rows.append(savings[np.where(crew > 0, np.cumsum(crew) - 1, -1)])
        return np.stack(rows)


@dataclass(frozen=True)
class Prices:
    """Prices by the declared costs, of quantiles at `levels`."""

    levels: Sequence[float]
    staffing: Staffing

    @classmethod
    def of_roster(cls, roster: PublishedRoster, levels: Sequence[float], staffing: Staffing) -> Prices | None:
        """Return the prices for a publication with this roster; None if it was made with other
        declared shifts."""
        names, learned = sorted(shift.name for shift in staffing.shifts), roster.shares is not None
        is_declared = sorted(dict(roster.shifts)) == names and learned == staffing.learns_shares
        return cls(levels, staffing) if is_declared else None

    def of(self, days: Sequence[PublishedDay]) -> PricedCells:
        """Price one or more depot-days."""
        staffing, names = self.staffing, [shift.name for shift in self.staffing.shifts]
        day = Need.of(np.array([depot_day.quantiles for depot_day in days]), self.levels, staffing.orders_per_driver)
        if not names:
            return PricedCells(staffing, day, (day,), np.array([[depot_day.drivers for depot_day in days]], np.int32))
        rosters = [depot_day.roster for depot_day in days if depot_day.roster is not None]
        declared = {} if staffing.learns_shares else {shift.name: shift.declared_share for shift in staffing.shifts}
        of_days = [declared if roster.shares is None else dict(roster.shares.shares) for roster in rosters]
        shares = np.array([[of_day[name] for of_day in of_days] for name in names])
        needs = (Need(np.round(day.knots * share, DIGITS), day.levels) for share in shares / shares.sum(axis=0))
        crews = np.array([[dict(roster.shifts)[name] for roster in rosters] for name in names], np.int32)
        return PricedCells(staffing, day, tuple(needs), crews)

    def saving_of_more(self, day: PublishedDay, shift: str, drivers: int) -> float:
        """Return the expected saving of `drivers` more drivers at a declared shift of a depot-day."""
        cell = self.of([day])
        further = np.array(
            [[drivers if declared_shift.name == shift else 0] for declared_shift in self.staffing.shifts], np.int32
        )
        return float(cell.cost(cell.crews)[0] - cell.cost(cell.crews + further)[0])

    @cached_property
    def drivers_per_van(self) -> int | None:
        """Drivers per van on a day; None if vans are not counted, or only some shifts share them."""
        vans, shifts = self.staffing.vans, self.staffing.shifts
        if vans is None or vans.drivers_per_van == 1 or not shifts:
            return vans.drivers_per_van if vans else None
        return 1 if len(set(blocks(shifts))) == 1 else None

    def vans_used(self, drivers: int) -> float:
        """Return the vans needed by a number of drivers; infinite if unknown."""
        per_van = self.drivers_per_van
        return float("inf") if per_van is None else -(-drivers // per_van)

    def van_shares(self, cells: PricedCells, vans: Ints) -> Doubles:
        """Return the number of vans (cells,) as a share of those that the median needs, (cells,)."""
        shares: Doubles = vans / np.maximum(cells.day.level(0.5) / (self.drivers_per_van or 1), LEAST_NEED)
        return shares
