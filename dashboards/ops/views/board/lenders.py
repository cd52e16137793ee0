"""Depots that could lend a van to another for a day, by the same rules and prices as the nightly
van sharing.

A van moves only if the borrower's next driver saves more than the lender's last one (savings as in
`shortage`), the lender keeps its floor, and the lender is no shorter than the borrower. A van is
free if its driver is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dashboards.ops.views.attention import city_of
from dashboards.ops.views.board.prices import Prices
from forecaster.core.arrays import Doubles
from forecaster.ledger.publication import PublishedDay, PublishedDepot

ALMOST = 1e-6  # of money
Place = tuple[int, str]  # position of a day, and the city; the city is empty if vans may go anywhere


class VanLenders:
    """The possible lenders of a van on the days of given borrowers. Each lends one van a day."""

    def __init__(
        self, depots: Iterable[PublishedDepot], borrowers: Iterable[tuple[PublishedDepot, int]], costs: Prices
    ) -> None:
        """Group the lenders; `borrowers` are depots with positions of days."""
        self._costs = costs
        steps: dict[str, set[int]] = defaultdict(set)
        for depot, step in borrowers if costs.drivers_per_van else ():
            steps[self._scope(depot)].add(step)
        groups: dict[Place, list[tuple[str, PublishedDay]]] = defaultdict(list)
        for depot in depots if steps else ():
            city = self._scope(depot)
            for step in steps.get(city, ()):
                if self._may_lend(depot.days[step]):
                    groups[step, city].append((depot.depot_id, depot.days[step]))
        self._groups = {place: _LenderGroup.of(group, costs) for place, group in groups.items()}

    def best(self, borrower: PublishedDepot, step: int, most: float) -> tuple[str, float] | None:
        """Return the lender with the least cost, below `most`, and that cost, which is negative if
        it has a driver too many. None if there is no lender, or no van is needed."""
        day, group = borrower.days[step], self._groups.get((step, self._scope(borrower)))
        if group is None or day.roster is None or day.drivers is None or day.roster.vans is None:
            return None
        if self._costs.vans_used(day.drivers + 1) <= day.roster.vans:
            return None
        priced, vans = self._costs.of([day]), np.array([day.roster.vans], np.int32)
        return group.lend(borrower.depot_id, most, priced.next_saving[0], self._costs.van_shares(priced, vans)[0])

    def _scope(self, depot: PublishedDepot) -> str:
        vans = self._costs.staffing.vans
        return city_of(depot) if vans is not None and vans.home is not None else ""

    def _may_lend(self, day: PublishedDay) -> bool:
        """True if a van is free, or would be free with one driver fewer."""
        if not day.open or day.roster is None or not day.roster.vans or not day.drivers:
            return False
        return day.roster.one_fewer is not None and self._costs.vans_used(day.drivers - 1) < day.roster.vans


@dataclass(frozen=True)
class _LenderGroup:
    """Depots of one place on one day; arrays (depots,)."""

    depot_ids: NDArray[np.str_]
    cost: Doubles  # of lending a van; infinite below the floor, and once it is lent
    saving: Doubles  # of the driver who would lose the van, as in van sharing
    share: Doubles  # of the vans that its median needs, after lending one

    @classmethod
    def of(cls, group: Sequence[tuple[str, PublishedDay]], costs: Prices) -> _LenderGroup:
        days = [day for _, day in group]
        priced, rosters = costs.of(days), [day.roster for day in days if day.roster is not None]
        drivers, vans = np.array([day.drivers for day in days]), np.array([roster.vans for roster in rosters], np.int32)
        free = vans > np.array([costs.vans_used(count) for count in drivers.tolist()])
        cost = np.array([(roster.one_fewer or 0.0) - roster.cost for roster in rosters])
        cost = np.where(drivers - 1 >= priced.floors, cost, np.inf)
        return cls(
            np.array([depot_id for depot_id, _ in group]),
            np.where(free, 0.0, cost),
            np.where(free, -np.inf, priced.last_saving),
            np.where(free, np.inf, costs.van_shares(priced, vans - np.int32(1))),
        )

    def lend(self, borrower: str, most: float, saving: float, share: float) -> tuple[str, float] | None:
        """Return the cheapest lender to a depot, with its cost; marks its van as lent."""
        fair = (self.saving < saving - ALMOST) & (self.share >= share - ALMOST) & (self.depot_ids != borrower)
        cost = np.where(fair, self.cost, np.inf)
        place = int(cost.argmin())
        if not cost[place] < most:
            return None
        self.cost[place] = np.inf
        return str(self.depot_ids[place]), float(cost[place])
