"""The pipelines (lines) that a run may take, each from top to bottom.

The two ends of the night do not depend on its middle. When no model can be made tonight, or the gate says no, the
reigning champion forecasts; with none, the seasonal-naive fallback does.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from flows.night import Night

if TYPE_CHECKING:
    from forecaster.core.forecast import Candidate, Scores, Verdict
    from forecaster.core.knowledge import Knowledge
    from forecaster.core.panel import Panel
    from forecaster.training.export import ExportedBundle


def nightly(night: Night, steps: Steps) -> None:
    """From readings to the page in one straight line."""
    with night.goes_on("the sources could not be read"):
        steps.ingest(night)
    knowledge, panel = steps.panel(night)
    with night.goes_on("no model could be made tonight"):
        candidate = steps.train(night, panel, knowledge)
        candidate, scores = steps.backtest(night, candidate, panel, knowledge)
        verdict = steps.gate(night, scores)
        exported = steps.export(night, candidate, panel, scores, knowledge) if verdict.admitted else None
        steps.record(night, candidate, panel, scores, verdict, exported)
        version = None
        with night.goes_on("the registry could not be told, which a later night makes up for"):
            version = steps.register(night)
        if exported is not None:
            steps.promote(night, exported, version)
    steps.predict(night)


def predict_only(night: Night, steps: Steps) -> None:
    """The morning's refresh: the champion forecasts again, with what came late."""
    with night.goes_on("the sources could not be read"):
        steps.ingest(night)
    steps.predict(night)


def backfill(night: Night, steps: Steps) -> None:
    """A past date as it was known: by the champion of that date, or a model trained as of it and never promoted."""
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
    """Put the lake's small files together, and remove what has been kept long enough."""
    steps.tidy(night)


class Steps(Protocol):
    """The steps of a line: plain functions in `flows.steps`, Prefect tasks with their policies in `flows.tasks`."""

    def ingest(self, night: Night, /) -> None:
        """Source → demand table, in `forecaster.demand.ingest`."""

    def panel(self, night: Night, /) -> tuple[Knowledge, Panel]:
        """Demand table → Panel, in `forecaster.demand.panel`."""

    def train(self, night: Night, panel: Panel, knowledge: Knowledge, /) -> Candidate:
        """Panel → Candidate, in `forecaster.training.train`."""

    def backtest(
        self, night: Night, candidate: Candidate, panel: Panel, knowledge: Knowledge, /
    ) -> tuple[Candidate, dict[str, Scores]]:
        """Candidate → Scores of every model by name, in `forecaster.training.backtest`."""

    def gate(self, night: Night, scores: Mapping[str, Scores], /) -> Verdict:
        """Scores → Verdict, in `forecaster.training.gate`."""

    def export(
        self, night: Night, candidate: Candidate, panel: Panel, scores: Mapping[str, Scores], knowledge: Knowledge, /
    ) -> ExportedBundle:
        """Candidate → signed bundle, in `forecaster.training.export`."""

    def record(
        self,
        night: Night,
        candidate: Candidate,
        panel: Panel,
        scores: Mapping[str, Scores],
        verdict: Verdict,
        exported: ExportedBundle | None,
        /,
    ) -> None:
        """Scores, Verdict and bundle → the registry's outbox, in `forecaster.training.record`."""

    def register(self, night: Night, /) -> str | None:
        """Outbox → registry, in `forecaster.registry.outbox`; gives the version of tonight's model."""

    def promote(self, night: Night, exported: ExportedBundle, version: str | None, /) -> None:
        """Bundle → champion, in `forecaster.ledger.store`; the registry's aliases follow."""

    def predict(self, night: Night, /) -> None:
        """Champion → publication, in `forecaster.publishing.predict`."""

    def archive(self, night: Night, exported: ExportedBundle | None, /) -> None:
        """A past date's forecast → the lake's archive, in `forecaster.publishing.archive`."""

    def tidy(self, night: Night, /) -> None:
        """Apply the declared retention, in `forecaster.operations.retention`."""
