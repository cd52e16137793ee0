"""MLflow's folder of a model: the signed bundle with the code that calls it on a data frame, its
signature and an example.

Two flavors: `python_function` (`forecaster.api.registered_model`: long frame in, quantiles out),
`onnx` (the graph).
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import mlflow
import mlflow.pyfunc
import onnx
import pandas as pd
from mlflow.entities import LoggedModel
from mlflow.models import Model, ModelSignature
from mlflow.types import ColSpec, Schema
from mlflow.types.schema import AnyType

from forecaster.registry import carried_code
from forecaster.registry.run_record import BUNDLE

LOADER = "forecaster.api.registered_model"
# Imports of the contained code are covered by these; holidays are in the bundle.
REQUIREMENTS = [f"{name}=={version(name)}" for name in ("mlflow", "numpy", "onnxruntime", "pandas", "pyarrow")]
GRAPH = "model.onnx"


def write(
    target: Path,
    logged: LoggedModel,
    run_id: str,
    *,
    bundle: Path,
    beside: Path,
    keys: Path,
    example: Mapping[str, Any],
) -> None:
    """Write the folder `target`, with the files `beside` the bundle and the public `keys` that
    verify it."""
    data = target.with_name("data")
    shutil.copytree(beside, data)
    shutil.copytree(bundle, data / BUNDLE / bundle.name)
    (data / "keys").mkdir()
    for key in keys.glob("*.pub.pem"):
        shutil.copy2(key, data / "keys")
    code, loader = carried_code.write(target.with_name("code"), LOADER)
    model = Model(
        artifact_path=logged.artifact_location, run_id=run_id, model_uuid=logged.model_id, model_id=logged.model_id
    )
    mlflow.pyfunc.save_model(
        target,
        loader_module=loader,
        code_paths=[str(code)],
        data_path=str(data),
        mlflow_model=model,
        signature=signature(example),
        input_example=_frame(example),
        pip_requirements=REQUIREMENTS,
    )
    graph = f"data/data/{BUNDLE}/{bundle.name}/{GRAPH}"
    model.add_flavor("onnx", onnx_version=onnx.__version__, data=graph, providers=["CPUExecutionProvider"])
    model.save(str(target / "MLmodel"))


def signature(example: Mapping[str, Any]) -> ModelSignature:
    """Return the signature of the model: its input and output columns."""
    takes = [
        ColSpec(AnyType() if kind == "any" else kind, name, required=must)
        for name, (kind, must) in example["takes"].items()
    ]
    return ModelSignature(Schema(takes), Schema([ColSpec(kind, name) for name, kind in example["gives"].items()]))


def _frame(example: Mapping[str, Any]) -> pd.DataFrame:
    frame = pd.DataFrame(example["rows"], columns=list(example["takes"]))
    days = [name for name, (kind, _) in example["takes"].items() if kind == "datetime"]
    return frame.assign(**{name: pd.to_datetime(frame[name]) for name in days})
