"""The typed steps of a line, each with the module that does its work: `Steps`, a protocol.

`flows.steps` implements them as plain functions, `flows.tasks` as Prefect tasks.
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


class Steps(Protocol):
    """The steps of a line: plain functions in `flows.steps`, Prefect tasks with their policies in
    `flows.tasks`."""

    def ingest(self, night: Night, /) -> None:
        """Source → demand table, in `forecaster.demand.ingest`."""

    def panel(self, night: Night, /) -> tuple[Knowledge, Panel]:
        """Demand table → Panel, in `forecaster.demand.panel`."""

    def judge(self, night: Night, panel: Panel, /) -> None:
        """Canary → champion, or back, in `forecaster.publishing.canary`."""

    def preview(self, night: Night, panel: Panel, knowledge: Knowledge, /) -> None:
        """Prior → publication until there is a model, in `forecaster.training.preview`."""

    def weigh(self, night: Night, panel: Panel, knowledge: Knowledge, /) -> bool:
        """Panel → whether tonight's training is worth it, in `forecaster.training.worthwhile`."""

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

    def promote(self, night: Night, exported: ExportedBundle, panel: Panel, /) -> None:
        """Bundle → champion, or canary next to it, in `forecaster.ledger.store`."""

    def register(self, night: Night, /) -> None:
        """Outbox → registry, in `forecaster.registry.outbox`; its aliases follow the ledger's
        champion."""

    def predict(self, night: Night, /) -> None:
        """Champion → publication, in `forecaster.publishing.predict`."""

    def archive(self, night: Night, exported: ExportedBundle | None, /) -> None:
        """A past date's forecast → the lake's archive, in `forecaster.publishing.predict`."""

    def tidy(self, night: Night, /) -> None:
        """Apply the declared retention, in `forecaster.operations.retention`."""
