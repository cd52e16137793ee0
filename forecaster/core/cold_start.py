"""Guess the past that a depot does not have: its city's profile, at its own level as far as that is known.

A profile says of each day how the counts of the peers stood to their own recent level: the median over the peers, so
that one of them alone does not make it. The own level counts by its credibility (Bühlmann 1967, "Experience rating and
credibility"), in log counts: Z = n / (n + σ² / τ²), where n own days are known, σ² is the variance of a peer's day
about its profile, and τ² that of peers' levels about what their attributes let expect (`typical_level`), which makes up
the rest. What is left to doubt of the level is τ² (1 - Z), by which intervals are wider. How a weekday differs from the
profile counts the same way, by how peers differ there. Plain arrays (depots, days); unknown is NaN.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecaster.core.peer_levels import typical

MIN_HISTORY = 28  # known days with which a depot is no longer new
SETTLED = 84  # known days from which a depot's own past is all that a forecast needs: a season of its weekdays
ENOUGH = 7  # known days of late that tell a peer's level
NEEDED = 1.0  # own days after which the own level counts half, at most, however alike the peers are
WEEK = 7
RECENT = 4 * WEEK  # days before the cutoff that make a peer's level
CITY = 2  # peers that make a city's profile; with fewer all depots make it
PEERS = 1000  # that are asked, at most: enough for a median
TINY = 1e-12

_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]
_Bools = NDArray[np.bool_]


class Guess(NamedTuple):
    """Of the depots whose past is guessed, in their order."""

    rows: _Bools  # (depots,) which these are
    past: _Floats  # (guessed, days) counts on the unknown days before the first known one
    doubt: _Doubles  # (guessed,) standard deviation, in log counts, of what is not known of their level


def cold(demand: _Floats, open_: _Bools) -> _Bools:
    """Which depots are so new that a forecast rests on their peers, (depots,)."""
    few: _Bools = _known(demand, open_).sum(axis=1) < MIN_HISTORY
    return few


def guess(demand: _Floats, open_: _Bools, attributes: Mapping[str, Sequence[str]] | None = None) -> Guess:
    """What depots that have not settled yet may have had on the unknown days before their first known one; NaN
    elsewhere, and where more of the peers were closed than counted.

    `attributes` are words a depot, "" where one is not known; those of "city" also say whose profile it is. Peers are
    the settled depots; of a fleet of which most are younger, those that are not cold. Without any nothing is guessed,
    and nothing doubted.
    """
    known, attributes = _known(demand, open_), attributes or {}
    level = _level(demand, known)
    new = _unsettled(known, level > 0)
    found = Guess(new, np.full((int(new.sum()), demand.shape[1]), np.nan, np.float32), np.zeros(int(new.sum())))
    peers = ~new & (level > 0)
    if not new.any() or not peers.any():
        return found
    city = _groups(attributes.get("city"), peers)
    expected = typical(np.log1p(level), _thinned(np.flatnonzero(peers)), tuple(attributes.values()))
    for group in np.unique(city[new]):
        asked = _thinned(np.flatnonzero(peers & (city == group) if group >= 0 else peers))
        shape = _profile(demand[asked] / level[asked, None], known[asked], open_[asked])
        rows = city[new] == group
        own = np.flatnonzero(new)[rows]
        late = np.s_[asked, -RECENT:]
        missed = _missed(demand[late], known[late], level[asked, None] * shape[-RECENT:])
        trust = _trust(known[own] & (shape > 0), missed, expected.variance)
        past = _expected(shape, demand[own], known[own], expected.level[own], trust, missed)
        found.past[rows] = _before(demand[own], known[own], past)
        found.doubt[rows] = np.sqrt(expected.variance * (1 - trust))
    return found


def _unsettled(known: _Bools, alive: _Bools) -> _Bools:
    """Whose past is guessed: the young depots', unless they are most of those that could be peers; `alive` ones can."""
    days = known.sum(axis=1)
    young, few = days < SETTLED, days < MIN_HISTORY
    new: _Bools = young if 2 * (alive & ~young).sum() >= (alive & ~few).sum() else few
    return new


def _trust(both: _Bools, missed: _Doubles, of_level: float) -> _Doubles:
    """How far each depot's own level is to be trusted, from 0 to 1, after the days that `both` it and its profile know;
    `missed` is by how much peers' days miss their profile."""
    of_day = float(np.nanmean(missed**2)) if np.isfinite(missed).any() else 0.0
    days = both.sum(axis=1)
    trust: _Doubles = days / (days + max(min(of_day / max(of_level, TINY), NEEDED), TINY))
    return trust


def _expected(
    shape: _Doubles, demand: _Floats, known: _Bools, typical_level: _Doubles, trust: _Doubles, missed: _Doubles
) -> _Doubles:
    """The counts to expect of each depot on each day, (depots, days): the profile at its level, with its weekdays."""
    both = known & (shape > 0)
    plain = _level_of(shape, typical_level, demand, both, trust)[:, None] * shape
    habit = _weekdays(_missed(demand, both, plain), _weeks_needed(missed))
    expected: _Doubles = np.expm1(np.log1p(plain) + habit)
    return expected


def widened(quantiles: _Floats, levels: Sequence[float], doubt: _Doubles) -> _Floats:
    """Quantiles of counts (depots, horizon, levels) as wide as two independent errors make them: that of the forecast,
    and the `doubt` (depots,) of the level, normal in log counts. Their distances to the median add up as squares."""
    log = np.log1p(quantiles.astype(np.float64))
    center = log[..., [levels.index(0.5)]]
    of_level = doubt[:, None, None] * np.array([NormalDist().inv_cdf(level) for level in levels])
    wide = center + np.sign(of_level) * np.hypot(log - center, of_level)
    closed = quantiles[..., [-1]] <= 0
    said = np.where(closed | (of_level == 0), quantiles, np.maximum(np.expm1(wide), 0.0))
    ordered: _Floats = np.maximum.accumulate(said, axis=-1).astype(np.float32)
    return ordered


def _known(demand: _Floats, open_: _Bools) -> _Bools:
    known: _Bools = np.isfinite(demand) & open_[:, : demand.shape[1]]
    return known


def _level(demand: _Floats, known: _Bools) -> _Doubles:
    """Mean of the known counts of the last days; NaN for a depot of which fewer than `ENOUGH` are known."""
    count = known[:, -RECENT:].sum(axis=1)
    total = np.sum(demand[:, -RECENT:], axis=1, where=known[:, -RECENT:], dtype=np.float64)
    level: _Doubles = np.where(count >= ENOUGH, total / np.maximum(count, 1), np.nan)
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


def _missed(demand: _Floats, known: _Bools, expected: _Doubles) -> _Doubles:
    """Log counts by which known days missed what was expected of them; NaN for others."""
    usable = known & np.isfinite(expected)
    return np.log1p(np.where(usable, demand, np.nan)) - np.log1p(np.where(usable, expected, np.nan))


def _weeks_needed(missed: _Doubles) -> float:
    """Weeks after which a depot's own weekdays count as much as the profile's: σ² / τ² of the peers, whose weekdays
    miss their profile by τ² and vary by σ² from week to week."""
    weeks = missed.shape[1] // WEEK
    by_week = missed[:, missed.shape[1] - weeks * WEEK :].reshape(len(missed), weeks, WEEK)
    count = np.isfinite(by_week).sum(axis=1)
    mean = np.nansum(by_week, axis=1) / np.maximum(count, 1)
    freedom = int((count[count > 0] - 1).sum())
    if freedom < 1:
        return np.inf
    of_week = float(np.nansum((by_week - mean[:, None]) ** 2)) / freedom
    of_weekday = float(np.mean(mean[count > 0] ** 2 - of_week / count[count > 0]))
    return of_week / of_weekday if of_weekday > 0 else np.inf


def _weekdays(missed: _Doubles, needed: float) -> _Doubles:
    """What each depot's weekdays are expected to miss the profile by, (depots, days)."""
    weekday = np.arange(missed.shape[1]) % WEEK
    found = np.zeros_like(missed)
    for day in range(WEEK):
        of_day = missed[:, weekday == day]
        count = np.isfinite(of_day).sum(axis=1)
        found[:, weekday == day] = (np.nansum(of_day, axis=1) / np.maximum(count + needed, TINY))[:, None]
    return found


def _level_of(shape: _Doubles, typical_level: _Doubles, demand: _Floats, both: _Bools, trust: _Doubles) -> _Doubles:
    """Each depot's level: the sum of its counts over that of the profile on the days that `both` know; between it and
    the one that is typical of it the logs are mixed, as far as it is to be trusted."""
    profile = np.sum(np.where(both, shape, 0), axis=1)
    own = np.sum(demand, axis=1, where=both, dtype=np.float64) / np.where(profile > 0, profile, 1)
    level: _Doubles = np.expm1(trust * np.log1p(own) + (1 - trust) * typical_level)
    return level


def _before(demand: _Floats, known: _Bools, expected: _Doubles) -> _Floats:
    """What is expected of the unknown days before each depot's first known one; NaN elsewhere."""
    first = np.where(known.any(axis=1), known.argmax(axis=1), known.shape[1])
    before = np.arange(known.shape[1]) < first[:, None]
    return np.where(before & np.isnan(demand), expected, np.nan).astype(np.float32)
