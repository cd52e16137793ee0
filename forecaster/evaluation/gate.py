"""Promotion gate: decide whether tonight's candidate may replace the champion.

All were scored on the same folds, which none of them trained on. An unknown number objects: every test is written so
that NaN fails it. Where the held-out days have no demand at all, that is said once, and nothing else.

A candidate that is no better than the champion need not be worse: where their difference is so small that chance
explains it, and surely below what the pipeline file allows, the fresher model goes out. Nor is a coverage or a bias
outside its bounds an objection where so few days may have it by chance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np

from forecaster.config import Gate
from forecaster.core.forecast import Scores, Verdict
from forecaster.core.terminal import count
from forecaster.evaluation.paired_test import Pairs, pairs
from forecaster.evaluation.sampling_error import HeldOut

CHAMPION = "champion"
ROUNDING = 1e-4  # relative: a candidate that is the champion again says so to within the parity of ONNX and JAX
LARGE = 0.5  # the largest depots that together make this share of demand have a veto,
LEAST = 14  # each with so many scored days at least


def judge(candidate: Scores, rivals: Mapping[str, Scores], gate: Gate) -> Verdict:
    """Judge a candidate; `rivals` holds the models to beat by name, those that there are."""
    objections = [*_not_finite(candidate)]
    held_out = HeldOut.of(candidate.folds, candidate.scale) if candidate.folds else None
    if held_out and not held_out.demand > 0:
        objections.append(_no_demand(held_out))
    else:
        objections += [*_beaten(candidate, rivals, gate), *_bounds(candidate, held_out, gate)]
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
            which = count(len(wrong), "forecast")
            are = "is no number" if len(wrong) == 1 else "are not numbers"
            yield f"{which} of the fold after {fold.forecast.cutoff} {are}, as of {first}"


def _no_demand(held_out: HeldOut) -> str:
    if not held_out.days:
        return "no count is known of the held-out days: nothing can be compared"
    days = "day" if held_out.days == 1 else "days"
    return f"no demand on the {held_out.days} held-out {days}: nothing can be compared"


def _beaten(candidate: Scores, rivals: Mapping[str, Scores], gate: Gate) -> Iterator[str]:
    mine = candidate.metrics[gate.metric]
    for name in gate.beat:
        if name not in rivals:
            if name != CHAMPION:  # of whom there may be none yet
                yield f"{name}, which is to be beaten, was not compared: is it declared, and installed?"
            continue
        theirs = rivals[name].metrics[gate.metric]
        if not (math.isfinite(mine) and math.isfinite(theirs)):
            unknown = "the candidate" if not math.isfinite(mine) else name
            yield f"{gate.metric} of {unknown} is not a number, so that the candidate cannot be compared with {name}"
            continue
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


def _bounds(candidate: Scores, held_out: HeldOut | None, gate: Gate) -> Iterator[str]:
    """Is coverage or bias outside its bounds, and surely so? Without folds nothing is known of chance."""
    coverage, bias, (low, high) = candidate.metrics["coverage"], candidate.metrics["bias"], gate.coverage
    over = f" over {count(held_out.days, 'day')}" if held_out else ""
    if not math.isfinite(coverage):
        yield f"what the 80 % interval covers is not a number, wanted {low} to {high}"
    elif not low <= coverage <= high and (held_out is None or held_out.surely_covers_outside(coverage, low, high)):
        yield f"the 80 % interval covers {coverage:.3f}{over}, wanted {low} to {high}{_surely(held_out)}"
    most = gate.max_bias
    if not math.isfinite(bias):
        yield f"bias (forecast minus actual) is not a number, wanted -{most} to {most} of demand"
    elif abs(bias) > most and (held_out is None or held_out.surely_biased(bias, most)):
        detail = f"bias (forecast minus actual) is {bias:+.4f} of demand{over}"
        yield f"{detail}, wanted -{most} to {most}{_surely(held_out)}"


def _surely(held_out: HeldOut | None) -> str:
    return ", which is more than chance" if held_out else ""


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
