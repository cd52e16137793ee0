"""An S3 of this machine's own: moto's server, as a process that is gone afterwards."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """The address of an S3 of this machine's own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    address, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
    try:
        while True:
            try:
                urllib.request.urlopen(f"{address}/moto-api/", timeout=5).close()
                break
            except OSError:
                assert server.poll() is None, "moto's server stopped"
                assert time.monotonic() < deadline, "moto's server does not answer"
                time.sleep(0.1)
        yield address
    finally:
        server.terminate()
        server.wait(20)
