"""Start a night from the command line: prepare the environment, then let Prefect run the line."""

from __future__ import annotations

import importlib
import importlib.util
import threading
from datetime import datetime
from pathlib import Path

from flows import embedded, server
from forecaster.errors import MissingExtra
from forecaster.spec import Spec

NEEDED = ("prefect", "jax", "flax", "optax", "jax2onnx", "mlflow", "matplotlib")
HEAVY = ("forecaster.stages.learn", "forecaster.registry", "forecaster.pictures")  # JAX, MLflow and Matplotlib


def nightly(file: Path, spec: Spec, as_of: datetime | None = None, *, profile: bool = False) -> int:
    """Run tonight's line for a pipeline file; the exit code says how it ended. `profile` leaves a trace of training.

    Raises MissingExtra when a part is not installed.
    """
    if absent := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise MissingExtra(
            f"a night needs {', '.join(absent)}, not installed here: pip install forecaster[train,flows]"
        )
    embedded.prepare(spec.state_folder)
    with server.running() as ready:
        # The server takes some ten seconds: meanwhile import the flow, and what its stages will need.
        from flows.nightly import nightly as flow  # only now: Prefect reads the environment on import

        threading.Thread(target=_import, args=(HEAVY,), daemon=True).start()
        ready()
        code: int = flow(str(file), as_of.isoformat() if as_of else None, profile)
    return code


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)
