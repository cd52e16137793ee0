"""Promotion gate: judge whether the candidate may replace the champion, by their scores in the
backtest."""

from __future__ import annotations

from collections.abc import Mapping

from forecaster.config import Spec
from forecaster.core.forecast import Scores, Verdict
from forecaster.evaluation import gate
from forecaster.training.backtest import CANDIDATE, CHAMPION, NAIVE, PRIOR


def judge(scores: Mapping[str, Scores], spec: Spec) -> Verdict:
    """Judge the candidate among `scores`.

    If it is rejected, the champion is published; without a champion the prior, without both the
    seasonal naive.
    """
    rivals = {name: of_model for name, of_model in scores.items() if name != CANDIDATE}
    instead = next((name for name in (CHAMPION, PRIOR, NAIVE) if name in rivals), None)
    return gate.judge(scores[CANDIDATE], rivals, spec.gate, instead=instead)
