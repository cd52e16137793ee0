"""Canary analysis (sequential test): test whether a new model is significantly worse, or no worse,
than the champion.

Both forecast the same days of all depots, so their losses are compared in pairs, on the days with
actuals. A night looks again whenever there is a further day, so each look gets its share of the
total error probability (alpha spending; Lan & DeMets 1983, "Discrete sequential boundaries for
clinical trials"): equal shares for the declared nights and one for all later ones, each of which
takes half of the rest. That bounds false alarms over the whole canary by 1 − `CONFIDENCE`, whatever
the correlation of the looks.

Depots share a day's weather, so few days say little by themselves. The variance of the difference
from day to day is therefore taken from the backtest, in which the same two models met on more days;
its variance from depot to depot is taken from the canary's days (both as clustered ratio
estimators, Cochran 1977, section 9.3), and from the third day on so is the variance from day to
day. The largest of them counts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from forecaster.config import Canary, Gate
from forecaster.core.arrays import Doubles
from forecaster.core.forecast import Fold, Scale
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, counted, sentence
from forecaster.evaluation.metrics import measure
from forecaster.evaluation.paired_test import CONFIDENCE, Pairs
from forecaster.evaluation.sampling_error import HeldOut
from forecaster.evaluation.student import quantile

Decision = Literal["promote", "go back", "wait"]
LEAST_DAYS = 3  # days; from then on their own variance counts
COVERAGE_DAYS = 4  # days; from then on the coverage of ranges is judged


_COMPARED = {  # keys: better than the champion; bounds known
    (True, True): N_("{percent} % better than the champion in {metric} ({low} % to {high} %) over {days}"),
    (True, False): N_("{percent} % better than the champion in {metric} over {days}"),
    (False, True): N_("{percent} % worse than the champion in {metric} ({low} % to {high} %) over {days}"),
    (False, False): N_("{percent} % worse than the champion in {metric} over {days}"),
}


@dataclass(frozen=True)
class CanaryVerdict:
    """Result of a look at the new days; relative losses are a share of the champion's, negative if
    better."""

    decision: Decision
    reason: str
    look: int
    days: int
    relative: float
    low: float
    high: float

    def numbers(self) -> Mapping[str, Any]:
        """Return the values for the ledger; an unknown bound is null."""
        bounds = {"relative": self.relative, "low": self.low, "high": self.high}
        return {"days": self.days, "look": self.look, "decision": self.decision, "reason": self.reason} | {
            name: value if math.isfinite(value) else None for name, value in bounds.items()
        }


def judge(
    trial_pairs: Pairs, before: Pairs | None, look: int, canary: Canary, gate: Gate, objection: str | None = None
) -> CanaryVerdict:
    """Judge a canary by the losses of both models on the days with actuals.

    `before` are their losses in the backtest, `look` is the number of this look, from 1, and
    `objection` is another reason against it (`coverage_objection`). It is revoked if it is
    significantly worse by more than `canary.max_loss`. It is promoted, after at least half of the
    nights, if its loss is significantly below `gate.max_loss`. After all nights it is promoted,
    unless it is significantly worse, and its estimated loss is above `canary.max_loss`.
    """
    relative, low, high, days = bounds(trial_pairs, before, share_of_error(look, canary.nights))
    compared = _compared(relative, low, high, days, gate.metric)
    nights = counted(look, "{n} night", "{n} nights")
    if objection is not None:
        return CanaryVerdict("go back", objection, look, days, relative, low, high)
    if low > canary.max_loss:
        reason = sentence(
            N_("{compared}: surely worse by more than {most}"), compared=compared, most=amount(canary.max_loss, ".0%")
        )
        return CanaryVerdict("go back", reason, look, days, relative, low, high)
    if look >= max(-(-canary.nights // 2), 2) and high <= gate.max_loss:
        reason = sentence(
            N_("{compared}: surely worse by no more than {most}"), compared=compared, most=amount(gate.max_loss, ".0%")
        )
        return CanaryVerdict("promote", reason, look, days, relative, low, high)
    if look >= canary.nights and low > 0 and relative > canary.max_loss:
        reason = sentence(N_("{compared}: surely worse after {nights}"), compared=compared, nights=nights)
        return CanaryVerdict("go back", reason, look, days, relative, low, high)
    if look >= canary.nights:
        reason = sentence(
            N_("{compared}: inconclusive after {nights}, so the gate's verdict stands"),
            compared=compared,
            nights=nights,
        )
        return CanaryVerdict("promote", reason, look, days, relative, low, high)
    return CanaryVerdict("wait", compared, look, days, relative, low, high)


def share_of_error(look: int, nights: int) -> float:
    """Probability that the bound of a look is wrong by chance; all looks together have 1 −
    `CONFIDENCE`."""
    equal = (1 - CONFIDENCE) / (nights + 1)
    return equal if look <= nights else equal / 2 ** (look - nights)


def bounds(trial_pairs: Pairs, before: Pairs | None, error: float) -> tuple[float, float, float, int]:
    """Return the relative loss, its bounds, each wrong with probability `error`, and the number of
    days; unknown bounds are infinite."""
    days = len(np.unique(trial_pairs.day))
    loss = float(trial_pairs.theirs.sum())
    if not loss > 0:
        return math.nan, -math.inf, math.inf, days
    relative = float((trial_pairs.ours - trial_pairs.theirs).sum()) / loss
    residuals = trial_pairs.ours - trial_pairs.theirs * (1 + relative)
    depots = len(np.unique(trial_pairs.depot))
    variances = [_clustered(residuals, trial_pairs.depot) / loss**2]
    freedom = depots - 1
    if days >= LEAST_DAYS:
        variances.append(_clustered(residuals, trial_pairs.day) / loss**2)
    if before is not None and (spread := _spread_of_days(before)) is not None:
        of_one_day, known_days = spread
        variances.append(of_one_day / days)
        freedom = min(freedom, known_days - 1)
    else:  # only these days show their variance
        freedom = min(freedom, days - 1 if days >= LEAST_DAYS else 0)
    if freedom < 1:
        return relative, -math.inf, math.inf, days
    reach = quantile(1 - error, freedom) * math.sqrt(max(variances))
    return relative, relative - reach, relative + reach, days


def coverage_objection(ours: Sequence[Fold], theirs: Sequence[Fold], scale: Scale, gate: Gate) -> str | None:
    """Return the objection to the canary's ranges; None if there is none, or the champion's ranges
    have the same fault on these days."""
    low, high = gate.coverage
    held_out = HeldOut.of(ours, scale)
    if held_out.days < COVERAGE_DAYS:
        return None
    coverage, other = (measure(folds, scale)["coverage"] for folds in (ours, theirs))
    if low <= coverage <= high or not low <= other <= high or not held_out.surely_covers_outside(coverage, low, high):
        return None
    return sentence(
        N_("its 80 % range covers {coverage} over {days}, the champion's {other}; wanted {low} to {high}"),
        coverage=amount(coverage, ".1%"),
        days=counted(held_out.days, "{n} day", "{n} days"),
        other=amount(other, ".1%"),
        low=str(low),
        high=str(high),
    )


def _clustered(residuals: Doubles, cluster: NDArray[Any]) -> float:
    """Variance of the residuals' sum with independent clusters; infinite for one cluster."""
    _, place = np.unique(cluster, return_inverse=True)
    clusters = int(place.max(initial=-1)) + 1
    if clusters < 2:
        return math.inf
    sums = np.bincount(place, residuals, clusters)
    return float(sums @ sums) * clusters / (clusters - 1)


def _spread_of_days(before: Pairs) -> tuple[float, int] | None:
    """Return the variance of one day's relative difference, and the number of days; None if there
    are too few."""
    days, loss = len(np.unique(before.day)), float(before.theirs.sum())
    if days < LEAST_DAYS or not loss > 0:
        return None
    relative = float((before.ours - before.theirs).sum()) / loss
    of_sum = _clustered(before.ours - before.theirs * (1 + relative), before.day)
    return of_sum * days / loss**2, days


def _compared(relative: float, low: float, high: float, days: int, metric: str) -> str:
    over = counted(days, "{n} day", "{n} days")
    if not math.isfinite(relative):
        return sentence(N_("no loss to compare on {days}"), days=over)
    values = {"percent": amount(100 * abs(relative), ".1f"), "metric": metric, "days": over}
    if math.isfinite(low):
        values |= {"low": amount(100 * low, "+.1f"), "high": amount(100 * high, "+.1f")}
    return sentence(_COMPARED[relative < 0, math.isfinite(low)], **values)
