"""Ensemble weights of the members, and the weight of the seasonal anchor, fitted on days outside
the training.

Greedy selection with replacement (Caruana et al. 2004, "Ensemble selection from libraries of
models"), starting from equal weights, so that validation days move the weights only slightly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles, Floats

ROUNDS = 12  # one member is added per round
# votes of each member before the first round; high, because depots share their days and four weeks
# are little evidence
START = 8
ANCHORS = np.arange(0.0, 0.65, 0.05)  # candidate shares of the seasonal anchor


@dataclass(frozen=True)
class Blend:
    """Ensemble weights that sum to one, and the share by which the median is drawn to the anchor."""

    members: Floats  # (members,)
    anchor: float


def blend(
    quantiles: Floats, anchor: Floats, actual: Floats, observed: NDArray[np.bool_], levels: tuple[float, ...]
) -> Blend:
    """Find the blend with the smallest mean pinball loss on log counts.

    `quantiles` are the members' quantiles (members, …, levels); `anchor`, `actual` and `observed`
    are (…). Without any observed day, all members have equal weights.
    """
    count = len(quantiles)
    votes = np.full(count, float(START))
    if not observed.any():
        return Blend((votes / votes.sum()).astype(np.float32), 0.0)
    observed_quantiles, observed_anchor, observed_actual = (
        quantiles[:, observed].astype(np.float64),
        anchor[observed],
        actual[observed],
    )

    def loss(total: Doubles, parts: float, share: float = 0.0) -> float:
        mean = total / parts
        center = mean[:, [levels.index(0.5)]]
        return pinball(mean + share * (observed_anchor[:, None] - center), observed_actual, levels)

    total = START * observed_quantiles.sum(axis=0)
    best = loss(total, float(votes.sum()))
    for _ in range(ROUNDS):
        losses = [loss(total + observed_quantiles[member], float(votes.sum()) + 1) for member in range(count)]
        member = int(np.argmin(losses))
        if not losses[member] < best:
            break
        votes[member] += 1
        total, best = total + observed_quantiles[member], losses[member]
    shares = [loss(total, float(votes.sum()), share) for share in ANCHORS]
    return Blend((votes / votes.sum()).astype(np.float32), float(ANCHORS[int(np.argmin(shares))]))


def pinball(quantiles: Doubles, actual: Doubles | Floats, levels: tuple[float, ...]) -> float:
    """Mean pinball loss of quantiles (days, levels) for actuals (days,)."""
    error = actual[:, None] - quantiles
    tau = np.asarray(levels)
    return float(np.maximum(tau * error, (tau - 1) * error).mean())
