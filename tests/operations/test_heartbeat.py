"""A nightly run notifies a URL of its start and end, and never fails or waits long because of it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from flows.night import Night
from forecaster.config import Spec, load
from forecaster.errors import NoUsableData, SpecError
from forecaster.operations import heartbeat
from tests.flows.tiny import pipeline


class Listener(ThreadingHTTPServer):
    """Records paths and bodies, as Healthchecks.io would receive them."""

    def __init__(self, refusals: int = 0) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.pings: list[tuple[str, str]] = []
        self.refusals = refusals

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/ping/key"


class _Handler(BaseHTTPRequestHandler):
    server: Listener

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if self.server.refusals > 0:
            self.server.refusals -= 1
            self.send_error(503)
            return
        self.server.pings.append((self.path, body))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def listener() -> Iterator[Listener]:
    with Listener() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def declared(folder: Path, url: str) -> tuple[Path, Spec]:
    file = pipeline(folder, f"notify: {{heartbeat: {url!r}}}\n", days=20)
    return file, load(file)


def test_run_signals_its_start_and_its_publication(tmp_path: Path, listener: Listener) -> None:
    file, _ = declared(tmp_path, listener.url)
    night = Night.begin(str(file))

    def line() -> None:
        night.exit_code = 0

    night.run(line)
    assert listener.pings == [
        ("/ping/key/start", ""),
        ("/ping/key", f"tiny, run {night.run_id}: published"),
    ]


def test_failed_run_signals_the_reason(tmp_path: Path, listener: Listener) -> None:
    file, _ = declared(tmp_path, listener.url)

    def line() -> None:
        raise NoUsableData("no depot has a reading")

    night = Night.begin(str(file)).run(line)
    assert night.exit_code == 4
    path, body = listener.pings[-1]
    assert path == "/ping/key/fail"
    assert body.endswith(": no_data. no depot has a reading")


def test_only_nightly_runs_send_heartbeats(tmp_path: Path, listener: Listener) -> None:
    file, _ = declared(tmp_path, listener.url)
    Night.begin(str(file), kind="refresh").run(lambda: None)
    assert listener.pings == []


def test_failed_heartbeat_is_retried(tmp_path: Path, listener: Listener) -> None:
    _, spec = declared(tmp_path, listener.url)
    listener.refusals = 2
    assert heartbeat.send(spec, "success", "out") is None
    assert listener.pings == [("/ping/key", "out")]
    listener.refusals = 3
    fault = heartbeat.send(spec, "success", "out")
    assert fault == "the heartbeat (success) was not taken: HTTP Error 503: Service Unavailable"


def test_silent_server_only_delays_a_run_by_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(heartbeat, "SILENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        file, _ = declared(tmp_path, f"http://127.0.0.1:{silent.getsockname()[1]}/key")
        night = Night.begin(str(file))
        begun = time.monotonic()

        def line() -> None:
            night.exit_code = 0

        night.run(line)
        assert time.monotonic() - begun < 10
    assert (night.outcome, night.exit_code) == ("published", 0)
    assert "the heartbeat (success) was not taken: timed out" in capfd.readouterr().err


def test_suffix_precedes_the_query() -> None:
    assert heartbeat.address("https://hc/key/slug?create=1", "fail") == "https://hc/key/slug/fail?create=1"
    assert heartbeat.address("https://hc/key/", "start") == "https://hc/key/start"
    assert heartbeat.address("https://hc/key", "success") == "https://hc/key"


@pytest.mark.parametrize(
    "url", ["hc-ping.com/key", "file:///etc/passwd", "https://", "https://hc/a b", "https://hc/#x"]
)
def test_rejects_invalid_urls(tmp_path: Path, url: str) -> None:
    with pytest.raises(SpecError, match=r"heartbeat.*wanted a URL as in https://hc-ping.com/your-uuid"):
        declared(tmp_path, url)


def test_systemd_signals_the_failure_of_up(
    tmp_path: Path, listener: Listener, capsys: pytest.CaptureFixture[str]
) -> None:
    file, _ = declared(tmp_path, listener.url)
    heartbeat.main([str(file)])
    sentence = "tiny: `forecaster up` has failed and is not restarted"
    assert listener.pings == [("/ping/key/fail", sentence)]
    assert capsys.readouterr().out == f"{sentence}\n"
