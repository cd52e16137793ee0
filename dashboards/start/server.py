"""Server of the guide (`forecaster start`): listens on this machine alone unless told otherwise."""

from __future__ import annotations

import sys
import webbrowser
from pathlib import Path

import uvicorn

from dashboards.ops.http.listening import address_of, config, open_listener, run
from dashboards.start.app import Guide


def start(folder: Path, *, host: str = "127.0.0.1", port: int = 8000, runs: bool = False) -> None:
    """Serve the guide of a project's folder, until interrupted; port 0 takes a free one. With `runs` the first night
    begins at once. Somebody at a terminal gets a browser, where there is one.

    Raises SpecError when the address cannot be had, others could come in and nothing says how they sign in, or the
    folder's pipeline file is wrong.
    """
    guide = Guide(folder)
    with open_listener(guide.access, host, port) as listener:
        if runs:
            guide.night.start(guide.folder.pipeline, guide.folder.require_spec(), None)
        address = f"{address_of(listener, host)}/{'' if guide.folder.pipeline.is_file() else 'start'}"
        if sys.stdout.isatty():
            webbrowser.open(address)  # which waits until the server answers
        run(uvicorn.Server(config(guide)), listener, f"{folder}: open {address}")
