"""Deep links into MLflow: addresses of a run, a model's version, or all runs of a pipeline.

By default, MLflow 3 shows a new browser its view for generative models, which has no training runs;
the parameter `workflowType` of an address selects the other one. If the registry is a file, MLflow
has an address while `forecaster up` serves it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit, urlunsplit

from forecaster.core import artifact
from forecaster.ledger import lease

if TYPE_CHECKING:
    from pathlib import Path

    from forecaster.config import Spec

VIEW = "?workflowType=machine_learning"
UI = "http://127.0.0.1:5000"  # default address of `mlflow ui`


@dataclass(frozen=True)
class RegisteredRun:
    """MLflow run of a night, and the version of its model, if it has one."""

    experiment: str
    run: str
    version: str | None = None

    def table(self, base: str) -> str:
        """Return the address of the table of the pipeline's runs."""
        return f"{base}/#/experiments/{quote(self.experiment, safe='')}/runs{VIEW}"

    def address(self, base: str) -> str:
        return f"{base}/#/experiments/{quote(self.experiment, safe='')}/runs/{quote(self.run, safe='')}{VIEW}"


def version_address(base: str, model: str, version: str) -> str:
    return f"{base}/#/models/{quote(model, safe='')}/versions/{quote(version, safe='')}{VIEW}"


def base_address(spec: Spec) -> str | None:
    """Return the address of MLflow's pages, without a trailing slash and without a password; None
    if it has no address."""
    if spec.registry_url.startswith(("http://", "https://")):
        parts = urlsplit(spec.registry_url)
        return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")).rstrip("/")
    return _served_by_up(spec)


def _served_by_up(spec: Spec) -> str | None:
    """Return the address of MLflow under `forecaster up` on this machine, if it is running."""
    content = _json(spec.paths.local_stack)
    try:
        return None if lease.is_gone(content["holder"]) else str(content["health"]["mlflow"]).removesuffix("/health")
    except (TypeError, KeyError, ValueError):  # nothing is running, or another version wrote the file
        return None


def keep(spec: Spec, run_id: str, registered: RegisteredRun) -> None:
    """Store the MLflow run of a night next to its report."""
    artifact.write(spec.paths.registered_run(run_id), json.dumps(vars(registered)).encode())


def registered_run(spec: Spec, run_id: str) -> RegisteredRun | None:
    """Return the MLflow run of a night; None if it was not sent to MLflow, or from another machine."""
    content = _json(spec.paths.registered_run(run_id))
    try:
        return RegisteredRun(**content)
    except TypeError:
        return None


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text("utf-8"))
    except (OSError, ValueError):
        return None
