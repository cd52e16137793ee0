"""How often a canary goes back by mistake, and how soon a worse one does, by the size of the fleet.

Errors are made as the sample's model makes them (measured in a backtest of 35 days, 64 depots): counts lie around a
forecast by a factor whose logarithm has a standard deviation of 0.12, of whose variance a day's depots share 9 %; what
was said of a day one or seven days before differs by nothing worth telling. Two models of consecutive nights differ by
3 %. `python -m tests.benchmarks.canary` prints the table of docs/results.md.
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
)  # shares of the difference of two models that all depots of a day, all days of a depot have
BACKTEST, SEEDS = 30, 400
Kind = Literal["equal", "errors a fifth larger", "level off", "a fifth too high"]
KINDS: tuple[Kind, ...] = ("equal", "errors a fifth larger", "level off", "a fifth too high")


class Fleet(NamedTuple):
    """Depots, the share of their errors' variance that a day has in common, and what is wrong with the canary."""

    depots: int
    shared: float
    kind: Kind


def outcome(fleet: Fleet, seed: int, canary: Canary, gate: Gate) -> tuple[Decision, int]:
    """What becomes of a canary, and after how many nights; its backtest was that of a model like the champion."""
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
    """Absolute errors of canary and champion, by depot and day."""
    shape = fleet.depots, days
    level = rng.lognormal(5.1, 0.45, (fleet.depots, 1))
    of_day, own = rng.standard_normal(days), rng.standard_normal(shape)
    actual = level * np.exp(SPREAD * (np.sqrt(fleet.shared) * of_day + np.sqrt(1 - fleet.shared) * own))
    champion, canary = _apart(rng, shape), _apart(rng, shape)
    usual = np.hypot(SPREAD, APART)
    if fleet.kind == "errors a fifth larger":
        canary += np.sqrt(1.2**2 - 1) * usual * rng.standard_normal(shape)
    elif fleet.kind == "level off":  # by as much as makes errors a fifth larger
        canary += 0.71 * usual
    elif fleet.kind == "a fifth too high":
        canary += np.log(1.2)
    depot, day = np.indices(shape)
    losses = (np.abs(level * np.exp(forecast) - actual).ravel() for forecast in (canary, champion))
    return Pairs(depot.ravel(), day.ravel().astype("datetime64[D]"), *losses)


def _apart(rng: np.random.Generator, shape: tuple[int, int]) -> Doubles:
    """What a model's forecasts have of their own, in logarithms."""
    depots, days = shape
    parts = (OF_DAYS, (days,)), (OF_DEPOTS, (depots, 1)), (1 - OF_DAYS - OF_DEPOTS, shape)
    own: Doubles = APART * sum(np.sqrt(share) * rng.standard_normal(size) for share, size in parts)
    return own


def main() -> None:
    canary, gate = Canary(), Gate()
    print("| depots | shared by a day | canary | back | back within 3 nights | promoted |\n|---|---|---|---|---|---|")
    for shared in (0.09, 0.3):
        for depots in (6, 64, 500):
            for kind in KINDS:
                outcomes = [outcome(Fleet(depots, shared, kind), seed, canary, gate) for seed in range(SEEDS)]
                back = sum(decision == "go back" for decision, _ in outcomes) / SEEDS
                soon = sum(decision == "go back" and night <= 3 for decision, night in outcomes) / SEEDS
                print(f"| {depots} | {shared:.0%} | {kind} | {back:.1%} | {soon:.1%} | {1 - back:.1%} |", flush=True)


if __name__ == "__main__":
    main()
