"""The lines that a run may take, each from top to bottom.

The two ends of the night do not depend on its middle. When no model can be made tonight, or the gate says no, the
reigning champion forecasts; with none, the seasonal-naive fallback does. `by` has the stages: `flows.tasks`, where
Prefect adds its policies, or `flows.steps` without them.
"""

from __future__ import annotations

from typing import Any

from flows.night import Night


def nightly(night: Night, by: Any) -> None:
    """From readings to the page in one straight line."""
    with night.goes_on("the sources could not be read"):
        by.ingest(night)
    knowledge, panel = by.panel(night)
    with night.goes_on("no model could be made tonight"):
        candidate = by.train(night, panel, knowledge)
        candidate, scores = by.backtest(night, candidate, panel, knowledge)
        verdict = by.gate(night, scores)
        exported = by.export(night, candidate, panel, scores, knowledge) if verdict.admitted else None
        by.record(night, candidate, panel, scores, verdict, exported)
        version = None
        with night.goes_on("the registry could not be told, which a later night makes up for"):
            version = by.register(night)
        if exported is not None:
            by.promote(night, exported, version)
    by.predict(night)


def predict_only(night: Night, by: Any) -> None:
    """The morning's refresh: the champion forecasts again, with what came late."""
    with night.goes_on("the sources could not be read"):
        by.ingest(night)
    by.predict(night)


def backfill(night: Night, by: Any) -> None:
    """A past date as it was known: by the champion of that date, or a model trained as of it and never promoted."""
    exported = None
    if night.trains:
        knowledge, panel = by.panel(night)
        with night.goes_on("no model could be made as of that date"):
            candidate = by.train(night, panel, knowledge)
            candidate, scores = by.backtest(night, candidate, panel, knowledge)
            if by.gate(night, scores).admitted:
                exported = by.export(night, candidate, panel, scores, knowledge)
    by.archive(night, exported)


def maintain(night: Night, by: Any) -> None:
    """Put the lake's small files together, and remove what has been kept long enough."""
    by.tidy(night)
