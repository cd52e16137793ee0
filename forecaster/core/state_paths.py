"""State directory layout: the one place that says what lies where in a pipeline's `state` folder.

    ledger.db               runs, publications, promotions, overrides (where `ledger` names no other database)
    lake/                   the Delta tables (where `lake` names no other place)
    mlflow.db               the registry (where `registry` names no server), with mlflow_artifacts/
    bundles/DIGEST          signed models; DIGEST.tar.zst is the same as one file
    keys/                   what signs, verifies and decrypts bundles
    desks/DIGEST.npz        saved inputs: what publications were made from
    registry_waiting/RUN    outbox: what the registry has not been told yet
    checkpoints/            of a training that goes on; backtest/checkpoints of the command `backtest`
    graphs/, jax_cache/     caches: exported graphs, compiled programs
    profiles/RUN            traces of trainings
    page_answers/HOST.json  how many answers of the page were errors or slow, by the hour
    specs/DIGEST.json       pipeline files that published, which `plan` compares with; plan.json is what it showed
    groups/RUN              what a run by groups of depots has in hand, until it is done
    restoring               the backup that a restore is bringing back, until it is done
    reports/RUN/            the report of a night's model, and which run of MLflow it is
    report.html, check.html the last run and the last check, as pages
    up.json, logs/, prefect/, artifacts/    what `forecaster up` and Prefect keep
    start.log           the run that the guide of `forecaster start` began

Names here are a promise: a state that an earlier version wrote is read by later ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StatePaths:
    """Locations of one pipeline's state; nothing is made or read."""

    folder: Path

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def lake(self) -> Path:
        return self.folder / "lake"

    @property
    def mlflow(self) -> Path:
        return self.folder / "mlflow.db"

    @property
    def mlflow_artifacts(self) -> Path:
        return self.folder / "mlflow_artifacts"

    @property
    def bundles(self) -> Path:
        return self.folder / "bundles"

    def bundle(self, digest: str) -> Path:
        """The folder of the bundle with this digest."""
        return self.bundles / digest

    @property
    def keys(self) -> Path:
        return self.folder / "keys"

    @property
    def saved_inputs(self) -> Path:
        return self.folder / "desks"

    @property
    def registry_outbox(self) -> Path:
        return self.folder / "registry_waiting"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def backtest_checkpoints(self) -> Path:
        return self.folder / "backtest" / "checkpoints"

    @property
    def graphs(self) -> Path:
        return self.folder / "graphs"

    @property
    def jax_cache(self) -> Path:
        return self.folder / "jax_cache"

    @property
    def profiles(self) -> Path:
        return self.folder / "profiles"

    @property
    def page_answers(self) -> Path:
        return self.folder / "page_answers"

    @property
    def specs(self) -> Path:
        return self.folder / "specs"

    @property
    def restoring(self) -> Path:
        return self.folder / "restoring"

    @property
    def groups(self) -> Path:
        return self.folder / "groups"

    @property
    def plan(self) -> Path:
        return self.folder / "plan.json"

    @property
    def run_report(self) -> Path:
        return self.folder / "report.html"

    @property
    def reports(self) -> Path:
        return self.folder / "reports"

    def report_of(self, run_id: str) -> Path:
        """The report of a night's model."""
        return self.reports / run_id / "report.html"

    def registered_run(self, run_id: str) -> Path:
        """File that names the MLflow run of a night."""
        return self.reports / run_id / "mlflow.json"

    @property
    def check_report(self) -> Path:
        return self.folder / "check.html"

    @property
    def guide_log(self) -> Path:
        """The log of the last run that a page began: the guide of `forecaster start`, or the settings."""
        return self.folder / "start.log"

    @property
    def local_stack(self) -> Path:
        return self.folder / "up.json"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def prefect(self) -> Path:
        return self.folder / "prefect"

    @property
    def up_artifacts(self) -> Path:
        return self.folder / "artifacts"
