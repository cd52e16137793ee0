"""Promotion gate: whether tonight's candidate may replace the champion, by their scores in the backtest."""

from __future__ import annotations

from collections.abc import Mapping

from forecaster.config import Spec
from forecaster.core.forecast import Scores, Verdict
from forecaster.evaluation import gate
from forecaster.training.backtest import CANDIDATE


def judge(scores: Mapping[str, Scores], spec: Spec) -> Verdict:
    """The gate's verdict on the candidate beside all other models of `scores`."""
    rivals = {name: of_model for name, of_model in scores.items() if name != CANDIDATE}
    return gate.judge(scores[CANDIDATE], rivals, spec.gate)
