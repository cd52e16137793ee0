"""Values of days with shifts: their rosters, and learned shares of a day's orders;
`staffing.shifts` computes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from forecaster.config import Staffing
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.ledger.publication import LearnedShares
from forecaster.staffing import shortage
from forecaster.staffing.need import Need
from forecaster.staffing.newsvendor import PublishedSchedule, Roster

FEW_DAYS = 7  # days; a depot with fewer takes the network's shares


@dataclass(frozen=True)
class ShiftShares:
    """The learned shares of all shifts, and the size of their sample."""

    shares: Doubles  # (shifts, depots, 7), by weekday from Monday; they sum to 1 over shifts
    days: Ints  # (depots, 7): sample days of each depot and weekday

    def on(self, dates: Sequence[date]) -> Doubles:
        """Shares on these days, (shifts, depots, days)."""
        return self.shares[:, :, [day.weekday() for day in dates]]

    @property
    def of_network(self) -> Bools:
        """Mask of depots that take the network's shares, (depots,)."""
        return np.asarray(self.days.sum(axis=1) < FEW_DAYS, bool)

    @property
    def known(self) -> bool:
        """Return true if any day was learned from; otherwise shares follow the shifts' hours."""
        return bool(self.days.any())

    def published(self, names: Sequence[str], row: int, day: date) -> LearnedShares:
        """Published shares of a depot-day."""
        weekday = day.weekday()
        shares = [round(float(share), 4) for share in self.shares[:, row, weekday]]
        source = "hours" if not self.known else "network" if self.of_network[row] else "depot"
        days = int(self.days[row].sum()), int(self.days[row, weekday])
        return LearnedShares(tuple(zip(names, shares, strict=True)), source, *days)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class ShiftRoster(Roster):
    """A roster whose days are sums of shifts; the chance to be short is the maximum over shifts,
    since these move together."""

    names: tuple[str, ...]  # of the shifts
    crews: Ints  # (shifts, depots, horizon)
    needs: tuple[Need, ...]  # of each shift, of (depots, horizon)
    # for all wanted drivers, (depots, horizon); None: no vans are counted
    desired_vans: Ints | None = None
    shares: ShiftShares | None = None  # None: shares are declared
    schedule: PublishedSchedule | None = None  # schedule whose crews and premiums counted

    def savings(self, staffing: Staffing) -> tuple[list[Doubles], ...]:
        """Expected savings of each driver of each crew, the first one first: for each shift a list
        by depot and day.

        The cost of missing drivers grows as under scarce vans (`shortage`), so that missing drivers
        are spread over the days.
        """
        cells = np.arange(self.drivers.size)
        return tuple(
            np.split(shortage.driver_savings(crew.ravel(), need.at(cells), staffing), np.cumsum(crew.ravel())[:-1])
            for crew, need in zip(self.crews, self.needs, strict=True)
        )
