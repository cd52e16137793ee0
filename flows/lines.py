"""The four kinds of run, each from top to bottom; `flows.protocol` documents the steps.

Without training, the champion forecasts; without a champion, the prior or the seasonal naive."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flows.night import Night
from flows.protocol import Steps

if TYPE_CHECKING:
    from collections.abc import Mapping

    from forecaster.core.forecast import Candidate, Scores, Verdict
    from forecaster.core.knowledge import Knowledge
    from forecaster.core.panel import Panel
    from forecaster.training.export import ExportedBundle

    Judged = tuple[Candidate, Panel, Mapping[str, Scores], Verdict, ExportedBundle | None]


def nightly(night: Night, steps: Steps) -> None:
    """Run from readings to publication; the registry's records follow."""
    with night.goes_on("the sources could not be read"):
        steps.ingest(night)
    knowledge, panel = steps.panel(night)
    if night.spec.canary is not None:
        with night.goes_on("the canary could not be judged"):
            steps.judge(night, panel)
    with night.lacks("the prior did not forecast before tonight's model"):
        steps.preview(night, panel, knowledge)
    if night.spec.training.when == "worthwhile":
        night.trains = steps.weigh(night, panel, knowledge)
    outcome: Judged | None = None
    with night.goes_on("no model could be made tonight"):
        outcome = _trained(night, steps, panel, knowledge) if night.trains else None
    steps.predict(night)
    if outcome is not None:
        with night.goes_on("the registry has no record of tonight's model"):
            steps.record(night, *outcome)
    with night.goes_on("the run could not be recorded in the registry; a later night will record it"):
        steps.register(night)


def _trained(night: Night, steps: Steps, panel: Panel, knowledge: Knowledge) -> Judged:
    """Train tonight's model and judge it; an admitted one becomes champion or canary."""
    candidate = steps.train(night, panel, knowledge)
    candidate, scores = steps.backtest(night, candidate, panel, knowledge)
    verdict = steps.gate(night, scores)
    exported = steps.export(night, candidate, panel, scores, knowledge) if verdict.admitted else None
    if exported is not None:
        steps.promote(night, exported, panel)
    return candidate, panel, scores, verdict, exported


def predict_only(night: Night, steps: Steps) -> None:
    """Refresh in the morning: forecast again with the champion, including late data."""
    with night.goes_on("the sources could not be read"):
        steps.ingest(night)
    steps.predict(night)


def backfill(night: Night, steps: Steps) -> None:
    """Forecast a past date with the champion of that date, or with a model that is never promoted."""
    exported = None
    if night.trains:
        knowledge, panel = steps.panel(night)
        with night.goes_on("no model could be made as of that date"):
            candidate = steps.train(night, panel, knowledge)
            candidate, scores = steps.backtest(night, candidate, panel, knowledge)
            if steps.gate(night, scores).admitted:
                exported = steps.export(night, candidate, panel, scores, knowledge)
    steps.archive(night, exported)


def maintain(night: Night, steps: Steps) -> None:
    """Compact the lake's small files, and remove data past its retention."""
    steps.tidy(night)
