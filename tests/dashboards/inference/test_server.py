"""The service as a process: it starts ready, is small, and finishes pending requests at SIGTERM."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest

from dashboards.inference.server import serve
from forecaster.config import load
from forecaster.errors import SpecError
from tests.dashboards.inference.conftest import INFER, as_binary, window

ROOT = Path(__file__).resolve().parents[3]
MOST_MEMORY = 250_000  # kB
SERVE = """
import sys
from dashboards.inference import server
from forecaster.config import load
server.NOTICE_SECONDS = 0.7
server.serve(load(sys.argv[1]), port=0, metrics="127.0.0.1:0")
"""


def test_drains_and_ends_at_sigterm(published: Path) -> None:
    content, headers = as_binary(window(load(published), 0, 1))
    command = [sys.executable, "-c", SERVE, str(published)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            scrape, address = (re.search(r"http://\S+", process.stdout.readline()) for _ in range(2))
            assert scrape is not None
            assert address is not None
            base = address[0].partition("/v2")[0]
            with httpx.Client(base_url=base, timeout=30, trust_env=False) as client:
                assert client.post(INFER, content=content, headers=headers).status_code == 200
                assert "forecaster_inference_ready" in httpx.get(scrape[0], trust_env=False).text
                memory = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text("utf-8"))
                assert memory is not None
                assert int(memory[1]) < MOST_MEMORY
                statuses: list[int] = []

                def ask() -> None:
                    with httpx.Client(base_url=base, timeout=30, trust_env=False) as other:
                        while not statuses or ended > time.monotonic():
                            statuses.append(other.post(INFER, content=content, headers=headers).status_code)

                ended = time.monotonic() + 0.4
                asking = threading.Thread(target=ask)
                process.send_signal(signal.SIGTERM)
                asking.start()
                while (ready := client.get("/v2/health/ready")).status_code == 200:
                    time.sleep(0.01)
                assert (ready.status_code, ready.headers["Connection"]) == (503, "close")
                asking.join()
                assert set(statuses) == {200}
            assert process.wait(20) == -signal.SIGTERM
            assert process.stderr is not None
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_listens_for_others_only_with_a_declared_sign_in(published: Path) -> None:
    with pytest.raises(SpecError, match=r"--host: found 0\.0\.0\.0, which others can reach"):
        serve(load(published), host="0.0.0.0")


def test_reports_an_address_in_use(published: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SpecError, match=f"cannot listen on 127.0.0.1 port {port}"):
            serve(load(published), port=port)
