"""State directory layout: the one definition of the paths in a pipeline's `state` folder.

    ledger.db               runs, publications, promotions, overrides (unless `ledger` names another database)
    lake/                   the Delta tables (unless `lake` names another place)
    mlflow.db               the registry (unless `registry` names a server), with mlflow_artifacts/
    bundles/DIGEST          signed models; DIGEST.tar.zst is the same as one file
    keys/                   keys that sign, verify and decrypt bundles
    desks/DIGEST.npz        saved inputs of publications
    registry_waiting/RUN    outbox: records not yet sent to the registry
    checkpoints/            of an unfinished training; backtest/checkpoints of the command `backtest`
    graphs/, jax_cache/     caches: exported graphs, compiled programs
    profiles/RUN            traces of trainings
    page_answers/HOST.json  number of failed and slow responses of the page, by hour
    specs/DIGEST.json       pipeline files that published, with which `plan` compares; plan.json is its last output
    groups/RUN              intermediate results of a run by groups of depots, until it is done
    restoring               the backup that is being restored, until it is done
    reports/RUN/            the report of a night's model, and the id of its MLflow run
    report.html, check.html the last run and the last check, as pages
    up.json, logs/, prefect/, artifacts/    state of `forecaster up` and Prefect
    start.log               output of the run that the guide of `forecaster start` started

The names are a stable interface: later versions read the state that earlier ones wrote.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class StatePaths:
    """Locations of one pipeline's state; nothing is created or read."""

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
        """Log of the last run that was started from a page: the guide of `forecaster start`, or the
        settings."""
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
