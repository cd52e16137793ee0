"""Paired significance test of two models on the same days: the size of the difference, and whether
chance explains it.

The test statistic is the difference of losses, day by day and depot by depot, relative to the
rival's loss. Its standard error is taken over days, because depots share their weather (a clustered
ratio estimator, Cochran 1977, section 9.3; the comparison of forecasts by their losses is that of
Diebold & Mariano 1995, "Comparing predictive accuracy").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Days, Doubles
from forecaster.core.forecast import Fold, Scale
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, counted, sentence
from forecaster.evaluation.metrics import Scored, scored

CONFIDENCE = 0.95  # of each bound, one-sided


_COMPARED = {  # keys: better; more than chance
    (True, True): N_(
        "{ours} is {percent} % better than {theirs} in {metric}, more than chance ({low} % to {high} % over {days})"
    ),
    (True, False): N_(
        "{ours} is {percent} % better than {theirs} in {metric}, which may be chance ({low} % to {high} % over {days})"
    ),
    (False, True): N_(
        "{ours} is {percent} % worse than {theirs} in {metric}, more than chance ({low} % to {high} % over {days})"
    ),
    (False, False): N_(
        "{ours} is {percent} % worse than {theirs} in {metric}, which may be chance ({low} % to {high} % over {days})"
    ),
}


@dataclass(frozen=True)
class Difference:
    """Relative loss of one model against another's, with confidence bounds, as a share of the
    other's loss; negative if better.

    NaN without common days.
    """

    relative: float
    low: float
    high: float
    days: int  # calendar days on which both were scored

    def sentence(self, ours: str, theirs: str, metric: str) -> str:
        """Return a sentence about the better model, and the significance."""
        if not np.isfinite(self.relative):
            return sentence(N_("{ours} and {theirs} have no day in common"), ours=ours, theirs=theirs)
        template = _COMPARED[self.relative < 0, self.low * self.high > 0]
        return sentence(
            template,
            ours=ours,
            theirs=theirs,
            metric=metric,
            percent=amount(100 * abs(self.relative), ".1f"),
            low=amount(100 * self.low, "+.1f"),
            high=amount(100 * self.high, "+.1f"),
            days=counted(self.days, "{n} day", "{n} days"),
        )


@dataclass(frozen=True, eq=False)
class Pairs:
    """Depot-days on which two models were both scored, with the loss of each."""

    depot: NDArray[np.intp]
    day: Days
    ours: Doubles
    theirs: Doubles

    def difference(self, depot: int | None = None) -> Difference:
        """Compare our model with theirs, at one depot if one is given."""
        rows = slice(None) if depot is None else self.depot == depot
        ours, theirs, day = self.ours[rows], self.theirs[rows], self.day[rows]
        _, which = np.unique(day, return_inverse=True)
        days, below = int(which.max(initial=-1)) + 1, float(theirs.sum())
        if not below > 0:
            return Difference(float("nan"), float("nan"), float("nan"), days)
        relative = float((ours - theirs).sum() / below)
        if days < 2:
            return Difference(relative, -float("inf"), float("inf"), days)
        residuals = np.bincount(which, ours - theirs - relative * theirs, days)
        error = float(np.sqrt((residuals**2).sum() * days / (days - 1))) / below
        reach = NormalDist().inv_cdf(CONFIDENCE) * error
        return Difference(relative, relative - reach, relative + reach, days)


def pairs(ours: Sequence[Fold], theirs: Sequence[Fold], scale: Scale, metric: str) -> Pairs:
    """Pair the days of two models; `metric` is wape, mape, mase or wql, whose contributions are
    compared."""
    mine, rival = scored(ours, scale), scored(theirs, scale)
    _, left, right = np.intersect1d(_keys(mine), _keys(rival), return_indices=True)
    mine, rival = mine[left], rival[right]
    our_loss, their_loss = loss(mine, metric), loss(rival, metric)
    finite = np.isfinite(our_loss) & np.isfinite(their_loss)
    return Pairs(mine.depot[finite], mine.day[finite], our_loss[finite], their_loss[finite])


def difference(ours: Sequence[Fold], theirs: Sequence[Fold], scale: Scale, metric: str) -> Difference:
    """Compare our model with theirs on all days on which both were scored."""
    return pairs(ours, theirs, scale, metric).difference()


def loss(days: Scored, metric: str) -> Doubles:
    """Contribution of each depot-day to a metric; NaN if it has none."""
    size = np.abs(days.median - days.actual)
    if metric == "wql":
        gap, levels = days.actual[:, None] - days.quantiles, np.asarray(days.levels)
        pinball: Doubles = np.maximum(levels * gap, (levels - 1) * gap).mean(axis=1)
        return pinball
    if metric == "mape":
        shares: Doubles = np.divide(size, days.actual, where=days.actual > 0, out=np.full(len(size), np.nan))
        return shares
    if metric == "mase":
        count = np.bincount(days.depot, minlength=len(days.scale.absolute))
        weighed: Doubles = size / days.scale.absolute[days.depot] / np.maximum(count, 1)[days.depot]
        return weighed
    return size


def _keys(days: Scored) -> NDArray[np.int64]:
    """Return a number for each depot-day, equal in two models' days."""
    keys: NDArray[np.int64] = (days.day.astype(np.int64) * 100 + days.ahead) * 10_000_000 + days.depot
    return keys
