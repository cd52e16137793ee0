"""Greedy allocation of a day's vans to the best claims.

The worth of a depot's claims falls from van to van, since its cost is convex in its crew. Giving
the next van to the best claim is then optimal under one common limit (Fox 1966, "Discrete
optimization via marginal analysis", Management Science 13) and under limits of cities within it,
which form a polymatroid (Federgruen & Groenevelt 1986, "The greedy procedure for resource
allocation problems", Operations Research 34). Vans stay in their city; those that belong to no
depot may go anywhere.

If that would make a depot lend to one that is less short, `lending` narrows the bounds of the
city's depots, and the vans are placed again. That is optimal for a single city; since cities share
the vans without a home, each narrowed city is then tried with a few more and a few fewer vans.
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

EXCHANGES = (-2, -1, 1, 2)  # additional vans tried for a narrowed city,
MOST_EXCHANGED = 50_000  # if narrowed cities × claims is at most this

# tiers of claims: all of an earlier tier come before any of a later one
FIRST, FLOOR, FURTHER = 0, 1, 2


@dataclass(frozen=True)
class Claims:
    """Claims of depots for the vans that they want on a day, one row per van.

    An earlier tier comes first; within it, the smaller `share`, then the larger `saving`. A depot's
    later vans never come before its earlier ones.
    """

    depot: NDArray[np.intp]
    van: Ints  # index among its depot's vans
    tier: NDArray[np.intp]
    # share of its need that the depot has without this van; 1 if irrelevant
    share: Doubles
    saving: Doubles

    @staticmethod
    def rows(vans: Ints) -> tuple[NDArray[np.intp], Ints]:
        """Depot and index of each van, for the numbers of wanted vans (depots,)."""
        return np.repeat(np.arange(len(vans)), vans), _counts(vans).astype(np.int32)

    @property
    def in_order(self) -> Claims:
        """Claims, best first; ties go to the earlier van, then to the earlier depot, so that the
        result is deterministic."""
        order = np.lexsort((self.depot, self.van, -self.saving, self.share, self.tier))
        return Claims(self.depot[order], self.van[order], self.tier[order], self.share[order], self.saving[order])

    @cached_property
    def weights(self) -> Doubles:
        """Weights of each row, by criteria of decreasing priority: vans of the first tiers, even
        shares, savings."""
        columns = (self.tier == FIRST, self.tier == FLOOR, 1 - self.share, self.saving)
        return np.stack(columns, axis=1).astype(float)

    def worth(self, placed: Ints) -> Doubles:
        """Sums of `weights` over the vans that depots (depots,) have."""
        total: Doubles = self.weights[self.van < placed[self.depot]].sum(axis=0)
        return total


@dataclass(frozen=True)
class VanDay:
    """A day's claims, best first, the number of vans, and each depot's city.

    `lenders` is False if no van belongs to a depot, so that nobody can lend.
    """

    claims: Claims
    total: int
    city: NDArray[np.intp]
    depots: DepotVans
    lenders: bool

    def place(self) -> Ints:
        """Allocate the vans, (depots,)."""
        low, high = np.zeros_like(self.depots.wanted), self.depots.wanted.copy()
        placed = self._greedy(low, high)
        narrowed: list[int] = []
        # Bounds hold for any later number of vans of the city, so each city is narrowed once.
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
        """Claims of each city's depots."""
        return members(self.city[self.claims.depot], self._cities)

    @property
    def _cities(self) -> int:
        return int(self.city.max(initial=0)) + 1

    def _narrow(self, low: Ints, high: Ints, city: int, vans: int, breach: tuple[float, float] = (0.0, np.inf)) -> None:
        """Write the bounds of a city's depots, if it has `vans` vans, into `low` and `high`."""
        members, of_city = self._members[city], self._rows[city]
        depot = np.searchsorted(members, self.claims.depot[of_city])
        low[members], high[members] = lending.best_bounds(
            self.depots.at(members), vans, depot, self.claims.van[of_city], self.claims.weights[of_city], breach
        )

    def _exchange(self, placed: Ints, low: Ints, high: Ints, narrowed: Sequence[int]) -> Ints:
        """Return this allocation, or a better one in which a narrowed city has a few more or fewer
        vans."""
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
        """Vans of each depot, within its bounds."""
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
    """Indexes of each group's members, in order."""
    places: list[NDArray[np.intp]] = np.split(
        np.argsort(group, kind="stable"), np.cumsum(np.bincount(group, minlength=groups))[:-1]
    )
    return places


def ranks(group: NDArray[np.intp]) -> NDArray[np.intp]:
    """Number of earlier entries of the same group, for each entry."""
    order = np.argsort(group, kind="stable")
    sizes = np.bincount(group)
    starts = np.repeat(np.cumsum(sizes) - sizes, sizes)
    ranks = np.empty(len(group), np.intp)
    ranks[order] = np.arange(len(group)) - starts
    return ranks


def _counts(sizes: Ints) -> NDArray[np.intp]:
    """0, 1, 2, … for each of several consecutive groups."""
    counts: NDArray[np.intp] = np.arange(int(sizes.sum())) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return counts
