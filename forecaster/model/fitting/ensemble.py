"""How far each member is trusted, and how far the seasonal anchor: weights fitted on days that training did not see.

Greedy selection with replacement (Caruana et al. 2004, "Ensemble selection from libraries of models"), begun from all
members alike, so that validation days move the weights a little.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from forecaster.core.arrays import Doubles, Floats

ROUNDS = 12  # members added, one a round
START = 8  # what each member counts for before the first round: depots share their days, so that four weeks are few
ANCHORS = np.arange(0.0, 0.65, 0.05)  # shares of the seasonal anchor that are tried


@dataclass(frozen=True)
class Blend:
    """Weights that add up to one, and the share by which the median is drawn to the anchor."""

    members: Floats  # (members,)
    anchor: float


def blend(said: Floats, anchor: Floats, actual: Floats, known: NDArray[np.bool_], levels: tuple[float, ...]) -> Blend:
    """The blend with the least mean pinball loss on log counts.

    `said` are the members' quantiles (members, …, levels), `anchor`, `actual` and `known` are (…). Without any known
    day all members count alike.
    """
    count = len(said)
    chosen = np.full(count, float(START))
    if not known.any():
        return Blend((chosen / chosen.sum()).astype(np.float32), 0.0)
    quantiles, seasonal, came = said[:, known].astype(np.float64), anchor[known], actual[known]

    def loss(total: Doubles, parts: float, share: float = 0.0) -> float:
        mean = total / parts
        center = mean[:, [levels.index(0.5)]]
        return pinball(mean + share * (seasonal[:, None] - center), came, levels)

    total = START * quantiles.sum(axis=0)
    best = loss(total, float(chosen.sum()))
    for _ in range(ROUNDS):
        tried = [loss(total + quantiles[member], float(chosen.sum()) + 1) for member in range(count)]
        member = int(np.argmin(tried))
        if not tried[member] < best:
            break
        chosen[member] += 1
        total, best = total + quantiles[member], tried[member]
    shares = [loss(total, float(chosen.sum()), share) for share in ANCHORS]
    return Blend((chosen / chosen.sum()).astype(np.float32), float(ANCHORS[int(np.argmin(shares))]))


def pinball(quantiles: Doubles, actual: Doubles | Floats, levels: tuple[float, ...]) -> float:
    """Mean pinball loss of quantiles (days, levels) for actuals (days,)."""
    error = actual[:, None] - quantiles
    tau = np.asarray(levels)
    return float(np.maximum(tau * error, (tau - 1) * error).mean())
