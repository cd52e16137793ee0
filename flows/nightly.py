"""The night: from readings to the page in one straight line.

The two ends do not depend on the middle. When no model can be made tonight, or the gate says no, the reigning champion
forecasts; with none, the seasonal-naive fallback does.
"""

from __future__ import annotations

from prefect import flow

from flows import tasks
from flows.night import Night


@flow(name="nightly", flow_run_name="nightly {as_of}", persist_result=False)
def nightly(file: str, as_of: str | None = None, profile: bool = False) -> int:
    """Run one night of a pipeline file; `as_of` is an ISO instant, now by default. Returns the exit code."""
    night = Night.begin(file, as_of, profile=profile)
    with night.ends_in_an_outcome():
        with night.goes_on("the sources could not be read"):
            tasks.ingest(night)
        knowledge, panel = tasks.panel(night)
        with night.goes_on("no model could be made tonight"):
            candidate = tasks.train(night, panel, knowledge)
            scores = tasks.backtest(night, candidate, panel, knowledge)
            verdict = tasks.gate(night, scores)
            exported = tasks.export(night, candidate, panel, scores, knowledge) if verdict.admitted else None
            tasks.record(night, candidate, panel, scores, verdict, exported)
            version = None
            with night.goes_on("the registry could not be told, which a later night makes up for"):
                version = tasks.register(night)
            if exported is not None:
                tasks.promote(night, exported, version)
        tasks.predict(night)
    return night.exit_code
