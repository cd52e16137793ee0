"""Lending rule: no depot lends a van to one that even without it has a larger share of its need.

A depot with fewer vans than its own lends, one with more borrows. A lender that is short may envy a
borrower only by the borrower's last van: weighted envy-freeness up to one item (Budish 2011, "The
combinatorial assignment problem", Journal of Political Economy 119; Chakraborty, Igarashi,
Suksompong & Zick 2021, "Weighted envy-freeness in indivisible item allocation", ACM Transactions on
Economics and Computation 9). Without "up to one", a depot that owns and needs three vans could
hardly ever lend one, since two are only 0.67 of its need, whatever others lack.

Under the rule, each city has a share that every lender reaches, and that no borrower would exceed
without its last van. For a fixed share, each depot has a minimum and a maximum number of vans,
within which giving the next van to the best claim is optimal; so a city is solved by trying every
relevant share.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles, Ints

# limit of shares × claims of one city, with 16 to 256 shares; beyond it, evenly spaced shares are
# tried
MOST_TRIED = 100_000
LEAST_NEED = 0.001  # vans; a depot without need has a very large share
_ALMOST = 1e-9


@dataclass(frozen=True)
class DepotVans:
    """Depots on a day: vans at home, wanted vans, and vans needed by the work, in fractions."""

    home: Ints
    wanted: Ints
    need: Doubles

    def at(self, members: NDArray[np.intp]) -> DepotVans:
        return DepotVans(self.home[members], self.wanted[members], self.need[members])


def breaches(placed: Ints, depots: DepotVans, city: NDArray[np.intp]) -> dict[int, tuple[float, float]]:
    """Cities in which a lender is shorter than a borrower would be without its last van.

    Each maps to the smallest share of its lenders and the largest of its borrowers.
    """
    lends, borrows = (placed < depots.home) & (placed < depots.wanted), placed > depots.home
    cities = int(city.max(initial=-1)) + 1
    lowest, highest = np.full(cities, np.inf), np.full(cities, -np.inf)
    np.minimum.at(lowest, city[lends], placed[lends] / depots.need[lends])
    np.maximum.at(highest, city[borrows], (placed[borrows] - 1) / depots.need[borrows])
    unfair = np.flatnonzero(lowest < highest - _ALMOST)
    return {int(city): (float(lowest[city]), float(highest[city])) for city in unfair}


def best_bounds(
    depots: DepotVans,
    vans: int,
    depot: NDArray[np.intp],
    van: Ints,
    weights: Doubles,
    between: tuple[float, float] = (0.0, np.inf),
) -> tuple[Ints, Ints]:
    """Minimum and maximum vans of each depot that keep the rule and allow the largest worth for
    `vans` vans.

    `depot` and `van` are the city's claims, best first, and `weights` (claims, criteria) the worth
    of each, by criteria of decreasing priority. Only shares in `between`, the breach of an
    allocation with that many vans, matter: above it borrowers are not bound, below it lenders are
    not, and the other side is bound more.
    """
    most = int(np.clip(MOST_TRIED // max(len(depot), 1), 16, 256))
    low, high = bounds_by_share(depots, between, most)
    possible = low.sum(axis=1) <= vans
    low, high = low[possible], high[possible]
    forced = van < low[:, depot]
    optional = ~forced & (van < high[:, depot])
    free_vans = vans - low.sum(axis=1, keepdims=True)
    is_placed = forced | (optional & (np.cumsum(optional, axis=1) <= free_vans))
    best = largest(is_placed.astype(float) @ weights)
    return low[best], high[best]


def bounds_by_share(
    depots: DepotVans, between: tuple[float, float] = (0.0, np.inf), tried: int = 256
) -> tuple[Ints, Ints]:
    """Minimum and maximum vans (shares, depots) for each share that may separate lenders and
    borrowers."""
    shares = _shares(depots, *between)
    if len(shares) > tried:
        shares = shares[np.linspace(0, len(shares) - 1, tried).round().astype(int)]
    vans = shares[:, None] * depots.need
    to_lend, to_borrow = np.ceil(vans - _ALMOST), np.floor(vans + _ALMOST) + 1
    low = np.minimum(np.minimum(depots.home, depots.wanted), to_lend)
    high = np.minimum(np.maximum(depots.home, to_borrow), depots.wanted)
    return low.astype(np.int32), high.astype(np.int32)


def _shares(depots: DepotVans, least: float, most: float) -> Doubles:
    """All shares in a range at which a depot's bounds change, ascending."""
    counts = np.arange(depots.wanted.max(initial=0) + 1)
    of_all = (counts / depots.need[:, None])[counts <= depots.wanted[:, None]]
    shares: Doubles = np.unique(of_all[(of_all >= least - _ALMOST) & (of_all <= most + _ALMOST)])
    return shares


def largest(scores: Doubles) -> int:
    """Index of the lexicographically largest row, within a tolerance."""
    rows = np.arange(len(scores))
    for column in scores.T:
        best = column[rows].max()
        rows = rows[column[rows] >= best - _ALMOST * max(abs(best), 1)]
    return int(rows[0])
