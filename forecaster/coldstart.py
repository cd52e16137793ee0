"""Guess the past that a depot does not have: its city's profile, at its own level as far as that is known.

A profile says of each day how the counts of the peers stood to their own recent level: the median over the peers, so
that one of them alone does not make it. Plain arrays (depots, days); unknown is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

MIN_HISTORY = 28  # known days from which a depot stands on its own
OWN = 7  # known days from which its own level holds alone
RECENT = 28  # days before the cutoff that make a peer's level
CITY = 2  # peers that make a city's profile; with fewer all depots make it
PEERS = 1000  # that are asked, at most: enough for a median

_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]
_Bools = NDArray[np.bool_]


def cold(demand: _Floats, open_: _Bools) -> _Bools:
    """Which depots have too few known days to stand on their own, (depots,)."""
    few: _Bools = _known(demand, open_).sum(axis=1) < MIN_HISTORY
    return few


def guess(demand: _Floats, open_: _Bools, cities: Sequence[str] | None = None) -> _Floats:
    """What the cold depots, in their order, may have had on the unknown days before their first known one; NaN
    elsewhere, and where more of the peers were closed than counted.

    `cities` names each depot's, "" where it is not known. Without any depot that stands on its own nothing is guessed.
    """
    known = _known(demand, open_)
    new = cold(demand, open_)
    found = np.full((int(new.sum()), demand.shape[1]), np.nan, np.float32)
    level = _level(demand, known)
    peers = ~new & (level > 0)
    if not new.any() or not peers.any():
        return found
    city = _groups(cities, peers)
    for group in np.unique(city[new]):
        asked = _thinned(np.flatnonzero(peers & (city == group) if group >= 0 else peers))
        shape = _profile(demand[asked] / level[asked, None], known[asked], open_[asked])
        rows = city[new] == group
        own = np.flatnonzero(new)[rows]
        found[rows] = _scaled(shape, float(np.median(level[asked])), demand[own], known[own])
    return found


def _known(demand: _Floats, open_: _Bools) -> _Bools:
    known: _Bools = np.isfinite(demand) & open_[:, : demand.shape[1]]
    return known


def _level(demand: _Floats, known: _Bools) -> _Doubles:
    """Mean of the known counts of the last days; NaN for a depot of which fewer than `OWN` are known."""
    count = known[:, -RECENT:].sum(axis=1)
    total = np.sum(demand[:, -RECENT:], axis=1, where=known[:, -RECENT:], dtype=np.float64)
    level: _Doubles = np.where(count >= OWN, total / np.maximum(count, 1), np.nan)
    return level


def _groups(cities: Sequence[str] | None, peers: _Bools) -> NDArray[np.intp]:
    """A number for each depot's city, -1 where it is not known or has too few peers."""
    if cities is None:
        return np.full(len(peers), -1)
    names, city = np.unique(np.asarray(cities, np.str_), return_inverse=True)
    enough = (np.bincount(city[peers], minlength=len(names)) >= CITY) & (names != "")
    return np.where(enough[city], city, -1)


def _thinned(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    if len(rows) <= PEERS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, PEERS).astype(np.intp)]


def _profile(relative: _Doubles, known: _Bools, open_: _Bools) -> _Doubles:
    """Median of the known values of each day, (days,)."""
    count = known.sum(axis=0)
    ordered = np.sort(np.where(known, relative, np.inf), axis=0)
    lower, upper = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(ordered) - 1)
    days = np.arange(len(count))
    usable = (count > 0) & (count >= (~open_[:, : len(count)]).sum(axis=0))
    middle = np.where(usable, ordered[lower, days], np.nan) + np.where(usable, ordered[upper, days], np.nan)
    return middle / 2


def _scaled(shape: _Doubles, typical: float, demand: _Floats, known: _Bools) -> _Floats:
    """The profile at each depot's level, on the unknown days before its first known one.

    The own level is the sum of its counts over that of the profile on the same days; with fewer than `OWN` of them,
    so much of the peers' typical level as there are days missing.
    """
    both = known & (shape > 0)
    days, profile = both.sum(axis=1), np.sum(np.where(both, shape, 0), axis=1)
    own = np.sum(demand, axis=1, where=both, dtype=np.float64) / np.where(days > 0, profile, 1)
    weight = np.minimum(days, OWN) / OWN
    level = weight * own + (1 - weight) * typical
    first = np.where(known.any(axis=1), known.argmax(axis=1), known.shape[1])
    before = np.arange(known.shape[1]) < first[:, None]
    return np.where(before & np.isnan(demand), level[:, None] * shape, np.nan).astype(np.float32)
