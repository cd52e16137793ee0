"""Decide whether tonight's candidate may replace the champion.

All were scored on the same folds, which none of them trained on. An unknown number objects: every test is written so
that NaN fails it.
"""

from __future__ import annotations

from collections.abc import Mapping

from forecaster.spec import Gate
from forecaster.values import Scores, Verdict

ROUNDING = 1e-4  # relative: a candidate that is the champion again says so to within the parity of ONNX and JAX


def judge(candidate: Scores, rivals: Mapping[str, Scores], gate: Gate) -> Verdict:
    """The verdict on a candidate; `rivals` holds the models to beat by name, those that there are."""
    found, objections = candidate.metrics, []
    mine = found[gate.metric]
    for name in gate.beat:
        if name not in rivals:
            continue  # no champion reigns yet
        theirs = rivals[name].metrics[gate.metric]
        if not mine <= theirs * (1 - gate.margin) * (1 + ROUNDING):
            wanted = f"at most {theirs * (1 - gate.margin):.4f}"
            objections.append(f"{gate.metric} is {mine:.4f}, wanted {wanted} to beat {name} ({theirs:.4f})")
    low, high = gate.coverage
    if not low <= found["coverage"] <= high:
        objections.append(f"the 80 % interval covers {found['coverage']:.3f}, wanted {low} to {high}")
    if not abs(found["bias"]) <= gate.max_bias:
        objections.append(
            f"bias (forecast minus actual) is {found['bias']:+.4f} of demand, wanted at most {gate.max_bias}"
        )
    compared = {scores.model: dict(scores.metrics) for scores in (candidate, *rivals.values())}
    return Verdict(not objections, tuple(objections), compared)
