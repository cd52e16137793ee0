"""Prefect's API server for one run, on its own port; it ends with the run.

Prefect would start the same server by itself, but only after importing it into the run's own
process, which takes as long again: started first, it comes up while the run imports the modules of
its steps.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from forecaster.core.processes import garbage, parent_watch
from forecaster.errors import ForecasterError
from forecaster.operations import prefect_api

HOST = "127.0.0.1"
PATIENCE = 120  # seconds until it must answer, in parallel with the work
URL = prefect_api.URL


@contextmanager
def running(existing_address: str | None = None) -> Iterator[Callable[[float], str]]:
    """Run a server while open; yields a function that waits until it answers, at most the given
    seconds after its start, to be called before the first flow. It returns a remark on the server's
    version, empty if equal to this client's.

    The server's address is set in `PREFECT_API_URL`; an existing value is kept, and a server
    already `existing_address` is used. Call `environment.prepare` first.
    """
    if address := os.environ.get(URL):
        yield lambda _: prefect_api.probe(address)
        return
    if existing_address is not None:
        os.environ[URL] = existing_address
        try:
            yield lambda _: prefect_api.probe(existing_address)
        finally:
            del os.environ[URL]
        return
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "flows.prefect_server", str(port)],
        env=parent_watch.environment()
        | {"PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1", "PREFECT_UI_ENABLED": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.environ[URL] = f"http://{HOST}:{port}/api"
    try:
        yield lambda within: _wait_for(process, f"http://{HOST}:{port}/api/health", begun + within)
    finally:
        del os.environ[URL]
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(process: subprocess.Popen[bytes], address: str, deadline: float) -> str:
    """Wait until the server answers. Raises ForecasterError if it stops, or does not answer in
    time."""
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ForecasterError(f"Prefect's server stopped at once with exit code {process.returncode}")
        try:
            with urllib.request.urlopen(address, timeout=5):
                return ""
        except OSError:
            time.sleep(0.1)
    raise ForecasterError(f"Prefect's server did not answer at {address} in time")


def _serve(port: int) -> None:
    """Run the server until its parent process ends."""
    garbage.look_seldom()
    parent_watch.end_with_parent()  # by the recorded process ID, since the parent may be gone by now
    import uvicorn

    create = "prefect.server.api.server:create_app"
    uvicorn.run(create, factory=True, host=HOST, port=port, log_level="critical", timeout_graceful_shutdown=2)


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
