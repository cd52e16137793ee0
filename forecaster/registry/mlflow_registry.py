"""Model registry in MLflow: every night a run, every admitted model a version, and the champion an alias.

Which model forecasts is decided by the ledger; the registry tells the same story to those who review runs.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
os.environ.setdefault("MLFLOW_ALLOW_PICKLE_DESERIALIZATION", "false")
os.environ.setdefault("GIT_PYTHON_REFRESH", "quiet")
os.environ.setdefault(
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2"
)  # not for minutes: what is not told now waits in the outbox
os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")

import mlflow  # the environment first: MLflow reads it on import
import onnx
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, Run
from mlflow.models import ModelSignature
from mlflow.types import Schema, TensorSpec

from forecaster.serving.encryption import is_encrypted

if TYPE_CHECKING:
    from forecaster.registry.run_record import Record

CHAMPION, CHALLENGER, PREVIOUS, CANARY = "champion", "challenger", "previous", "canary"


class Registry:
    """An MLflow tracking store: an SQLite file, or a server."""

    def __init__(self, uri: str, pipeline: str, artifacts: Path) -> None:
        """`artifacts` is where an embedded store keeps files; a server has its own place."""
        # MLflow's own tables are made on first use, which it tells at length.
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
            experiment.experiment_id if experiment else self._client.create_experiment(pipeline, location)
        )

    def log(self, record: Record, pictures: Path, bundle: Path | None) -> str | None:
        """Log one run; with a bundle, register its model. Returns the model's version, None without a bundle.

        `pictures` is a folder of files. A run that was logged before, but not to its end, is logged anew under the
        same name; a bundle that is registered already, from an earlier run with the same result, keeps its version.
        """
        for unfinished in self._client.search_runs([self._experiment], f"tags.run_id = '{record.run_id}'"):
            self._discard(unfinished)
        with mlflow.start_run(experiment_id=self._experiment, run_name=record.run_id) as run:
            run_id = run.info.run_id
            mlflow.set_tags({**record.tags, "run_id": record.run_id})
            params = [Param(key, str(value)[:500]) for key, value in record.parameters.items()]
            now = int(run.info.start_time)
            metrics = [Metric(key, float(value), now, 0) for key, value in record.metrics.items() if value == value]
            for number, epoch in enumerate(record.epochs, 1):
                metrics += [Metric(name, float(value), now, number) for name, value in epoch.items()]
            for start in range(0, max(len(metrics), 1), 1000):
                self._client.log_batch(run_id, metrics[start : start + 1000], params if start == 0 else [])
            self._client.log_inputs(run_id, [_input(table, version) for table, version in record.inputs.items()])
            if any(pictures.iterdir()):
                mlflow.log_artifacts(str(pictures))
            if bundle is None:
                return None
            mlflow.log_artifacts(str(bundle), "bundle")
            return self.version_of(bundle.name) or self._register(bundle, run_id, str(run.info.artifact_uri))

    def _discard(self, unfinished: Run) -> None:
        """Delete a run, with its files where they lie in a folder: MLflow alone only hides both. A run that a model's
        version came from keeps them."""
        run_id, artifacts = unfinished.info.run_id, str(unfinished.info.artifact_uri)
        self._client.delete_run(run_id)
        if not artifacts.startswith("file://") or self._client.search_model_versions(f"run_id = '{run_id}'"):
            return
        models = self._client.search_logged_models([self._experiment], f"source_run_id = '{run_id}'")
        for model in models:
            self._client.delete_logged_model(model.model_id)
        for place in (artifacts, *(str(model.artifact_location) for model in models)):
            shutil.rmtree(url2pathname(urlsplit(place.removesuffix("/artifacts")).path), ignore_errors=True)

    def _register(self, bundle: Path, run_id: str, artifacts: str) -> str:
        content = (bundle / "model.onnx").read_bytes()
        if not self._client.search_registered_models(f"name = '{self._pipeline}'"):
            self._client.create_registered_model(self._pipeline)
        tags = {"bundle": bundle.name}
        if is_encrypted(content):  # the registry gets it as it lies, and no model that anyone could load
            encrypted = self._client.create_model_version(self._pipeline, f"{artifacts}/bundle", run_id, tags=tags)
            return str(encrypted.version)
        model = onnx.load_model_from_string(content)
        logged = mlflow.onnx.log_model(
            model,
            name="model",
            signature=_signature(model),
            pip_requirements=["onnxruntime", "numpy"],
            save_as_external_data=False,
        )
        registered = self._client.create_model_version(
            self._pipeline, logged.model_uri, run_id, tags=tags, model_id=logged.model_id
        )
        return str(registered.version)

    def version_of(self, bundle: str) -> str | None:
        """The version of the model of a bundle, None where it has none."""
        versions = self._client.search_model_versions(f"name = '{self._pipeline}' and tags.bundle = '{bundle}'")
        return str(versions[0].version) if versions else None

    def challenge(self, version: str) -> None:
        """Let the challenger alias name this version: the latest that was let in, whether or not it reigns."""
        self._client.set_registered_model_alias(self._pipeline, CHALLENGER, version)

    def try_out(self, version: str | None) -> None:
        """Let the canary alias name the version that some depots see; None: no alias."""
        if version is not None:
            self._client.set_registered_model_alias(self._pipeline, CANARY, version)
        elif CANARY in self._client.get_registered_model(self._pipeline).aliases:
            self._client.delete_registered_model_alias(self._pipeline, CANARY)

    def promote(self, version: str, previous: str | None = None) -> None:
        """Let the champion alias name this version, and the other alias the one to go back to."""
        self._client.set_registered_model_alias(self._pipeline, CHAMPION, version)
        if previous is not None:
            self._client.set_registered_model_alias(self._pipeline, PREVIOUS, previous)


def _input(table: str, version: int) -> DatasetInput:
    """A table of the lake at the version that a night read, as a dataset of its run."""
    digest = str(version)
    source = json.dumps({"table": table, "version": version})
    return DatasetInput(
        Dataset(table, digest, "delta_dataset_source", source), [InputTag("mlflow.data.context", "night")]
    )


def _signature(model: Any) -> ModelSignature:
    def specs(values: Any) -> Schema:
        tensors = []
        for value in values:
            tensor = value.type.tensor_type
            shape = tuple(d.dim_value if d.HasField("dim_value") else -1 for d in tensor.shape.dim)
            tensors.append(TensorSpec(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type), shape, value.name))
        return Schema(tensors)

    return ModelSignature(specs(model.graph.input), specs(model.graph.output))
