"""Server of the guide (`forecaster start`): listens on this machine only by default."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import uvicorn

from dashboards.ops.http.listening import address_of, config, open_listener, run
from dashboards.start.app import Guide


def start(folder: Path, *, host: str = "127.0.0.1", port: int = 8000, runs: bool = False) -> None:
    """Serve the guide of a project's folder until interrupted; port 0 takes a free one. With `runs`
    the first run begins at once. At a terminal, a browser is opened if there is one.

    Raises SpecError if the address is unavailable, if others could reach it but no sign-in is
    declared, or if the folder's pipeline file is invalid.
    """
    guide = Guide(folder)
    with open_listener(guide.access, host, port) as listener:
        if runs:
            guide.night.start(guide.folder.pipeline, guide.folder.require_spec(), None)
        address = f"{address_of(listener, host)}/{'' if guide.folder.pipeline.is_file() else 'start'}"
        if sys.stdout.isatty():
            webbrowser.open(address)  # the browser waits until the server answers
        run(uvicorn.Server(config(guide)), listener, f"{folder}: open {address}")
