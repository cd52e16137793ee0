"""Canary analysis (sequential test): is a new model surely worse, or surely no worse, than the
champion next to it?

Both forecast the same days of all depots, so their losses are compared in pairs, on the days that
came in. A night looks again whenever a further day did, so each look gets its share of the error
that all together may have (alpha spending; Lan & DeMets 1983, "Discrete sequential boundaries for
clinical trials"): equal shares for the declared nights and one for those beyond, of which each
halves what is left. That bounds false alarms over the whole canary by 1 − `CONFIDENCE`, whatever
the looks have to do with one another.

Depots share a day's weather, so few days tell little of themselves. How much the difference moves
from day to day is therefore taken from the backtest, where the same two models met on as many days
as that has; how much it differs from depot to depot from what came in (both as clustered ratio
estimators, Cochran 1977, section 9.3), and from the third day on from these days too. The largest
of them counts.
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
LEAST_DAYS = 3  # from which on the days that came in say themselves how much they differ
COVERAGE_DAYS = 4  # from which on it is said what ranges cover


_COMPARED = {  # is it better, and are its bounds known?
    (True, True): N_("{percent} % better than the champion in {metric} ({low} % to {high} %) over {days}"),
    (True, False): N_("{percent} % better than the champion in {metric} over {days}"),
    (False, True): N_("{percent} % worse than the champion in {metric} ({low} % to {high} %) over {days}"),
    (False, False): N_("{percent} % worse than the champion in {metric} over {days}"),
}


@dataclass(frozen=True)
class CanaryVerdict:
    """Result of a look at the new days; relative losses are a share of the champion's, below 0 =
    better."""

    decision: Decision
    reason: str
    look: int
    days: int
    relative: float
    low: float
    high: float

    def numbers(self) -> Mapping[str, Any]:
        """As the ledger keeps it; a bound that is not known is null."""
        bounds = {"relative": self.relative, "low": self.low, "high": self.high}
        return {"days": self.days, "look": self.look, "decision": self.decision, "reason": self.reason} | {
            name: value if math.isfinite(value) else None for name, value in bounds.items()
        }


def judge(
    came: Pairs, before: Pairs | None, look: int, canary: Canary, gate: Gate, objection: str | None = None
) -> CanaryVerdict:
    """Judge a canary by the losses of both models on the days that came in.

    `before` are their losses in the backtest, `look` is the number of this look, from 1, and
    `objection` what else speaks against it (`coverage_objection`). It goes back where it is surely
    worse by more than `canary.max_loss`. It is promoted where it is surely worse by no more than
    `gate.max_loss`, not before half of the nights. After all of them it is promoted, unless it is
    surely worse, and by more than `canary.max_loss` as far as one can tell.
    """
    relative, low, high, days = bounds(came, before, share_of_error(look, canary.nights))
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
    """The probability with which the bound of a look may be wrong by chance; all together have 1 −
    `CONFIDENCE`."""
    equal = (1 - CONFIDENCE) / (nights + 1)
    return equal if look <= nights else equal / 2 ** (look - nights)


def bounds(came: Pairs, before: Pairs | None, error: float) -> tuple[float, float, float, int]:
    """Relative loss, its bounds, each wrong with a probability of `error`, and on how many days;
    the bounds are infinite where nothing is sure."""
    days = len(np.unique(came.day))
    loss = float(came.theirs.sum())
    if not loss > 0:
        return math.nan, -math.inf, math.inf, days
    relative = float((came.ours - came.theirs).sum()) / loss
    residuals = came.ours - came.theirs * (1 + relative)
    depots = len(np.unique(came.depot))
    variances = [_clustered(residuals, came.depot) / loss**2]
    freedom = depots - 1
    if days >= LEAST_DAYS:
        variances.append(_clustered(residuals, came.day) / loss**2)
    if before is not None and (spread := _spread_of_days(before)) is not None:
        of_one_day, known_days = spread
        variances.append(of_one_day / days)
        freedom = min(freedom, known_days - 1)
    else:  # then these days alone say how much they differ
        freedom = min(freedom, days - 1 if days >= LEAST_DAYS else 0)
    if freedom < 1:
        return relative, -math.inf, math.inf, days
    reach = quantile(1 - error, freedom) * math.sqrt(max(variances))
    return relative, relative - reach, relative + reach, days


def coverage_objection(ours: Sequence[Fold], theirs: Sequence[Fold], scale: Scale, gate: Gate) -> str | None:
    """Why the canary's ranges are no ranges; None where they may be, or where these days left the
    champion's, too."""
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
    """The variance of the residuals' sum, whose clusters are independent of one another; infinite
    for one cluster."""
    _, place = np.unique(cluster, return_inverse=True)
    clusters = int(place.max(initial=-1)) + 1
    if clusters < 2:
        return math.inf
    sums = np.bincount(place, residuals, clusters)
    return float(sums @ sums) * clusters / (clusters - 1)


def _spread_of_days(before: Pairs) -> tuple[float, int] | None:
    """The variance of one day's relative difference, and over how many days; None where there are
    too few."""
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
