"""Defaults of environment variables for Prefect and JAX, which must be set before either is
imported.

Existing values are kept; a `PREFECT_API_URL` in the environment selects the user's own server.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path

from forecaster.core.state_paths import StatePaths

IMPATIENT = {"PREFECT_API_REQUEST_TIMEOUT": "15", "PREFECT_CLIENT_MAX_RETRIES": "2"}
"""For a run started by hand: no client call may hang for minutes."""


def prepare(state: Path) -> None:
    """Point the embedded server at the pipeline's own state folder, and keep everything on this
    machine."""
    home = StatePaths(state).prefect
    home.mkdir(parents=True, exist_ok=True)
    settings = {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        "DO_NOT_TRACK": "1",
        # the run itself reports outcomes, and keeps them in its run row
        "PREFECT_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "PREFECT_RESULTS_DEFAULT_SERIALIZER": "json",
        "PREFECT_CLI_COLORS": "false",
    }
    for name, value in settings.items():
        os.environ.setdefault(name, value)
    # Prefect's own imports emit warnings about third-party code.
    warnings.filterwarnings("ignore", module=r"(prefect|websockets|pydantic|starlette)(\.|$)")
