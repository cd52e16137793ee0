"""Model registry in MLflow: each night is a run, each admitted model a version, and the champion an
alias.

The ledger decides which model forecasts; the registry mirrors it for those who review runs.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import url2pathname

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
os.environ.setdefault(
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2"
)  # no retries for minutes: the outbox keeps what cannot be sent now
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

import mlflow  # after the environment, which MLflow reads on import
from mlflow.entities import Dataset, DatasetInput, InputTag, LoggedModelOutput, Metric, Param, Run
from mlflow.entities.model_registry import ModelVersion
from mlflow.utils import mlflow_tags

from forecaster.registry.addresses import RegisteredRun
from forecaster.registry.run_record import EVALUATED, InputTable
from forecaster.serving.encryption import is_encrypted

if TYPE_CHECKING:
    from forecaster.ledger.records import Promotion
    from forecaster.registry.run_record import Record

LONGEST_DESCRIPTION = 5000  # characters; limit of MLflow's tables for a version's description
CHAMPION, CHALLENGER, PREVIOUS, CANARY = "champion", "challenger", "previous", "canary"
CANDIDATE = "candidate/"  # prefix of the metrics of the run's own model
AT_ONCE = 1000  # metrics per request to MLflow, at most
# tags of the experiment: models are trained, not agents
KIND = {"mlflow.experimentKind": "custom_model_development"}
REIGNS, REIGNED = "reigns", "reigned"  # values of the tag `champion` of runs and versions


class Registry:
    """An MLflow tracking store: an SQLite file or a server."""

    def __init__(self, uri: str, pipeline: str, artifacts: Path) -> None:
        """Open the store. An embedded store keeps files in `artifacts`; a server has its own
        location."""
        # MLflow creates its own tables on first use and logs it in detail.
        for name in ("alembic", "mlflow.store.db.utils", "mlflow", "urllib3.connectionpool"):
            logging.getLogger(name).setLevel(logging.ERROR)
        if uri.startswith("sqlite:///"):
            Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
        mlflow.set_tracking_uri(uri)
        mlflow.set_registry_uri(uri)
        self._client = mlflow.MlflowClient(uri, uri)
        self._pipeline = pipeline
        experiment = self._client.get_experiment_by_name(pipeline)
        location = artifacts.resolve().as_uri() if uri.startswith("sqlite:") else None
        self._experiment = (
            experiment.experiment_id if experiment else self._client.create_experiment(pipeline, location, KIND)
        )

    def log(
        self, record: Record, files: Path, bundle: Path | None, keys: Path, *, ended: datetime | None = None
    ) -> RegisteredRun:
        """Log one run; with a bundle, register its model, unless an earlier run has registered a
        version of it.

        `files` has the folders `pictures`, which are logged as they are, and `model`, whose files
        go next to the bundle in the model; `keys` is the folder of public keys. An incomplete
        earlier log of the run is replaced under the same name. `ended` is the end of the night;
        None: now.
        """
        for unfinished in self._client.search_runs([self._experiment], f"tags.run_id = '{record.run_id}'"):
            self._discard(unfinished)
        now = datetime.now(UTC)
        began = _milliseconds(record.begun or now)
        run = self._client.create_run(self._experiment, began, _tags(record), record.run_id)
        run_id = run.info.run_id
        pictures = files / "pictures"
        if any(pictures.iterdir()):
            self._client.log_artifacts(run_id, str(pictures))
        version, model_id = None, None
        if bundle is not None:
            self._client.log_artifacts(run_id, str(bundle), "bundle")
            version, model_id = self._model(record, bundle, files / "model", keys, run)
        self._client.log_inputs(run_id, list(_inputs(record)))
        metrics = _metrics(record, model_id, began)
        params = [Param(key, str(value)[:500]) for key, value in record.parameters.items()]
        for start in range(0, max(len(metrics), 1), AT_ONCE):
            self._client.log_batch(run_id, metrics[start : start + AT_ONCE], params if start == 0 else [])
        self._client.set_terminated(run_id, "FINISHED", max(began, _milliseconds(ended or datetime.now(UTC))))
        return RegisteredRun(self._experiment, run_id, version)

    def _discard(self, unfinished: Run) -> None:
        """Delete a run, including its files if they are in a local folder: MLflow alone only hides
        both. The files of a run with a model version are kept."""
        run_id, artifacts = unfinished.info.run_id, str(unfinished.info.artifact_uri)
        self._client.delete_run(run_id)
        if not artifacts.startswith("file://") or self._client.search_model_versions(f"run_id = '{run_id}'"):
            return
        models = self._client.search_logged_models([self._experiment], f"source_run_id = '{run_id}'")
        for model in models:
            self._client.delete_logged_model(model.model_id)
        for place in (artifacts, *(str(model.artifact_location) for model in models)):
            shutil.rmtree(url2pathname(urlsplit(place.removesuffix("/artifacts")).path), ignore_errors=True)

    def _model(self, record: Record, bundle: Path, files: Path, keys: Path, run: Run) -> tuple[str | None, str | None]:
        """Return the version of a bundle's model, registering it if there is none yet, and MLflow's
        id of the model."""
        versions = self._versions(bundle.name)
        if versions:
            return str(versions[0].version), versions[0].model_id
        if not self._client.search_registered_models(f"name = '{self._pipeline}'"):
            self._client.create_registered_model(self._pipeline)
        run_id, tags = run.info.run_id, {"bundle": bundle.name, "run_id": record.run_id}
        about = (self._pipeline, shortened(record.description))
        if is_encrypted((bundle / "model.onnx").read_bytes()) or record.example is None:
            # The registry gets the bundle as it is, without a loadable model.
            source = f"{run.info.artifact_uri}/bundle"
            return str(self._create_version(*about, source, run_id, tags)), None
        from forecaster.registry import logged_model

        model = self._client.create_logged_model(self._experiment, "model", run_id, tags, model_type="forecaster")
        with tempfile.TemporaryDirectory(prefix="forecaster-") as work:
            folder = Path(work) / "model"
            logged_model.write(folder, model, run_id, bundle=bundle, beside=files, keys=keys, example=record.example)
            self._client.log_model_artifacts(model.model_id, str(folder))
        self._client.finalize_logged_model(model.model_id, "READY")
        self._client.log_outputs(run_id, [LoggedModelOutput(model.model_id, 0)])
        version = self._create_version(*about, f"models:/{model.model_id}", run_id, tags, model.model_id)
        return str(version), model.model_id

    def _create_version(
        self,
        name: str,
        description: str,
        source: str,
        run_id: str,
        tags: Mapping[str, str],
        model_id: str | None = None,
    ) -> str:
        created = self._client.create_model_version(
            name, source, run_id, tags=dict(tags), description=description, model_id=model_id
        )
        return str(created.version)

    def version_of(self, bundle: str) -> str | None:
        """Return the model version of a bundle; None if there is none."""
        versions = self._versions(bundle)
        return str(versions[0].version) if versions else None

    def _versions(self, bundle: str) -> list[ModelVersion]:
        query = f"name = '{self._pipeline}' and tags.bundle = '{bundle}'"
        return list(self._client.search_model_versions(query))

    def challenge(self, version: str) -> None:
        """Point the challenger alias to this version: the latest admitted one, champion or not."""
        self._client.set_registered_model_alias(self._pipeline, CHALLENGER, version)

    def try_out(self, version: str | None) -> None:
        """Point the canary alias to the version that some depots see; None removes the alias."""
        if version is not None:
            self._client.set_registered_model_alias(self._pipeline, CANARY, version)
        elif CANARY in self._client.get_registered_model(self._pipeline).aliases:
            self._client.delete_registered_model_alias(self._pipeline, CANARY)

    def promote(self, version: str, previous: str | None = None, *, decision: Promotion | None = None) -> None:
        """Point the champion alias to this version, and the other alias to the version for a
        rollback. The tag `champion` of their runs and versions shows the same for searches, and
        further tags of the version show who decided it, when and why."""
        deposed = self._client.get_registered_model(self._pipeline).aliases.get(CHAMPION)
        self._client.set_registered_model_alias(self._pipeline, CHAMPION, version)
        if previous is not None:
            self._client.set_registered_model_alias(self._pipeline, PREVIOUS, previous)
        if str(deposed) == str(version):
            return
        self._tag(version, REIGNS)
        if decision is not None:
            about = {"by": decision.by, "at": decision.at.isoformat(), "because": decision.reason[:4000]}
            for name, value in about.items():
                self._client.set_model_version_tag(self._pipeline, version, f"promoted_{name}", value)
        if deposed is not None:
            self._tag(str(deposed), REIGNED)

    def _tag(self, version: str, value: str) -> None:
        self._client.set_model_version_tag(self._pipeline, version, CHAMPION, value)
        run_id = self._client.get_model_version(self._pipeline, version).run_id
        if run_id:
            self._client.set_tag(run_id, CHAMPION, value)


def shortened(description: str) -> str:
    """Return the description of a version, cut at a line if it is too long for MLflow."""
    if len(description) <= LONGEST_DESCRIPTION:
        return description
    rest = "\n\nCut here: the run has more, `report.html` and `parts.json` all of it."
    return description[: LONGEST_DESCRIPTION - len(rest)].rpartition("\n")[0] + rest


def _milliseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _tags(record: Record) -> dict[str, str]:
    """Return the record's own tags, and those that MLflow displays in special places."""
    artifacts = [{"path": name, "type": "table"} for name in record.tables]
    ours = {
        mlflow_tags.MLFLOW_USER: record.user,
        mlflow_tags.MLFLOW_SOURCE_NAME: record.source,
        mlflow_tags.MLFLOW_SOURCE_TYPE: "JOB",
        mlflow_tags.MLFLOW_RUN_NOTE: record.description,
        mlflow_tags.MLFLOW_LOGGED_ARTIFACTS: json.dumps(artifacts) if artifacts else "",
    }
    return {**record.tags, **{name: value for name, value in ours.items() if value}, "run_id": record.run_id}


def _metrics(record: Record, model_id: str | None, began: int) -> list[Metric]:
    """Return the headline metrics, which also belong to the model on the held-out days; the curves
    by epoch; the machine's samples."""
    name, digest = next(((t.name, t.digest) for t in record.datasets if t.name == EVALUATED), (None, None))
    measured = {"dataset_name": name, "dataset_digest": digest}
    metrics = [
        Metric(key, float(value), began, 0, model_id=model_id if key.startswith(CANDIDATE) else None, **measured)
        for key, value in record.metrics.items()
        if value == value
    ]
    for number, epoch in enumerate(record.epochs, 1):
        metrics += [Metric(name, float(value), began, number) for name, value in epoch.items() if value == value]
    for number, sample in enumerate(record.system):
        at = round(1000 * sample["at"])
        metrics += [Metric(f"system/{name}", v, at, number) for name, v in sample.items() if name != "at" and v == v]
    return metrics


def _inputs(record: Record) -> Iterator[DatasetInput]:
    """Yield the tables that a night read, and the days on which it was scored; for a record of an
    earlier version, only the table versions."""
    tables = record.datasets or [
        InputTable(name, str(version), {}, {}, version) for name, version in record.inputs.items()
    ]
    for table in tables:
        source = json.dumps({"table": table.name, "version": table.version})
        columns = [{"type": kind, "name": name, "required": False} for name, kind in table.columns.items()]
        schema = json.dumps({"mlflow_colspec": columns}) if columns else None
        profile = json.dumps(dict(table.profile)) if table.profile else None
        context = "evaluation" if table.name == EVALUATED else "night"
        kind = "local" if table.version is None else "delta_dataset_source"
        dataset = Dataset(table.name, table.digest, kind, source, schema, profile)
        yield DatasetInput(dataset, [InputTag("mlflow.data.context", context)])
