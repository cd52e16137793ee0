"""Values of days with shifts: their rosters, and learned shares of a day's orders;
`staffing.shifts` makes them."""

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

FEW_DAYS = 7  # below which a depot takes the network's shares


@dataclass(frozen=True)
class ShiftShares:
    """The learned shares of all shifts, and from how much they were learned."""

    shares: Doubles  # (shifts, depots, 7), by weekday from Monday; they sum to 1 over shifts
    days: Ints  # (depots, 7): days of each depot and weekday from which they were learned

    def on(self, dates: Sequence[date]) -> Doubles:
        """Of days (shifts, depots, days)."""
        return self.shares[:, :, [day.weekday() for day in dates]]

    @property
    def of_network(self) -> Bools:
        """Marks depots that take the network's (depots,)."""
        return np.asarray(self.days.sum(axis=1) < FEW_DAYS, bool)

    @property
    def known(self) -> bool:
        """True if any day taught them; else they are those of the shifts' hours."""
        return bool(self.days.any())

    def published(self, names: Sequence[str], row: int, day: date) -> LearnedShares:
        """Published shares of a depot's day."""
        weekday = day.weekday()
        shares = [round(float(share), 4) for share in self.shares[:, row, weekday]]
        source = "hours" if not self.known else "network" if self.of_network[row] else "depot"
        days = int(self.days[row].sum()), int(self.days[row, weekday])
        return LearnedShares(tuple(zip(names, shares, strict=True)), source, *days)  # type: ignore[arg-type]


@dataclass(frozen=True, kw_only=True)
class ShiftRoster(Roster):
    """A roster whose days are sums of shifts; the chance to be short is that of any shift, as
    shifts move together."""

    names: tuple[str, ...]  # of the shifts
    crews: Ints  # (shifts, depots, horizon)
    needs: tuple[Need, ...]  # of each shift, of (depots, horizon)
    # for all drivers that are wanted, (depots, horizon); None = no vans are counted
    desired_vans: Ints | None = None
    shares: ShiftShares | None = None  # of the shifts; None = they are declared
    schedule: PublishedSchedule | None = None  # whose crews and premiums counted

    def savings(self, staffing: Staffing) -> tuple[list[Doubles], ...]:
        """Expected savings of each driver of each crew, the first one first: of each shift a list
        by depot and day. Missing drivers grow dearer, as they do where vans are scarce
        (`shortage`), so that none of a day is missing in vain while another day is full."""
        cells = np.arange(self.drivers.size)
        return tuple(
            np.split(shortage.driver_savings(crew.ravel(), need.at(cells), staffing), np.cumsum(crew.ravel())[:-1])
            for crew, need in zip(self.crews, self.needs, strict=True)
        )
