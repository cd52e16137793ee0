"""Promotion gate: decide whether the candidate may replace the champion.

All models were scored on the same folds, on which none of them was trained. An unknown number is an
objection: every test is written so that NaN fails it. If the held-out days have no demand at all,
that is the only objection.

A candidate that is no better than the champion need not be worse: if chance explains their
difference, and it is significantly below the limit of the pipeline file, the fresher model is
published. Nor is a coverage or a bias outside its bounds an objection if so few days may have it by
chance.

A rejection must not keep a worse forecast in place. An objection becomes a caution, with which the
candidate is admitted, if the model that would be published instead is significantly worse in the
metric, or violates the same bound as badly and is no better in the metric.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from forecaster.config import Gate
from forecaster.core.forecast import Scores, Verdict
from forecaster.core.language import N_
from forecaster.core.language.sentences import amount, counted, sentence
from forecaster.evaluation.paired_test import Pairs, pairs
from forecaster.evaluation.sampling_error import HeldOut

CHAMPION = "champion"
CANDIDATE, OF_CHAMPION = N_("the candidate"), N_("the champion")
# relative: a candidate identical to the champion may differ by the parity of ONNX and JAX
ROUNDING = 1e-4
BIAS, COVERAGE = "bias", "coverage"
LARGE = 0.5  # the largest depots that together have this share of demand have a veto,
LEAST = 14  # fewest scored days of each of them


def judge(candidate: Scores, rivals: Mapping[str, Scores], gate: Gate, *, instead: str | None = None) -> Verdict:
    """Judge a candidate; `rivals` holds the available models to beat, by name.

    `instead` is the name of the rival that is published if the candidate is rejected; without it,
    every objection rejects the candidate.
    """
    final, bounds = [*_not_finite(candidate)], dict[str, str]()
    held_out = HeldOut.of(candidate.folds, candidate.scale) if candidate.folds else None
    if held_out and not held_out.demand > 0:
        final.append(_no_demand(held_out))
    else:
        bounds = dict(_beaten(candidate, rivals, gate)) | dict(_bounds(candidate, held_out, gate))
        final += [bounds.pop(name) for name in gate.beat if name in bounds and name in (instead, CHAMPION)]
        final += _vetoes(candidate, rivals, gate)
    excuses = []
    if instead is not None and bounds and not final:
        excuses = _excuses(candidate, rivals[instead], gate, tuple(bounds))
    objections = (*final, *bounds.values())
    compared = {scores.model: dict(scores.metrics) for scores in (candidate, *rivals.values())}
    return Verdict(not objections or bool(excuses), (*objections, *excuses), compared)


def _excuses(candidate: Scores, instead: Scores, gate: Gate, broken: Sequence[str]) -> list[str]:
    """Return sentences that explain why a candidate that violates these bounds is admitted
    nevertheless; empty if it is not."""
    difference = _pairs(candidate, instead, gate).difference()
    if difference.high < 0:
        compared = difference.sentence(sentence(CANDIDATE), instead.model, gate.metric)
        worse = N_("{name} would be published instead, and {compared}")
        return [sentence(worse, name=instead.model, compared=compared)]
    excess, rival_excess = _excess(candidate, gate), _excess(instead, gate)
    as_bad = (name in excess and rival_excess[name] >= excess[name] for name in broken)
    if difference.relative <= 0 and all(as_bad):
        alike = N_(
            "{name} would be published instead: its bias is {bias} of demand, and its 80 % interval covers {coverage}"
        )
        bias, coverage = (amount(instead.metrics[name], form) for name, form in ((BIAS, "+.4f"), (COVERAGE, ".3f")))
        return [sentence(alike, name=instead.model, bias=bias, coverage=coverage)]
    return []


def _excess(scores: Scores, gate: Gate) -> dict[str, float]:
    """Return the absolute bias, and the distance of the coverage from its bounds, 0 between them."""
    (low, high), coverage = gate.coverage, scores.metrics[COVERAGE]
    return {BIAS: abs(scores.metrics[BIAS]), COVERAGE: max(low - coverage, coverage - high, 0.0)}


def _not_finite(candidate: Scores) -> Iterator[str]:
    """Yield an objection for each fold with a non-finite forecast."""
    for fold in candidate.folds:
        wrong = np.argwhere(~np.isfinite(fold.forecast.quantiles).all(axis=2))
        if len(wrong):
            depot, step = wrong[0]
            yield sentence(
                N_("not numbers: {which} of the fold after {cutoff}, the first of {depot} on {day}"),
                which=counted(len(wrong), "{n} forecast", "{n} forecasts"),
                cutoff=fold.forecast.cutoff,
                depot=fold.forecast.depot_ids[depot],
                day=fold.forecast.target_dates[step],
            )


def _no_demand(held_out: HeldOut) -> str:
    if not held_out.days:
        return sentence(N_("no count is known of the held-out days: nothing can be compared"))
    return sentence(N_("no demand on the held-out days ({days}): nothing can be compared"), days=_days(held_out.days))


def _beaten(candidate: Scores, rivals: Mapping[str, Scores], gate: Gate) -> Iterator[tuple[str, str]]:
    """Yield each model of `gate.beat` that the candidate does not beat, with the objection."""
    for name in gate.beat:
        if name in rivals:
            if (objection := _unbeaten(candidate, rivals[name], name, gate)) is not None:
                yield name, objection
        elif name != CHAMPION:  # there may be no champion yet
            absent = N_("{name}, a required baseline, was not compared: is it declared, and installed?")
            yield name, sentence(absent, name=name)


def _unbeaten(candidate: Scores, rival: Scores, name: str, gate: Gate) -> str | None:
    """Return the objection if the candidate does not beat a rival."""
    mine, theirs = candidate.metrics[gate.metric], rival.metrics[gate.metric]
    if not (math.isfinite(mine) and math.isfinite(theirs)):
        unknown = sentence(CANDIDATE) if not math.isfinite(mine) else name
        incomparable = N_("{metric} of {unknown} is not a number, so that nothing can be compared with {name}")
        return sentence(incomparable, metric=gate.metric, unknown=unknown, name=name)
    limit = theirs * (1 - gate.margin)
    if mine <= limit * (1 + ROUNDING):
        return None
    objection = sentence(
        N_("{metric} is {mine}, wanted at most {limit} to beat {name} ({theirs})"),
        metric=gate.metric,
        mine=amount(mine, ".4f"),
        limit=amount(limit, ".4f"),
        name=name,
        theirs=amount(theirs, ".4f"),
    )
    if name != CHAMPION or gate.margin != 0 or not candidate.folds:
        return objection
    difference = _pairs(candidate, rival, gate).difference()
    if difference.high <= gate.max_loss:
        return None
    return sentence(
        N_("{objection}; {difference}, wanted surely no worse than {most}"),
        objection=objection,
        difference=difference.sentence(sentence(CANDIDATE), name, gate.metric),
        most=amount(gate.max_loss, ".0%"),
    )


def _bounds(candidate: Scores, held_out: HeldOut | None, gate: Gate) -> Iterator[tuple[str, str]]:
    """Yield coverage and bias if they are significantly outside their bounds, with the objection.

    Without folds, significance is not tested.
    """
    coverage, bias, (low, high) = candidate.metrics["coverage"], candidate.metrics["bias"], gate.coverage
    limits = {"low": str(low), "high": str(high)}
    if not math.isfinite(coverage):
        yield COVERAGE, sentence(N_("coverage of the 80 % interval is not a number, wanted {low} to {high}"), **limits)
    elif not low <= coverage <= high and (held_out is None or held_out.surely_covers_outside(coverage, low, high)):
        covers = sentence(
            N_("the 80 % interval covers {coverage}, wanted {low} to {high}"),
            coverage=amount(coverage, ".3f"),
            **limits,
        )
        yield COVERAGE, _surely(covers, held_out)
    most = gate.max_bias
    if not math.isfinite(bias):
        unknown = N_("bias (forecast minus actual) is not a number, wanted -{most} to {most} of demand")
        yield BIAS, sentence(unknown, most=str(most))
    elif abs(bias) > most and (held_out is None or held_out.surely_biased(bias, most)):
        biased = N_("bias (forecast minus actual) is {bias} of demand, wanted -{most} to {most}")
        yield BIAS, _surely(sentence(biased, bias=amount(bias, "+.4f"), most=str(most)), held_out)


def _surely(objection: str, held_out: HeldOut | None) -> str:
    if held_out is None:
        return objection
    surely = N_("{objection}, which is more than chance over {days}")
    return sentence(surely, objection=objection, days=_days(held_out.days))


def _days(number: int) -> str:
    return counted(number, "{n} day", "{n} days")


def _vetoes(candidate: Scores, rivals: Mapping[str, Scores], gate: Gate) -> Iterator[str]:
    """Yield an objection for each large depot where the candidate is significantly and much worse
    than the champion."""
    if CHAMPION not in gate.beat or CHAMPION not in rivals or not candidate.folds:
        return
    demand = np.nansum(np.concatenate([fold.actuals for fold in candidate.folds], axis=1), axis=1)
    order = np.argsort(-demand, kind="stable")
    before = np.cumsum(demand[order]) - demand[order]
    compared = _pairs(candidate, rivals[CHAMPION], gate)
    for depot in order[before < LARGE * demand.sum()].tolist():
        difference = compared.difference(depot)
        if difference.days >= LEAST and difference.relative > gate.worst_depot and difference.low > 0:
            depot_id = candidate.folds[0].forecast.depot_ids[depot]
            yield sentence(
                N_("at {depot}, one of the largest, {difference}, wanted at most {most} worse"),
                depot=depot_id,
                difference=difference.sentence(sentence(CANDIDATE), sentence(OF_CHAMPION), gate.metric),
                most=amount(gate.worst_depot, ".0%"),
            )


def _pairs(candidate: Scores, rival: Scores, gate: Gate) -> Pairs:
    """Pair a candidate with a rival, which may have been scored on a sample of the depots."""
    depot_ids = next((fold.forecast.depot_ids for fold in rival.folds), ())
    return pairs([fold.among(depot_ids) for fold in candidate.folds], rival.folds, rival.scale, gate.metric)
