"""Promotion gate: decide whether tonight's candidate may replace the champion.

All were scored on the same folds, which none of them trained on. An unknown number objects: every test is written so
that NaN fails it.

A candidate that is no better than the champion need not be worse: where their difference is so small that chance
explains it, and surely below what the pipeline file allows, the fresher model goes out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from forecaster.config import Gate
from forecaster.core.forecast import Scores, Verdict
from forecaster.evaluation.paired_test import Pairs, pairs

CHAMPION = "champion"
ROUNDING = 1e-4  # relative: a candidate that is the champion again says so to within the parity of ONNX and JAX
LARGE = 0.5  # the largest depots that together make this share of demand have a veto,
LEAST = 14  # each with so many scored days at least


def judge(candidate: Scores, rivals: Mapping[str, Scores], gate: Gate) -> Verdict:
    """Judge a candidate; `rivals` holds the models to beat by name, those that there are."""
    objections = [*_not_finite(candidate), *_beaten(candidate, rivals, gate), *_bounds(candidate, gate)]
    if CHAMPION in rivals and CHAMPION in gate.beat:
        objections += _vetoes(candidate, rivals[CHAMPION], gate)
    compared = {scores.model: dict(scores.metrics) for scores in (candidate, *rivals.values())}
    return Verdict(not objections, tuple(objections), compared)


def _not_finite(candidate: Scores) -> Iterator[str]:
    """Is any number of any forecast no number?"""
    for fold in candidate.folds:
        wrong = np.argwhere(~np.isfinite(fold.forecast.quantiles).all(axis=2))
        if len(wrong):
            depot, ahead = wrong[0]
            first = f"{fold.forecast.depot_ids[depot]} on {fold.forecast.target_dates[ahead]}"
            yield f"{len(wrong)} forecasts of the fold after {fold.forecast.cutoff} are not numbers, as of {first}"


def _beaten(candidate: Scores, rivals: Mapping[str, Scores], gate: Gate) -> Iterator[str]:
    mine = candidate.metrics[gate.metric]
    for name in gate.beat:
        if name not in rivals:
            if name != CHAMPION:  # of whom there may be none yet
                yield f"{name}, which is to be beaten, was not compared: is it in backtest.baselines, and installed?"
            continue
        theirs = rivals[name].metrics[gate.metric]
        limit = theirs * (1 - gate.margin)
        if mine <= limit * (1 + ROUNDING):
            continue
        objection = f"{gate.metric} is {mine:.4f}, wanted at most {limit:.4f} to beat {name} ({theirs:.4f})"
        if name == CHAMPION and gate.margin == 0 and candidate.folds:
            difference = _pairs(candidate, rivals[name], gate).difference()
            if difference.high <= gate.max_loss:
                continue
            objection += f"; {difference.sentence('the candidate', name, gate.metric)}"
            objection += f", wanted surely no worse than {gate.max_loss:.0%}"
        yield objection


def _bounds(candidate: Scores, gate: Gate) -> Iterator[str]:
    metrics, (low, high) = candidate.metrics, gate.coverage
    if not low <= metrics["coverage"] <= high:
        yield f"the 80 % interval covers {metrics['coverage']:.3f}, wanted {low} to {high}"
    if not abs(bias := metrics["bias"]) <= (most := gate.max_bias):
        yield f"bias (forecast minus actual) is {bias:+.4f} of demand, wanted -{most} to {most}"


def _vetoes(candidate: Scores, champion: Scores, gate: Gate) -> Iterator[str]:
    """Large depots that the candidate serves much worse, by more than chance."""
    if not candidate.folds:
        return
    demand = np.nansum(np.concatenate([fold.actuals for fold in candidate.folds], axis=1), axis=1)
    order = np.argsort(-demand, kind="stable")
    before = np.cumsum(demand[order]) - demand[order]
    compared = _pairs(candidate, champion, gate)
    for depot in order[before < LARGE * demand.sum()].tolist():
        difference = compared.difference(depot)
        if difference.days >= LEAST and difference.relative > gate.worst_depot and difference.low > 0:
            depot_id = candidate.folds[0].forecast.depot_ids[depot]
            sentence = difference.sentence("the candidate", "the champion", gate.metric)
            yield f"at {depot_id}, one of the largest, {sentence}, wanted at most {gate.worst_depot:.0%} worse"


def _pairs(candidate: Scores, champion: Scores, gate: Gate) -> Pairs:
    return pairs(candidate.folds, champion.folds, candidate.scale, gate.metric)
