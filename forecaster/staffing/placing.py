"""Greedy allocation of a day's vans to the worthiest claims.

A depot's claims lose worth from van to van, since its cost is convex in its crew. Giving the next
van to the worthiest claim is then optimal under one common limit (Fox 1966, "Discrete optimization
via marginal analysis", Management Science 13) and under limits of cities within it, which form a
polymatroid (Federgruen & Groenevelt 1986, "The greedy procedure for resource allocation problems",
Operations Research 34). Vans stay in their city; those that belong to no depot may go anywhere.

Where that would have a depot lend that is shorter than who borrows, `lending` narrows what the
depots of the city may have, and the vans are placed again. That is optimal for a city by itself;
since cities share the vans without a home, each that was narrowed is then tried with a few more and
a few fewer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles, Ints
from forecaster.staffing import lending
from forecaster.staffing.lending import DepotVans

EXCHANGES = (-2, -1, 1, 2)  # vans more or fewer that a narrowed city is tried with,
MOST_EXCHANGED = 50_000  # where narrowed cities by claims are no more than this

# the tiers of claims: nobody has one of a later tier before all of an earlier
FIRST, FLOOR, FURTHER = 0, 1, 2


@dataclass(frozen=True)
class Claims:
    """Claims of depots for the vans that they want on a day, a row for each van.

    An earlier tier comes first; within it, the smaller `share`, then the larger `saving`. A depot's
    later vans never come before its earlier ones.
    """

    depot: NDArray[np.intp]
    van: Ints  # of its depot, from 0
    tier: NDArray[np.intp]
    # of what it needs that the depot has without this van; 1 where that does not count
    share: Doubles
    saving: Doubles

    @staticmethod
    def rows(wanted: Ints) -> tuple[NDArray[np.intp], Ints]:
        """The depot and the number of each van, for so many vans wanted (depots,)."""
        return np.repeat(np.arange(len(wanted)), wanted), _counts(wanted).astype(np.int32)

    @property
    def in_order(self) -> Claims:
        """The worthiest first. The first of equals is the depot's earlier van, then the earlier
        depot: the same answer every time."""
        order = np.lexsort((self.depot, self.van, -self.saving, self.share, self.tier))
        return Claims(self.depot[order], self.van[order], self.tier[order], self.share[order], self.saving[order])

    @cached_property
    def weights(self) -> Doubles:
        """Weights of each row, by criteria of falling importance: vans of the first tiers, even
        shares, savings."""
        columns = (self.tier == FIRST, self.tier == FLOOR, 1 - self.share, self.saving)
        return np.stack(columns, axis=1).astype(float)

    def worth(self, placed: Ints) -> Doubles:
        """The sums of `weights` over the vans that depots (depots,) have."""
        total: Doubles = self.weights[self.van < placed[self.depot]].sum(axis=0)
        return total


@dataclass(frozen=True)
class VanDay:
    """A day's claims, the worthiest first, on so many vans, and each depot's city.

    `lenders` is False where no van belongs to a depot, and nobody can lend.
    """

    claims: Claims
    total: int
    city: NDArray[np.intp]
    depots: DepotVans
    lenders: bool

    def place(self) -> Ints:
        """The vans of each depot, (depots,)."""
        low, high = np.zeros_like(self.depots.wanted), self.depots.wanted.copy()
        placed = self._greedy(low, high)
        narrowed: list[int] = []
        # Bounds hold for whatever number of vans comes to a city later, so each is narrowed once.
        while unfair := self._unfair(placed):
            for city, breach in unfair.items():
                self._narrow(low, high, city, self._vans_of(placed, city), breach)
            narrowed += unfair
            placed = self._greedy(low, high)
        return self._exchange(placed, low, high, narrowed)

    def _unfair(self, placed: Ints) -> dict[int, tuple[float, float]]:
        return lending.breaches(placed, self.depots, self.city) if self.lenders else {}

    def _vans_of(self, placed: Ints, city: int) -> int:
        return int(placed[self._members[city]].sum())

    @cached_property
    def _members(self) -> list[NDArray[np.intp]]:
        """The depots of each city."""
        return members(self.city, self._cities)

    @cached_property
    def _rows(self) -> list[NDArray[np.intp]]:
        """The claims of each city's depots."""
        return members(self.city[self.claims.depot], self._cities)

    @property
    def _cities(self) -> int:
        return int(self.city.max(initial=0)) + 1

    def _narrow(self, low: Ints, high: Ints, city: int, vans: int, breach: tuple[float, float] = (0.0, np.inf)) -> None:
        """Write what a city's depots may have, if it has so many vans, into `low` and `high`."""
        members, of_city = self._members[city], self._rows[city]
        depot = np.searchsorted(members, self.claims.depot[of_city])
        low[members], high[members] = lending.best_bounds(
            self.depots.at(members), vans, depot, self.claims.van[of_city], self.claims.weights[of_city], breach
        )

    def _exchange(self, placed: Ints, low: Ints, high: Ints, narrowed: Sequence[int]) -> Ints:
        """This placing, or a better one in which a narrowed city has a few vans more, or leaves a
        few to the others."""
        shared = self.total != int(self.depots.home.sum())
        for city in narrowed if shared and len(narrowed) * len(self.claims.depot) <= MOST_EXCHANGED else ():
            vans = self._vans_of(placed, city)
            for further in EXCHANGES:
                fewest, most = low.copy(), high.copy()
                self._narrow(fewest, most, city, max(vans + further, 0))
                other = self._greedy(fewest, most)
                if self._better(other, placed) and not self._unfair(other):
                    placed, low, high = other, fewest, most
        return placed

    def _better(self, placed: Ints, other: Ints) -> bool:
        pair = np.stack([self.claims.worth(other), self.claims.worth(placed)])
        return lending.largest(pair) == 1

    def _greedy(self, low: Ints, high: Ints) -> Ints:
        """The vans of each depot, from its fewest to its most."""
        depot, van = self.claims.depot, self.claims.van
        forced, optional = van < low[depot], (van >= low[depot]) & (van < high[depot])
        row = np.concatenate([depot[forced], depot[optional]])
        city_vans = by_city(self.depots.home, self.city)
        in_city = ranks(self.city[row]) < city_vans[self.city[row]]
        at_home, rest = row[in_city][: self.total], row[~in_city][: max(self.total - int(city_vans.sum()), 0)]
        placed: Ints = np.bincount(np.concatenate([at_home, rest]), minlength=len(low)).astype(np.int32)
        return placed


def by_city(counts: Ints, city: NDArray[np.intp]) -> Ints:
    """Sums over the depots of each city, (cities, …)."""
    sums: Ints = np.zeros((int(city.max(initial=0)) + 1, *counts.shape[1:]), np.int32)
    np.add.at(sums, city, counts)
    return sums


def members(group: NDArray[np.intp], groups: int) -> list[NDArray[np.intp]]:
    """The places of each group's members, in their order."""
    places: list[NDArray[np.intp]] = np.split(
        np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=groups))[:-1]
    )
    return places


def ranks(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number of earlier entries of the same group."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    ranks = np.empty(len(group), np.intp)
    ranks[order] = np.arange(len(group)) - starts
    return ranks


def _counts(sizes: Ints) -> NDArray[np.intp]:
    """0, 1, 2, … for each of several groups that lie one after the other."""
    counts: NDArray[np.intp] = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return counts
