"""The fleet: the location of vans on each day, and loans between depots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Vans
from forecaster.core.arrays import Doubles, Ints
from forecaster.errors import SpecError
from forecaster.staffing import placing
from forecaster.staffing.lending import LEAST_NEED, DepotVans
from forecaster.staffing.placing import Claims, VanDay


@dataclass(frozen=True, order=True)
class Loan:
    """Vans placed at another depot of the city for a day; positions of depots and of the day."""

    day: int
    lender: int
    borrower: int
    vans: int


@dataclass(frozen=True)
class VanPool:
    """The fleet: the number of vans, and their home depots."""

    total: int
    city: NDArray[np.intp]  # (depots,), numbers from 0
    home: Ints | None = None  # (depots,) vans at home; None: no van belongs to a depot
    drivers_per_van: int = 1
    city_names: tuple[str, ...] = ()  # by number; empty: unnamed

    @classmethod
    def of(cls, declared: Vans, attributes: Mapping[str, Sequence[str]], depots: int) -> VanPool:
        """Fleet of depots with these attributes; an empty home has no vans.

        Raises SpecError if a home is not a whole number.
        """
        names, cities = np.unique(attributes.get("city", ("",) * depots), return_inverse=True)
        home = None
        if declared.home is not None:
            values = attributes.get(declared.home, ("",) * depots)
            home = np.array([_whole_number(word, declared.home) for word in values], np.int32)
        return cls(declared.total, cities.astype(np.intp), home, declared.drivers_per_van, tuple(names.tolist()))

    def allocate(self, desired_vans: Ints, need: Doubles, claims: Callable[[int], Claims]) -> Ints:
        """Number of vans at each depot on each day, (depots, days), at most those wanted.

        `need` are the vans needed by a day's work, in fractions, by which shares are compared, and
        `claims` are those of a day.
        """
        home = np.zeros(len(self.city), np.int32) if self.home is None else self.home
        need = np.maximum(need, LEAST_NEED)

        def place(day: int) -> Ints:
            depots = DepotVans(home, desired_vans[:, day], need[:, day])
            return VanDay(claims(day).in_order, self.total, self.city, depots, self.home is not None).place()

        return np.stack([place(day) for day in range(desired_vans.shape[1])], axis=1)

    def loans(self, placed: Ints) -> tuple[Loan, ...]:
        """Loans within each city and day, from depots that need fewer vans than they own to those
        that have more than they own.

        The remainder is not a loan: it comes from the vans without a home.
        """
        if self.home is None:
            return ()
        loans: list[Loan] = []
        for day in range(placed.shape[1]):
            spare = self.home - placed[:, day]
            givers, takers = (self._repeat_by_count(np.maximum(sign * spare, 0)) for sign in (1, -1))
            pairs, count = np.unique(_same_city(givers, takers, self.city), axis=0, return_counts=True)
            loans += [Loan(day, int(a), int(b), int(n)) for (a, b), n in zip(pairs, count, strict=True)]
        return tuple(loans)

    def _repeat_by_count(self, counts: NDArray[Any]) -> NDArray[np.intp]:
        """Array of depots, each repeated by its count, city by city, largest of a city first, so
        that few pairs are split."""
        order = np.lexsort((-counts, self.city))
        return np.repeat(order, counts[order])


def _same_city(givers: NDArray[np.intp], takers: NDArray[np.intp], city: NDArray[np.intp]) -> NDArray[np.intp]:
    """Pairs of the k-th giver and the k-th taker of each city, (pairs, 2); both arrays are sorted
    by city."""
    giver_keys, taker_keys = (
        city[row] * (len(givers) + len(takers)) + placing.ranks(city[row]) for row in (givers, takers)
    )
    _, left, right = np.intersect1d(giver_keys, taker_keys, assume_unique=True, return_indices=True)
    return np.stack([givers[left], takers[right]], axis=1)


def _whole_number(word: str, name: str) -> int:
    try:
        number = float(word or 0)
    except ValueError:
        number = -1.0
    if not (number >= 0 and number.is_integer()):
        raise SpecError(f"staffing.vans.home: found {word!r} in the depots' column '{name}', wanted a number of vans")
    return int(number)
