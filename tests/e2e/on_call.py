"""A real Prometheus, Alertmanager and webhook of on-call staff, around a page at a fixed instant."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
FILES = ROOT / "dashboards" / "prometheus"
PROGRAMS = ("prometheus", "prometheus-alertmanager", "faketime")


@dataclass
class OnCall:
    """Messages received, by receiver, and the addresses of Prometheus and Alertmanager."""

    heard: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    prometheus: str = ""
    alertmanager: str = ""
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def alerts(self, receiver: str) -> set[tuple[str, str]]:
        """(Alert, status) of all messages to a receiver."""
        messages = list(self.heard.get(receiver, ()))
        return {(a["labels"]["alertname"], a["status"]) for message in messages for a in message["alerts"]}


def ask(url: str, content: object = None) -> Any:
    """JSON from an address; posts `content` if given."""
    data = None if content is None else json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        body = answer.read()
    return json.loads(body) if body.startswith((b"{", b"[")) else body.decode()


def eventually(true: Callable[[], Any], what: str, seconds: float = 150.0) -> Any:
    """Wait until a condition is true; fail the test if it never is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError):
            if value := true():
                return value
        time.sleep(0.1)
    pytest.fail(f"after {seconds:.0f} s: not yet {what}")


@contextmanager
def on_call(file: Path, instant: str, folder: Path) -> Iterator[OnCall]:
    """Serve the page of a pipeline at an instant, scraped each second, by our rules without their
    waiting times."""
    if absent := [program for program in PROGRAMS if shutil.which(program) is None]:
        pytest.skip(f"{', '.join(absent)} not installed: apt-get install prometheus prometheus-alertmanager faketime")
    page, metrics = free_port(), free_port()
    serve = (sys.executable, "-m", "forecaster", "serve", str(file), "--port", str(page))
    command = ("faketime", instant, *serve, "--metrics", f"127.0.0.1:{metrics}")
    with running(command, folder) as process:
        try:
            with watched(folder, [metrics], _impatient) as person:
                yield person
        finally:
            os.killpg(process.pid, signal.SIGTERM)  # faketime does not forward the signal to the page


def _impatient(text: str) -> str:
    for pattern, small in (
        (r"\bfor: \w+", "for: 0s"),
        (r"\binterval: 1m", "interval: 1s"),
        ("group_wait: 30s", "group_wait: 0s"),
    ):
        text = re.sub(pattern, small, text)
    return re.sub(r"(scrape|evaluation)_interval: \w+", r"\1_interval: 1s", text)


@contextmanager
def watched(folder: Path, targets: Sequence[int], shortened: Callable[[str], str]) -> Iterator[OnCall]:
    """Run Prometheus and Alertmanager with our files, with durations changed by `shortened`;
    Prometheus scrapes ports of this machine, and Alertmanager notifies on-call staff."""
    person, ports = OnCall(), [free_port() for _ in range(2)]
    person.prometheus, person.alertmanager = (f"http://127.0.0.1:{port}" for port in ports)
    with ExitStack() as stack:
        receiver = stack.enter_context(_receiver(person))
        scraped = ", ".join(f'"127.0.0.1:{port}"' for port in targets)
        changes = {
            "forecaster.rules.yml": (),
            "alertmanager.yml": (("127.0.0.1:9095", f"127.0.0.1:{receiver}"),),
            "prometheus.yml": (("127.0.0.1:9093", f"127.0.0.1:{ports[1]}"), ('"127.0.0.1:9464"', scraped)),
        }
        for name, addresses in changes.items():
            content = shortened((FILES / name).read_text("utf-8"))
            for theirs, ours in addresses:
                assert theirs in content, (name, theirs)
                content = content.replace(theirs, ours)
            (folder / name).write_text(content, "utf-8")
        for command in (
            (
                "prometheus-alertmanager",
                f"--config.file={folder / 'alertmanager.yml'}",
                f"--storage.path={folder / 'alerts'}",
                f"--web.listen-address=127.0.0.1:{ports[1]}",
                "--cluster.listen-address=",
            ),
            (
                "prometheus",
                f"--config.file={folder / 'prometheus.yml'}",
                f"--storage.tsdb.path={folder / 'tsdb'}",
                f"--web.listen-address=127.0.0.1:{ports[0]}",
                "--rules.alert.resend-delay=1s",  # so that resolved alerts are sent soon
            ),
        ):
            person.processes[command[0]] = stack.enter_context(running(command, folder))
        yield person


@contextmanager
def running(command: Sequence[str], folder: Path, name: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Run a process, and terminate it on exit; its output is in `folder`."""
    with (folder / f"{name or command[0]}.log").open("ab") as log:
        environment = {**os.environ, "FAKETIME_DONT_FAKE_MONOTONIC": "1", "TZ": "UTC"}
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            yield process
        finally:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


@contextmanager
def _receiver(person: OnCall) -> Iterator[int]:
    """Web server of on-call staff that records messages by path."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            person.heard.setdefault(self.path.strip("/"), []).append(message)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def missing_night_is_told(file: Path, instant: str, folder: Path) -> None:
    """Check that on-call staff are called once two nights after the last one, and not for alerts
    expected during a deployment."""
    with on_call(file, instant, folder) as person:
        called = ("ForecasterNightMissing", "firing")
        eventually(lambda: called in person.alerts("page"), "called of the missing night")
        eventually(lambda: ("ForecasterWatchdog", "firing") in person.alerts("heartbeat"), "a heartbeat")
        [message] = [m for m in person.heard["page"] if m["commonLabels"].get("alertname") == called[0]]
        assert message["commonAnnotations"]["runbook_url"].endswith("/runbooks/stale-forecast.html")
        up = ask(f"{person.prometheus}/api/v1/query?query=forecaster_run_peak_memory_bytes")["data"]["result"]
        assert {row["metric"]["process"] for row in up} >= {"night", "predict"}
        inhibited = _inhibited(person.alertmanager)
        assert inhibited == {("ForecasterCompilesAnew", "a"), ("ForecasterForecastStale", "a")}
        compiles = ("ForecasterCompilesAnew", "firing")  # of b, which is not being deployed
        eventually(lambda: compiles in person.alerts("ticket"), "told of b")


def _inhibited(alertmanager: str) -> set[tuple[str, str]]:
    """Inhibited alerts of pipelines a, which is being deployed and misses a night, and b."""

    def alert(name: str, pipeline: str, **labels: str) -> dict[str, object]:
        return {"labels": {"alertname": name, "pipeline": pipeline, **labels}}

    alerts = [
        alert("ForecasterDeploying", "a", severity="none"),
        alert("ForecasterNightMissing", "a", severity="page"),
        alert("ForecasterForecastStale", "a", severity="page"),
        *(alert("ForecasterCompilesAnew", name, severity="ticket", about="compile") for name in ("a", "b")),
    ]
    ask(f"{alertmanager}/api/v2/alerts", alerts)

    def held_back() -> set[tuple[str, str]]:
        rows = ask(f"{alertmanager}/api/v2/alerts")
        return {
            (row["labels"]["alertname"], row["labels"]["pipeline"])
            for row in rows
            if row["status"]["inhibitedBy"] and row["labels"].get("pipeline") in ("a", "b")
        }

    return set(eventually(lambda: len(held_back()) > 1 and held_back(), "inhibited"))
