"""Server of the guide (`forecaster start`): listens on this machine alone unless told otherwise."""

from __future__ import annotations

from pathlib import Path

import uvicorn

from dashboards.ops.http.listening import address_of, config, open_listener, run
from dashboards.start.app import Guide


def start(folder: Path, *, host: str = "127.0.0.1", port: int = 8000) -> None:
    """Serve the guide of a project's folder, until interrupted; port 0 takes a free one.

    Raises SpecError when the address cannot be had, others could come in and nothing says how they sign in, or the
    folder's pipeline file is wrong.
    """
    guide = Guide(folder)
    with open_listener(guide.access, host, port) as listener:
        run(uvicorn.Server(config(guide)), listener, f"{folder}: open {address_of(listener, host)}/start")
