"""Simulated canaries, by the size of the fleet and by the fault of the canary.

Errors resemble those of the sample's model (measured in a backtest of 35 days, 64 depots): counts
deviate from a forecast by a factor whose logarithm has a standard deviation of 0.12, 9 % of whose
variance is common to a day's depots; the forecasts of a day made one and seven days before differ
only negligibly. Two models of consecutive nights differ by 3 %.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from forecaster.config import Canary, Gate
from forecaster.core.arrays import Doubles
from forecaster.evaluation.canary import Decision, judge
from forecaster.evaluation.paired_test import Pairs

SPREAD, APART = 0.12, 0.03  # of counts around forecasts, and of two models' forecasts, in logarithms
OF_DAYS, OF_DEPOTS = (
    0.3,
    0.2,
)  # shares of the difference of two models that are common to all depots of a day, and to all days of a depot
BACKTEST = 30  # days
Kind = Literal["equal", "errors a fifth larger", "level off", "a fifth too high"]


class Fleet(NamedTuple):
    """Depots, the common share of their errors' variance on a day, and the fault of the canary."""

    depots: int
    shared: float
    kind: Kind


def outcome(fleet: Fleet, seed: int, canary: Canary, gate: Gate) -> tuple[Decision, int]:
    """Return the final decision on a canary, and the number of nights; its backtest was that of a
    model like the champion."""
    rng = np.random.default_rng(seed)
    before = _pairs(rng, fleet._replace(kind="equal"), BACKTEST)
    live = _pairs(rng, fleet, canary.nights)
    for night in range(1, canary.nights + 1):
        rows = live.day < np.datetime64(night, "D")
        came = Pairs(live.depot[rows], live.day[rows], live.ours[rows], live.theirs[rows])
        verdict = judge(came, before, night, canary, gate)
        if verdict.decision != "wait":
            break
    return verdict.decision, night


def _pairs(rng: np.random.Generator, fleet: Fleet, days: int) -> Pairs:
    """Return absolute errors of canary and champion, by depot and day."""
    shape = fleet.depots, days
    level = rng.lognormal(5.1, 0.45, (fleet.depots, 1))
    of_day, own = rng.standard_normal(days), rng.standard_normal(shape)
    actual = level * np.exp(SPREAD * (np.sqrt(fleet.shared) * of_day + np.sqrt(1 - fleet.shared) * own))
    champion, canary = _apart(rng, shape), _apart(rng, shape)
    usual = np.hypot(SPREAD, APART)
    if fleet.kind == "errors a fifth larger":
        canary += np.sqrt(1.2**2 - 1) * usual * rng.standard_normal(shape)
    elif fleet.kind == "level off":  # by an amount that makes errors a fifth larger
        canary += 0.71 * usual
    elif fleet.kind == "a fifth too high":
        canary += np.log(1.2)
    depot, day = np.indices(shape)
    losses = (np.abs(level * np.exp(forecast) - actual).ravel() for forecast in (canary, champion))
    return Pairs(depot.ravel(), day.ravel().astype("datetime64[D]"), *losses)


def _apart(rng: np.random.Generator, shape: tuple[int, int]) -> Doubles:
    """Return the individual part of a model's forecasts, in logarithms."""
    depots, days = shape
    parts = (OF_DAYS, (days,)), (OF_DEPOTS, (depots, 1)), (1 - OF_DAYS - OF_DEPOTS, shape)
    own: Doubles = APART * sum(np.sqrt(share) * rng.standard_normal(size) for share, size in parts)
    return own
