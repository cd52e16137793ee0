"""Drift of actuals relative to forecasts, by depot: another level, or ranges that no longer fit.

The inputs are the normal scores of `pit`, one row per depot, one column per day. For each depot,
the mean of the last W days is compared with its own past, so that a small long-standing bias is no
drift, and each score is taken relative to the network's median of that day, so that a holiday
missing from the calendar is not a drift of all depots:

    r = z − median over depots of z        t = (mean of W days − mean of the past) / √(v · (1 + W / past))

Scores of neighboring days are correlated (a forecast with an error yesterday has one today), so v
is not s² / W: it is the variance of means of W days in the past itself, shrunk toward the estimate
from the autocorrelation of all depots, s² / W · (1 + 2 Σ (1 − k / W) ρ_k), whose sum widens the
null (Bartlett 1946; Newey & West 1987). The depot's own variance has as many degrees of freedom as
there are stretches of W days; the shrinkage adds `PRIOR` (the moderated t of Smyth 2004). Spread is
the same test of the distances of r from its own mean over the longer window, again relative to the
network's median of the day. A depot drifts if Benjamini & Hochberg's procedure (1995) over all
depots rejects its null, and the size matters. Rates and bounds were chosen on four of the eight
real datasets (docs/results.md).

Cities and the network are tested by the mean of their depots' scores, only against their own past.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from forecaster.core.arrays import Bools, Doubles

WINDOWS = (14, 28)  # tested days
PAST = 112  # days before the longer window that it is compared with
LEAST_PAST = 42  # known days of the past
LEAST_SHARE = 0.5  # smallest share of known days in a window
LEAST_PEERS = 8  # fewest depots for a network median of a day
PRIOR = 12.0  # degrees of freedom of the autocorrelation of all depots
RATE = 0.02  # Benjamini & Hochberg's false discovery rate of levels
SPREAD_RATE = 0.001  # and of ranges, whose tails are heavier
# smallest relative change of the ratio of actuals to forecasts for a drift of level
LEAST_RATIO = 0.1
LEAST_GROUP_RATIO = 0.05  # the same for cities and for the network
LEAST_SPREAD = 0.3  # relative change of the mean |r|
ALERTED_SHARE = 0.05  # share of tested depots with drift above which the alert ForecasterDrift fires
DAYS = PAST + max(WINDOWS)  # days that `judge` uses
_normal = NormalDist()


@dataclass(frozen=True, eq=False)
class Contrast:
    """Test result for each row (depot or city): arrays (rows,); NaN if too little is known."""

    p: Doubles  # two-sided, over all windows
    change: Doubles  # window's mean minus the past's, in scores, of the most significant window

    @property
    def testable(self) -> Bools:
        tested: Bools = np.isfinite(self.p)
        return tested


@dataclass(frozen=True, eq=False)
class Drifts:
    """Direction of drift, per row 1 (above, or ranges too narrow), −1 (below, or too wide), 0
    (neither), with its size."""

    level: Doubles
    spread: Doubles
    # column of `scores` at which the new level seems to begin; NaN without a drift
    first: Doubles
    # ratio of actuals to forecasts from that day on, relative to that of the past; 1 = unchanged
    ratio: Doubles
    width: Doubles  # distances of the scores from their mean, relative to the past
    testable: Bools


def relative_scores(scores: Doubles) -> Doubles:
    """Scores (depots, days) minus the median of their day, if `LEAST_PEERS` depots are known."""
    is_known = np.isfinite(scores)
    crowd = is_known.sum(axis=0) >= LEAST_PEERS
    common = np.zeros(scores.shape[1])
    if crowd.any():
        common[crowd] = np.nanmedian(scores[:, crowd], axis=0)
    relative: Doubles = scores - common
    return relative


def judge(scores: Doubles, actual: Doubles, median: Doubles, *, relative: bool = True) -> Drifts:
    """Judge the drift of rows on the last day. All arrays are (rows, days), the newest day last,
    NaN if a depot was closed or its count or forecast is unknown: normal scores, actuals, and the
    forecast median. At most the last `DAYS` days count. `relative`: subtract the median of each day
    first, for depots but not for cities."""
    scores, actual, median = (values[:, -DAYS:].astype(float) for values in (scores, actual, median))
    tested_scores = relative_scores(scores) if relative else scores
    level, spread = level_test(tested_scores), spread_test(tested_scores, common=relative)
    first = np.where(level.testable, onset(tested_scores), np.nan)
    ratio = ratio_since(actual, median, first)
    least = math.log1p(LEAST_RATIO if relative else LEAST_GROUP_RATIO)
    strong = np.abs(np.log(np.where(ratio > 0, ratio, 1e-3))) >= least
    agrees = (ratio > 1) == (level.change > 0)
    is_level = discoveries(level.p, RATE) & strong & agrees
    is_spread = discoveries(spread.p, SPREAD_RATE) & (np.abs(spread.change) >= LEAST_SPREAD) & ~is_level
    return Drifts(
        np.where(is_level, np.sign(level.change), 0.0),
        np.where(is_spread, np.sign(spread.change), 0.0),
        np.where(is_level, first, np.nan),
        ratio,
        1 + spread.change,
        level.testable,
    )


def level_test(relative: Doubles) -> Contrast:
    """Test for a changed mean of each row's last days; `relative` is (rows, days)."""
    past = relative[:, : -max(WINDOWS)]
    return _smallest([_mean_test(past, relative[:, -days:], days) for days in WINDOWS])


def spread_test(relative: Doubles, *, common: bool = True) -> Contrast:
    """Test for a changed spread of scores around their mean; `change` is a share of the past's.
    `common`: distances are relative to the network's on each day, like the scores."""
    past, window = relative[:, : -max(WINDOWS)], relative[:, -max(WINDOWS) :]
    count = np.isfinite(window).sum(axis=1)
    # Distances to a mean of n days are short by √(1 − 1 / n), because only n − 1 of them are free.
    short = np.sqrt(1 - 1 / np.maximum(count, 2))[:, None]
    distance = np.abs(past - _mean(past)[:, None])
    both = np.concatenate([distance, np.abs(window - _mean(window)[:, None]) / short], axis=1)
    both = relative_scores(both) if common else both
    contrast = _mean_test(both[:, : past.shape[1]], both[:, past.shape[1] :], max(WINDOWS))
    usual = _mean(distance)
    change = np.divide(contrast.change, usual, out=np.full_like(usual, np.nan), where=usual > 0)
    return Contrast(contrast.p, change)


def _mean_test(past: Doubles, window: Doubles, days: int) -> Contrast:
    """Moderated t test of the window's mean against the past's."""
    n_past, n_window = np.isfinite(past).sum(axis=1), np.isfinite(window).sum(axis=1)
    usable = (n_past >= LEAST_PAST) & (n_window >= LEAST_SHARE * days)
    change = _mean(window) - _mean(past)
    variance, freedom = _variance_of_means(past, days, usable)
    variance = variance * days / np.maximum(n_window, 1) * (1 + n_window / np.maximum(n_past, 1))
    usable &= variance > 0
    t = np.divide(change, np.sqrt(variance), out=np.full_like(change, np.nan), where=usable)
    return Contrast(_two_sided(t, freedom), np.where(usable, change, np.nan))


def _variance_of_means(past: Doubles, days: int, usable: Bools) -> tuple[Doubles, Doubles]:
    """Return the variance of a mean of `days` days (rows,), and its degrees of freedom."""
    n_past = np.isfinite(past).sum(axis=1)
    centred = past - _mean(past)[:, None]
    own_variance = np.divide(np.nansum(centred**2, axis=1), np.maximum(n_past - 1, 1))
    pooled = own_variance / days * _widening(centred[usable], own_variance[usable], days)
    filled = np.nan_to_num(centred)
    sums = np.cumsum(np.pad(filled, [(0, 0), (1, 0)]), axis=1)
    counts = np.cumsum(np.pad(np.isfinite(centred), [(0, 0), (1, 0)]), axis=1)
    total, count = sums[:, days:] - sums[:, :-days], counts[:, days:] - counts[:, :-days]
    full = count >= LEAST_SHARE * days
    # A mean of fewer days varies more, and stretches about their own mean lose some variance.
    squares = np.where(full, total**2 / np.maximum(count, 1) / days, 0.0).sum(axis=1)
    stretches = np.maximum(n_past / days, 1.0)
    row_variance = squares / np.maximum(full.sum(axis=1), 1) * stretches / np.maximum(stretches - 1, 0.5)
    freedom = stretches - 1
    return (freedom * row_variance + PRIOR * pooled) / (freedom + PRIOR), freedom + PRIOR


def _widening(centred: Doubles, variance: Doubles, days: int) -> float:
    """Return the factor by which autocorrelation increases the variance of a mean of `days` days,
    over all rows; at least 1."""
    scaled = centred / np.sqrt(np.where(variance > 0, variance, np.nan))[:, None]
    is_known = np.isfinite(scaled)
    filled, widening = np.where(is_known, scaled, 0.0), 1.0
    for lag in range(1, min(days, scaled.shape[1] - 1)):
        pairs = np.count_nonzero(is_known[:, lag:] & is_known[:, :-lag])
        if pairs:
            widening += 2 * (1 - lag / days) * float((filled[:, lag:] * filled[:, :-lag]).sum()) / pairs
    return max(widening, 1.0)


def _smallest(tests: Sequence[Contrast]) -> Contrast:
    """Return the most significant of several tests for each row, with Bonferroni's p over them."""
    p = np.stack([test.p for test in tests])
    best = np.argmin(np.where(np.isfinite(p), p, np.inf), axis=0)
    rows, test_count = np.arange(p.shape[1]), np.isfinite(p).sum(axis=0)
    return Contrast(
        np.minimum(p[best, rows] * test_count, 1.0),
        np.stack([test.change for test in tests])[best, rows],
    )


def onset(relative: Doubles) -> Doubles:
    """Column (rows,) at which the new level seems to begin: the day in the longest window whose
    mean of all later days differs most from the past's for its length (a change point of the sums
    of Page 1954)."""
    longest, days = max(WINDOWS), relative.shape[1]
    past = _mean(relative[:, :-longest])[:, None]
    window = relative[:, -longest:] - past
    sums = np.cumsum(np.nan_to_num(window)[:, ::-1], axis=1)[:, ::-1]
    counts = np.cumsum(np.isfinite(window)[:, ::-1], axis=1)[:, ::-1]
    strength = np.where(counts >= 3, np.abs(sums) / np.sqrt(np.maximum(counts, 1)), -1.0)
    first: Doubles = np.argmax(strength, axis=1).astype(float) + days - longest
    return first


def ratio_since(actual: Doubles, median: Doubles, first: Doubles) -> Doubles:
    """Ratio of actuals to forecasts from the column `first` on, relative to that of the past,
    (rows,)."""
    longest, column = max(WINDOWS), np.arange(actual.shape[1])
    is_known = np.isfinite(actual) & np.isfinite(median)
    since, before = is_known & (column >= first[:, None]), is_known & (column < actual.shape[1] - longest)

    def ratio(days: Bools) -> Doubles:
        forecast = np.sum(median, axis=1, where=days)
        actuals = np.sum(actual, axis=1, where=days)
        share: Doubles = np.divide(actuals, forecast, out=np.full(len(actual), np.nan), where=forecast > 0)
        return share

    usual = ratio(before)
    relative: Doubles = np.divide(ratio(since), usual, out=np.full(len(actual), np.nan), where=usual > 0)
    return relative


def discoveries(p: Doubles, rate: float) -> Bools:
    """Mark the hypotheses (rows,) that are rejected at a false discovery rate (Benjamini & Hochberg
    1995); NaN is never one."""
    is_discovery = np.zeros(len(p), bool)
    tested = np.flatnonzero(np.isfinite(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    below = np.flatnonzero(p[order] <= rate * np.arange(1, len(order) + 1) / max(len(order), 1))
    if len(below):
        is_discovery[order[: below[-1] + 1]] = True
    return is_discovery


def group_means(scores: Doubles, groups: Sequence[Bools]) -> Doubles:
    """Mean score of each group of rows by day, (groups, days); NaN if less than half of its usual
    depots are known."""
    means = np.full((len(groups), scores.shape[1]), np.nan)
    for number, rows in enumerate(groups):
        count = np.isfinite(scores[rows]).sum(axis=0)
        enough = (count > 0) & (count >= 0.5 * np.median(count))
        means[number, enough] = np.nansum(scores[rows][:, enough], axis=0) / count[enough]
    return means


def _mean(values: Doubles) -> Doubles:
    """Mean of the known days of each row; NaN if there are none."""
    count = np.isfinite(values).sum(axis=1)
    mean: Doubles = np.divide(np.nansum(values, axis=1), count, out=np.full(len(values), np.nan), where=count > 0)
    return mean


def _two_sided(t: Doubles, freedom: Doubles) -> Doubles:
    """Two-sided p of Student's t, by Wallace's approximation (1959), within 0.2 % of z for at least
    4 degrees of freedom."""
    z = (8 * freedom + 1) / (8 * freedom + 3) * np.sqrt(freedom * np.log1p(t**2 / freedom))
    return np.array([math.erfc(value / math.sqrt(2)) if value == value else math.nan for value in z])
