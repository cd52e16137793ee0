"""Whatever Prefect's API does, a run publishes with its normal outcome, and reports the state of
Prefect.

A real server runs behind a proxy that misbehaves on demand, so that the real client is tested.
"""

from __future__ import annotations

import http.client
import http.server
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from flows import prefect_server
from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests import prefect_home
from tests.flows.tiny import NIGHT, after_a_night, pipeline_that_knows_its_model

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


class Proxy(http.server.ThreadingHTTPServer):
    """Proxy that forwards requests to Prefect's server unless `mode` names a failure."""

    daemon_threads = True

    def __init__(self, behind: str | None, mode: str) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behind, self.mode = behind, mode
        self.turns: tuple[str, str] | None = None  # part of a path, and the mode from that request on
        self.released = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/api"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect."""


class Handler(http.server.BaseHTTPRequestHandler):
    server: Proxy
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Suppress log output."""

    def handle_any(self) -> None:
        proxy = self.server
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if proxy.turns and proxy.turns[0] in self.path:
            proxy.mode = proxy.turns[1]
        if proxy.mode == "hangs":
            proxy.released.wait(120)
        if proxy.mode in ("hangs", "dies"):
            self.close_connection = True
            self.connection.close()
        elif proxy.mode == "login":
            self.answer(200, b"<!doctype html><title>Sign in</title>", "text/html")
        elif proxy.mode == "broken":
            self.answer(500, b"<h1>Bad gateway</h1>", "text/html")
        elif proxy.mode == "2.10.0":
            self.answer(200, b"true" if self.path.endswith("/health") else b'"2.10.0"', "application/json")
        elif proxy.mode == "3.1.4":
            fits = {"/health": b"true", "/version": b'"3.1.4"'}.get(self.path[self.path.rfind("/") :])
            self.answer(200 if fits else 422, fits or b'{"exception_detail": "extra fields"}', "application/json")
        else:
            self.pass_on(body)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = handle_any

    def pass_on(self, body: bytes) -> None:
        assert self.server.behind is not None
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("host", "connection")}
        with closing(http.client.HTTPConnection(urlsplit(self.server.behind).netloc, timeout=60)) as connection:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            self.answer(answer.status, answer.read(), answer.headers.get("content-type", "application/json"))

    def answer(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def proxied(mode: str, behind: str | None = None) -> Iterator[Proxy]:
    proxy = Proxy(behind, mode)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        proxy.released.set()
        proxy.shutdown()
        proxy.server_close()
        thread.join()


def forecaster(command: str, file: Path, api: str, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "forecaster", command, str(file), *(options or ("--as-of", NIGHT.isoformat()))],
        cwd=ROOT,
        env={**os.environ, "PREFECT_API_URL": api},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )


@pytest.fixture(scope="module")
def champion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a pipeline with a champion, so that later runs can be fully published."""
    return after_a_night(tmp_path_factory.mktemp("champion"))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run a real server; yields the address of its API."""
    state = tmp_path_factory.mktemp("state")
    prefect_home.put_into(state)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PREFECT_HOME", str(state / "prefect"))
        patch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        patch.delenv(prefect_server.URL, raising=False)
        with prefect_server.running() as ready:
            ready(prefect_server.PATIENCE)
            address = os.environ.pop(prefect_server.URL)
            yield address
            os.environ[prefect_server.URL] = address


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("3.1.4", "(the server is Prefect 3.1.4, this client 3."),
        ("hangs", "nothing that speaks HTTP answers at "),
        # The choice of the sentence is tested next to the function that makes it.
        pytest.param("login", "is no Prefect API: it answers '<!doctype html>", marks=pytest.mark.exhaustive),
        pytest.param("broken", "answers its health check with 500", marks=pytest.mark.exhaustive),
        pytest.param("2.10.0", "is Prefect 2.10.0, this client 3.", marks=pytest.mark.exhaustive),
        pytest.param("dies", "nothing that speaks HTTP answers at ", marks=pytest.mark.exhaustive),
    ],
)
def test_an_invalid_api_leaves_the_refresh_published_with_a_note(champion: Path, mode: str, sentence: str) -> None:
    with proxied(mode) as proxy:
        process = forecaster("predict-only", champion, proxy.url)
    assert process.returncode == 0, process.stderr
    with Ledger.open_reader(load(champion).ledger_url) as ledger:
        run = ledger.runs()[0]
    assert (run.kind, run.outcome) == ("refresh", "published")
    assert str(run.message).startswith("Prefect did not start; the run continued without it: ")
    assert sentence in str(run.message)
    assert "Traceback" not in process.stderr


def test_an_unreachable_api_leaves_the_refresh_published(champion: Path) -> None:
    process = forecaster("predict-only", champion, "http://127.0.0.1:9/api")
    assert process.returncode == 0, process.stderr
    assert "Prefect did not start; the run continued without it: nothing that speaks HTTP answers" in process.stderr


@pytest.mark.parametrize(
    "mode",
    ["hangs", pytest.param("dies", marks=pytest.mark.exhaustive), pytest.param("broken", marks=pytest.mark.exhaustive)],
)
def test_an_api_that_fails_during_a_run_costs_nothing(tmp_path: Path, server: str, mode: str) -> None:
    """The mode changes with the second state of the flow run, while its steps are running."""
    file = pipeline_that_knows_its_model(tmp_path / "fleet")
    with proxied("passes", server) as proxy:
        proxy.turns = ("/set_state", mode)
        begun = time.monotonic()
        process = forecaster("run", file, proxy.url)
        seconds = time.monotonic() - begun
    assert process.returncode == 0, process.stderr
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        [run] = ledger.runs()
        assert ledger.current("tiny") is not None
        assert ledger.champion("tiny") is not None
    assert run.outcome == "published"
    assert "the run continued without it" in str(run.message)
    assert "Traceback" not in process.stderr
    print(f"{mode}: {seconds:.0f} s")


def test_backfills_without_prefect_if_its_api_rejects_requests(champion: Path) -> None:
    day = (NIGHT - timedelta(days=2)).date().isoformat()
    with proxied("3.1.4") as proxy:
        process = forecaster("backfill", champion, proxy.url, "--from", day, "--to", day)
    assert process.returncode == 3, process.stderr  # the fallback: there was no champion on that day
    assert "Prefect failed, and the dates are forecast without it: Client error '422" in process.stderr
    assert "Traceback" not in process.stderr
