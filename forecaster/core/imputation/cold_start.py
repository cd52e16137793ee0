"""Cold start: guess the missing past of a new depot from its city's profile, at a level shrunken to
its peers'.

A profile has the counts of the peers on each day relative to their own recent level: the median
over the peers, so that no single peer determines it. A depot's own level counts by its credibility
(Bühlmann 1967, "Experience rating and credibility"), in log counts: Z = n / (n + σ² / τ²), where n
is the number of known own days, σ² the variance of a peer's day about its profile, and τ² the
variance of peers' levels about the levels expected from their attributes (`typical_levels`), which
make up the rest. The variance τ² (1 - Z) of the level remains; intervals are widened by it.
Deviations of a weekday from the profile are weighted in the same way, by the deviations of the
peers. Plain arrays (depots, days); unknown is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from forecaster.core.imputation.peer_levels import typical_levels

MIN_HISTORY = 28  # known days; a depot with fewer is cold
# known days from which a forecast needs only a depot's own past: a season of its weekdays
SETTLED = 84
ENOUGH = 7  # fewest recent known days for a peer's level
NEEDED = 1.0  # own days after which the own level counts at least half, however similar the peers are
WEEK = 7
RECENT = 4 * WEEK  # days before the cutoff that determine a peer's level
CITY = 2  # fewest peers for a city's profile; with fewer, all depots make it
PEERS = 1000  # largest number of sampled peers: enough for a median
TINY = 1e-12
EVERYONE = ""  # in place of a city that is unknown or has too few peers

_Floats = NDArray[np.float32]
_Doubles = NDArray[np.float64]
_Bools = NDArray[np.bool_]


class Guess(NamedTuple):
    """Imputed past of the depots whose past is guessed, in their order."""

    rows: _Bools  # (depots,) True for these depots
    past: _Floats  # (guessed, days) counts on the unknown days before the first known one
    # (guessed,) standard deviation, in log counts, of the unknown part of their level
    doubt: _Doubles


class DepotStanding(NamedTuple):
    """Number of known days and recent level of each depot, for the choice of peers."""

    days: NDArray[np.signedinteger[Any]]  # (depots,) number of known days
    level: _Doubles  # (depots,) mean of the recent counts; NaN if too few are known


class ChosenPeers(NamedTuple):
    """Positions of the peers of young depots."""

    limit: int  # known days; the past of a depot with fewer is guessed
    rows: NDArray[np.intp]  # peers from which levels are learned
    # peers from which profiles are learned; those of `EVERYONE` for cities with too few
    by_city: Mapping[str, NDArray[np.intp]]


class PeerProfile(NamedTuple):
    """Profile of the days of a city's depots."""

    shape: _Doubles  # (days,) relative to their own recent level
    residuals: _Doubles  # (peers, recent days) deviations from that, in log counts


class Peers(NamedTuple):
    """Peers from which the past of young depots is guessed."""

    limit: int  # known days; the past of a depot with fewer is guessed
    level: _Doubles  # (peers,)
    attributes: Mapping[str, tuple[str, ...]]  # values of the peers by attribute
    profiles: Mapping[str, PeerProfile]  # by city; empty: nothing is guessed


def cold_depots(demand: _Floats, open_: _Bools) -> _Bools:
    """Mark new depots whose forecast rests on their peers, (depots,)."""
    is_cold: _Bools = _known_days(demand, open_).sum(axis=1) < MIN_HISTORY
    return is_cold


def guess(
    demand: _Floats,
    open_: _Bools,
    attributes: Mapping[str, Sequence[str]] | None = None,
    peers: Peers | None = None,
) -> Guess:
    """Guess the counts of depots that have not settled yet on the unknown days before their first
    known one; NaN elsewhere, and on days on which more peers were closed than counted.

    `attributes` has one value per depot, "" if unknown; the values of "city" also select the
    profile. Peers are the settled depots or, in a fleet of mostly younger ones, those that are not
    cold. Without peers, nothing is guessed and the doubt is 0. `peers` are those of the whole
    network; if omitted, these depots are the whole network.
    """
    is_known, attributes = _known_days(demand, open_), attributes or {}
    peers = peers or _own_peers(demand, open_, attributes)
    is_new: _Bools = is_known.sum(axis=1) < peers.limit
    members = np.flatnonzero(is_new)
    guesses = Guess(is_new, np.full((len(members), demand.shape[1]), np.nan, np.float32), np.zeros(len(members)))
    if not len(members) or not peers.profiles:
        return guesses
    # All attributes determine the level, but only the city determines the shape of the days.
    labels = [
        (*of_peers, *(attributes[name][row] for row in members.tolist())) for name, of_peers in peers.attributes.items()
    ]
    log_level = np.concatenate([np.log1p(peers.level), np.zeros(len(members))])
    expected = typical_levels(log_level, np.arange(len(peers.level)), labels)
    typical = expected.level[len(peers.level) :]
    cities = np.array(attributes.get("city", ("",) * len(is_new)), object)[members]
    cities[~np.isin(cities, [*peers.profiles])] = EVERYONE
    for city, profile in peers.profiles.items():
        rows = np.asarray(cities == city, np.bool_)
        if not rows.any():
            continue
        of_city, shape, residuals = members[rows], profile.shape, profile.residuals
        trust = _trust(is_known[of_city] & (shape > 0), residuals, expected.variance)
        past = _expected_counts(shape, demand[of_city], is_known[of_city], typical[rows], trust, residuals)
        guesses.past[rows] = _guessed_past(demand[of_city], is_known[of_city], past)
        guesses.doubt[rows] = np.sqrt(expected.variance * (1 - trust))
    return guesses


def _own_peers(demand: _Floats, open_: _Bools, attributes: Mapping[str, Sequence[str]]) -> Peers:
    """Find the peers among the depots themselves."""
    history = depots_standing(demand, open_)
    selection = choose_peers(history, attributes.get("city"))
    return learn_peers(selection, history.level, attributes, lambda rows: (demand[rows], open_[rows]))


def depots_standing(demand: _Floats, open_: _Bools) -> DepotStanding:
    """Return the number of known days and the recent level of each depot, (depots,)."""
    return _standing(demand, _known_days(demand, open_))


def choose_peers(history: DepotStanding, cities: Sequence[str] | None) -> ChosenPeers:
    """Choose peers for young depots among all depots of a network; none if no depot is young or
    none is settled."""
    days, is_alive = history.days, history.level > 0
    young, few = days < SETTLED, days < MIN_HISTORY
    # The past of young depots is guessed, unless they are most of the possible peers.
    limit = SETTLED if 2 * (is_alive & ~young).sum() >= (is_alive & ~few).sum() else MIN_HISTORY
    is_new = days < limit
    peers = ~is_new & is_alive
    if not is_new.any() or not peers.any():
        return ChosenPeers(limit, np.zeros(0, np.intp), {})
    names, city = _groups(cities, peers)
    by_city = {
        str(names[group]) if group >= 0 else EVERYONE: _sample(
            np.flatnonzero(peers & (city == group) if group >= 0 else peers)
        )
        for group in np.unique(city[is_new])
    }
    return ChosenPeers(limit, _sample(np.flatnonzero(peers)), by_city)


def learn_peers(
    selection: ChosenPeers,
    level: _Doubles,
    attributes: Mapping[str, Sequence[str]],
    days_of: Callable[[NDArray[np.intp]], tuple[_Floats, _Bools]],
) -> Peers:
    """Learn the levels and profiles of the peers of young depots; `days_of` returns the counts and
    the open days of some depots."""
    profiles = {}
    for city, rows in selection.by_city.items():
        demand, open_ = days_of(rows)
        is_known, of_rows = _known_days(demand, open_), level[rows]
        shape = _profile(demand / of_rows[:, None], is_known, open_)
        recent = np.s_[:, -RECENT:]
        residuals = _residuals(demand[recent], is_known[recent], of_rows[:, None] * shape[-RECENT:])
        profiles[city] = PeerProfile(shape, residuals)
    labels = {name: tuple(of_depots[row] for row in selection.rows.tolist()) for name, of_depots in attributes.items()}
    return Peers(selection.limit, level[selection.rows], labels, profiles)


def _trust(both_known: _Bools, residuals: _Doubles, of_level: float) -> _Doubles:
    """Credibility of each depot's own level, from 0 to 1, from the number of days on which it and
    its profile are `both_known`; `residuals` are the deviations of peers' days from their profile,
    in log counts."""
    of_day = float(np.nanmean(residuals**2)) if np.isfinite(residuals).any() else 0.0
    days = both_known.sum(axis=1)
    trust: _Doubles = days / (days + max(min(of_day / max(of_level, TINY), NEEDED), TINY))
    return trust


def _expected_counts(
    shape: _Doubles, demand: _Floats, is_known: _Bools, typical_level: _Doubles, trust: _Doubles, residuals: _Doubles
) -> _Doubles:
    """Expected counts of each depot on each day, (depots, days): the profile at its level, with its
    weekdays."""
    both_known = is_known & (shape > 0)
    plain = _level_of(shape, typical_level, demand, both_known, trust)[:, None] * shape
    habit = _weekdays(_residuals(demand, both_known, plain), _weeks_needed(residuals))
    expected: _Doubles = np.expm1(np.log1p(plain) + habit)
    return expected


def widened_quantiles(quantiles: _Floats, levels: Sequence[float], doubt: _Doubles) -> _Floats:
    """Widen quantiles of counts (depots, horizon, levels) for two independent errors: that of the
    forecast, and the `doubt` (depots,) of the level, normal in log counts. Their distances to the
    median add up as squares."""
    log = np.log1p(quantiles.astype(np.float64))
    center = log[..., [levels.index(0.5)]]
    of_level = doubt[:, None, None] * np.array([NormalDist().inv_cdf(level) for level in levels])
    wide = center + np.sign(of_level) * np.hypot(log - center, of_level)
    closed = quantiles[..., [-1]] <= 0
    spread = np.where(closed | (of_level == 0), quantiles, np.maximum(np.expm1(wide), 0.0))
    ordered: _Floats = np.maximum.accumulate(spread, axis=-1).astype(np.float32)
    return ordered


def _known_days(demand: _Floats, open_: _Bools) -> _Bools:
    is_known: _Bools = np.isfinite(demand) & open_[:, : demand.shape[1]]
    return is_known


def _standing(demand: _Floats, is_known: _Bools) -> DepotStanding:
    return DepotStanding(is_known.sum(axis=1), _level(demand, is_known))


def _level(demand: _Floats, is_known: _Bools) -> _Doubles:
    """Mean of the recent known counts; NaN for a depot with fewer than `ENOUGH` of them."""
    count = is_known[:, -RECENT:].sum(axis=1)
    total = np.sum(demand[:, -RECENT:], axis=1, where=is_known[:, -RECENT:], dtype=np.float64)
    level: _Doubles = np.where(count >= ENOUGH, total / np.maximum(count, 1), np.nan)
    return level


def _groups(cities: Sequence[str] | None, peers: _Bools) -> tuple[NDArray[np.str_], NDArray[np.intp]]:
    """Return the names of cities, and each depot's index among them, -1 if its city is unknown or
    has too few peers."""
    if cities is None:
        return np.zeros(0, np.str_), np.full(len(peers), -1)
    names, city = np.unique(np.asarray(cities, np.str_), return_inverse=True)
    enough = (np.bincount(city[peers], minlength=len(names)) >= CITY) & (names != "")
    return names, np.where(enough[city], city, -1)


def _sample(rows: NDArray[np.intp]) -> NDArray[np.intp]:
    if len(rows) <= PEERS:
        return rows
    return rows[np.linspace(0, len(rows) - 1, PEERS).astype(np.intp)]


def _profile(relative: _Doubles, is_known: _Bools, open_: _Bools) -> _Doubles:
    """Median of the known values of each day, (days,)."""
    count = is_known.sum(axis=0)
    ordered = np.sort(np.where(is_known, relative, np.inf), axis=0)
    lower, upper = np.maximum(count - 1, 0) // 2, np.minimum(count // 2, len(ordered) - 1)
    days = np.arange(len(count))
    usable = (count > 0) & (count >= (~open_[:, : len(count)]).sum(axis=0))
    middle = np.where(usable, ordered[lower, days], np.nan) + np.where(usable, ordered[upper, days], np.nan)
    return middle / 2


def _residuals(demand: _Floats, is_known: _Bools, expected: _Doubles) -> _Doubles:
    """Deviations of known days from their expected counts, in log counts; NaN for other days."""
    usable = is_known & np.isfinite(expected)
    return np.log1p(np.where(usable, demand, np.nan)) - np.log1p(np.where(usable, expected, np.nan))


def _weeks_needed(residuals: _Doubles) -> float:
    """Weeks after which a depot's own weekdays count as much as the profile's: σ² / τ² of the
    peers, where τ² is the variance of their weekdays about their profile, and σ² the variance from
    week to week."""
    weeks = residuals.shape[1] // WEEK
    by_week = residuals[:, residuals.shape[1] - weeks * WEEK :].reshape(len(residuals), weeks, WEEK)
    count = np.isfinite(by_week).sum(axis=1)
    mean = np.nansum(by_week, axis=1) / np.maximum(count, 1)
    freedom = int((count[count > 0] - 1).sum())
    if freedom < 1:
        return np.inf
    of_week = float(np.nansum((by_week - mean[:, None]) ** 2)) / freedom
    of_weekday = float(np.mean(mean[count > 0] ** 2 - of_week / count[count > 0]))
    return of_week / of_weekday if of_weekday > 0 else np.inf


def _weekdays(residuals: _Doubles, needed: float) -> _Doubles:
    """Expected deviation of each depot's weekdays from the profile, (depots, days)."""
    weekday = np.arange(residuals.shape[1]) % WEEK
    effects = np.zeros_like(residuals)
    for day in range(WEEK):
        of_day = residuals[:, weekday == day]
        count = np.isfinite(of_day).sum(axis=1)
        effects[:, weekday == day] = (np.nansum(of_day, axis=1) / np.maximum(count + needed, TINY))[:, None]
    return effects


def _level_of(
    shape: _Doubles, typical_level: _Doubles, demand: _Floats, both_known: _Bools, trust: _Doubles
) -> _Doubles:
    """Level of each depot: the sum of its counts over that of the profile on the days that are
    `both_known`, mixed in logs with its typical level by `trust`."""
    profile = np.sum(np.where(both_known, shape, 0), axis=1)
    own_level = np.sum(demand, axis=1, where=both_known, dtype=np.float64) / np.where(profile > 0, profile, 1)
    level: _Doubles = np.expm1(trust * np.log1p(own_level) + (1 - trust) * typical_level)
    return level


def _guessed_past(demand: _Floats, is_known: _Bools, expected: _Doubles) -> _Floats:
    """Expected counts on the unknown days before each depot's first known one; NaN elsewhere."""
    first = np.where(is_known.any(axis=1), is_known.argmax(axis=1), is_known.shape[1])
    before = np.arange(is_known.shape[1]) < first[:, None]
    return np.where(before & np.isnan(demand), expected, np.nan).astype(np.float32)
