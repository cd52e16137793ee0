"""Greedy allocation of vans by marginal savings, and who lends them to whom.

A depot's expected cost is convex in its crew, so what each further van saves only falls. Giving the next van to the
depot where it saves most is then optimal under one common limit (Fox 1966, "Discrete optimization via marginal
analysis", Management Science 13) and under limits of cities within it, which form a polymatroid (Federgruen &
Groenevelt 1986, "The greedy procedure for resource allocation problems", Operations Research 34). Vans stay in their
city; those that belong to no depot may go anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Vans
from forecaster.core.arrays import Ints
from forecaster.errors import SpecError

FIRST_VAN_BONUS = 1e12  # more than any van saves: those that the smallest crews need come first

Saving = Callable[[NDArray[np.intp], int, Ints], NDArray[np.float64]]
"""What a depot's van, counted from 0, saves on a day given those before it: (depots, day, vans) → savings."""


@dataclass(frozen=True, order=True)
class Loan:
    """Vans that stand at another depot of the city for a day; positions of depots and of the day."""

    day: int
    lender: int
    borrower: int
    vans: int


@dataclass(frozen=True)
class VanPool:
    """The fleet: how many vans there are, and where they are at home."""

    total: int
    city: NDArray[np.intp]  # (depots,), numbers from 0
    home: Ints | None = None  # (depots,) vans at home; None = no van belongs to a depot
    drivers_per_van: int = 1

    @classmethod
    def of(cls, declared: Vans, attributes: Mapping[str, Sequence[str]], depots: int) -> VanPool:
        """The fleet of depots with these attributes; an empty home has no vans.

        Raises SpecError where a home is no whole number.
        """
        cities = np.unique(attributes.get("city", ("",) * depots), return_inverse=True)[1]
        home = None
        if declared.home is not None:
            words = attributes.get(declared.home, ("",) * depots)
            home = np.array([_whole_number(word, declared.home) for word in words], np.int32)
        return cls(declared.total, cities.astype(np.intp), home, declared.drivers_per_van)

    def allocate(self, desired: Ints, saving: Saving) -> Ints:
        """How many vans stand at each depot on each day, (depots, days), at most those wanted."""
        return np.stack([self._allocate_day(desired[:, day], day, saving) for day in range(desired.shape[1])], axis=1)

    def loans(self, placed: Ints) -> tuple[Loan, ...]:
        """Within each city and day, vans of depots that need fewer than they own, at those that have more than they
        own; what is not covered so is lent by nobody: it came from the vans without a home."""
        if self.home is None:
            return ()
        loans: list[Loan] = []
        for day in range(placed.shape[1]):
            spare = self.home - placed[:, day]
            givers, takers = (self._repeat_by_count(np.maximum(sign * spare, 0)) for sign in (1, -1))
            pairs, count = np.unique(_same_city(givers, takers, self.city), axis=0, return_counts=True)
            loans += [Loan(day, int(a), int(b), int(n)) for (a, b), n in zip(pairs, count, strict=True)]
        return tuple(loans)

    def _allocate_day(self, desired: Ints, day: int, saving: Saving) -> Ints:
        depot = np.repeat(np.arange(len(desired)), desired)
        van = (np.arange(len(depot)) - np.repeat(np.cumsum(desired) - desired, desired)).astype(np.int32)
        # The first of equals is the depot's earlier van, then the earlier depot: the same answer every time.
        best = np.lexsort((depot, van, -saving(depot, day, van)))
        city_vans = self._vans_by_city()
        in_city = _ranks(self.city[depot[best]]) < city_vans[self.city[depot[best]]]
        first, rest = best[in_city][: self.total], best[~in_city][: max(self.total - int(city_vans.sum()), 0)]
        return np.bincount(depot[np.concatenate([first, rest])], minlength=len(desired)).astype(np.int32)

    def _vans_by_city(self) -> NDArray[np.intp]:
        """Vans at home in each city."""
        home = np.zeros(len(self.city), np.int32) if self.home is None else self.home
        return np.bincount(self.city, weights=home, minlength=1).astype(np.intp)

    def _repeat_by_count(self, counts: NDArray[Any]) -> NDArray[np.intp]:
        """A row of depots, each as often as it counts, city by city, the largest of a city first: few pairs are split
        then."""
        order = np.lexsort((-counts, self.city))
        return np.repeat(order, counts[order])


def _same_city(givers: NDArray[np.intp], takers: NDArray[np.intp], city: NDArray[np.intp]) -> NDArray[np.intp]:
    """The k-th giver with the k-th taker of each city, (pairs, 2); both rows are city by city."""
    giver_keys, taker_keys = (city[row] * (len(givers) + len(takers)) + _ranks(city[row]) for row in (givers, takers))
    _, left, right = np.intersect1d(giver_keys, taker_keys, assume_unique=True, return_indices=True)
    return np.stack([givers[left], takers[right]], axis=1)


def _ranks(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """How many of the same group stand before each."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    ranks = np.empty(len(group), np.intp)
    ranks[order] = np.arange(len(group)) - starts
    return ranks


def _whole_number(word: str, name: str) -> int:
    try:
        number = float(word or 0)
    except ValueError:
        number = -1.0
    if not (number >= 0 and number.is_integer()):
        raise SpecError(f"staffing.vans.home: found {word!r} in the depots' column '{name}', wanted a number of vans")
    return int(number)
