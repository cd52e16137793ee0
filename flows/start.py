"""Start a night from the command line: prepare the environment, then let Prefect run the line."""

from __future__ import annotations

import importlib
import threading
from datetime import datetime
from pathlib import Path

from flows import embedded, server
from forecaster.spec import Spec

HEAVY = ("forecaster.stages.learn", "forecaster.registry", "forecaster.pictures")  # JAX, MLflow and Matplotlib


def nightly(file: Path, spec: Spec, as_of: datetime | None = None) -> int:
    """Run tonight's line for a pipeline file; the exit code says how it ended."""
    embedded.prepare(spec.state_folder)
    with server.running() as ready:
        # The server takes some ten seconds: meanwhile import the flow, and what its stages will need.
        from flows.nightly import nightly as flow  # only now: Prefect reads the environment on import

        threading.Thread(target=_import, args=(HEAVY,), daemon=True).start()
        ready()
        code: int = flow(str(file), as_of.isoformat() if as_of else None)
    return code


def _import(names: tuple[str, ...]) -> None:
    for name in names:
        importlib.import_module(name)
