"""Environment variables of Prefect and JAX, which nobody has to set: they must stand before either
is imported.

Whoever set a variable keeps it; `PREFECT_API_URL` in the environment means a server of one's own.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from forecaster.core.state_paths import StatePaths

IMPATIENT = {"PREFECT_API_REQUEST_TIMEOUT": "15", "PREFECT_CLIENT_MAX_RETRIES": "2"}
"""Of a run begun by hand: nothing of the client may hang for minutes."""


def prepare(state: Path) -> None:
    """Point the embedded server at the pipeline's own state folder, and keep everything on this
    machine."""
    home = StatePaths(state).prefect
    home.mkdir(parents=True, exist_ok=True)
    settings = {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        # outcomes are told by the night itself, and kept in its run row
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
        "PREFECT_CLI_COLORS": "false",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    # Prefect's own imports warn of things that are not ours to mend.
    warnings.filterwarnings("ignore", module=r"(prefect|websockets|pydantic|starlette)(\.|$)")
