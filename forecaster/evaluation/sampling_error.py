"""Sampling error of coverage and bias: test whether they are significantly outside their bounds, or
could be so by chance.

Depot-days of one day share their weather, and neighboring days have correlated errors. The variance
of a mean is therefore taken over the sums of calendar days, with their covariances up to a week
apart (Newey & West 1987, "A simple, positive semi-definite, heteroskedasticity and autocorrelation
consistent covariance matrix"), and is at least that of independent days. All bounds are one-sided,
with the confidence of the paired test.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from forecaster.core.arrays import Bools, Doubles
from forecaster.core.forecast import Fold, Scale
from forecaster.evaluation.metrics import HIGH, LOW, Scored, scored
from forecaster.evaluation.paired_test import CONFIDENCE

REACH = NormalDist().inv_cdf(CONFIDENCE)  # standard errors
WEEK = 7  # largest distance in days of correlated errors


@dataclass(frozen=True)
class HeldOut:
    """Information in a backtest's held-out days about coverage and bias."""

    days: int  # calendar days scored
    depot_days: int
    demand: float  # of all scored depot-days
    effective: float  # number of independent depot-days with the same information about the coverage
    # standard error of the bias, as a share of demand; inf for a single depot-day
    bias_error: float

    @classmethod
    def of(cls, folds: Sequence[Fold], scale: Scale) -> HeldOut:
        """Measure the scored days of the folds."""
        rows = scored(folds, scale)
        demand, depot_days = float(rows.actual.sum()), len(rows.actual)
        error = rows.median - rows.actual
        bias = float(error.sum()) / demand if demand > 0 else math.nan
        bias_error = math.sqrt(_variance_of_sum(error - bias * rows.actual, rows)) / demand if demand > 0 else math.nan
        days = len(np.unique(rows.day))
        return cls(days, depot_days, demand, _effective(_covered(rows), rows), bias_error)

    def surely_covers_outside(self, coverage: float, low: float, high: float) -> bool:
        """Return True if fewer than one in twenty such backtests of a model with coverage `low`, or
        `high`, would have a coverage this far outside.

        The score test of a binomial share with continuity correction (Fleiss, Levin & Paik 2003,
        section 2.3), for the effective depot-days.
        """
        return self._surely_below(coverage, low) or self._surely_below(1 - coverage, 1 - high)

    def _surely_below(self, share: float, least: float) -> bool:
        return least - share - 0.5 / self.effective > REACH * math.sqrt(least * (1 - least) / self.effective)

    def surely_biased(self, bias: float, most: float) -> bool:
        """Return True if the absolute bias exceeds `most` by more than its standard error explains."""
        return abs(bias) - REACH * self.bias_error > most


def _covered(rows: Scored) -> Bools:
    lower, upper = (rows.quantiles[:, rows.levels.index(level)] for level in (LOW, HIGH))
    inside: Bools = (lower <= rows.actual) & (rows.actual <= upper)
    return inside


def _effective(covered: Bools, rows: Scored) -> float:
    """Effective sample size: depot-days divided by the design effect (Kish 1965), which is at least
    1."""
    share = float(covered.mean()) if len(covered) else math.nan
    independent = len(covered) * share * (1 - share)  # variance of the number covered
    if not independent > 0:
        return float(len(covered))
    return len(covered) / max(_variance_of_sum(covered.astype(float) - share, rows) / independent, 1.0)


def _variance_of_sum(residuals: Doubles, rows: Scored) -> float:
    """Variance of the sum of the depot-days' residuals, whose mean is zero; over depots if there is
    only one day."""
    days = rows.day.astype(np.int64)
    several = len(residuals) > 0 and days.min() < days.max()
    place = days - days.min() if several else np.arange(len(residuals))
    sums = np.bincount(place, residuals)
    terms = len(np.unique(place))
    if terms < 2:
        return math.inf
    variance = within_days = float(sums @ sums)
    reach = min(WEEK, len(sums) // 4)
    for lag in range(1, reach + 1):
        variance += 2 * (1 - lag / (reach + 1)) * float(sums[lag:] @ sums[:-lag])
    return max(variance, within_days) * terms / (terms - 1)
