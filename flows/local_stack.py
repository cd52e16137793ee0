"""Local process supervisor: Prefect's server and worker, MLflow and the page on one machine, up and down together.

What runs is written down in `state/up.json`, so that nights started by hand use the same server, and `status` finds it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows import environment, prefect_server
from forecaster.config import Spec
from forecaster.errors import Busy, ForecasterError
from forecaster.ledger import lease

HOST = prefect_server.HOST
PATIENCE = 180  # seconds until a part must answer
GRACE = 20  # seconds that a part has to stop by itself
SHORT = 3  # seconds that a health check may take


@dataclass(frozen=True)
class Service:
    """One of the processes, and where it says that it is well; the worker serves no page."""

    name: str
    command: tuple[str, ...]
    health: str | None


def services(file: Path, spec: Spec, ports: Mapping[str, int], pool: str) -> list[Service]:
    """What is started, in this order: the worker asks the server for work."""
    python = (sys.executable, "-m")
    prefect, mlflow, page = (str(ports[name]) for name in ("prefect", "mlflow", "page"))
    registry = (
        "--backend-store-uri",
        spec.registry_url,
        "--artifacts-destination",
        str(spec.paths.up_artifacts),
    )
    return [
        Service(
            "prefect",
            (*python, "prefect", "server", "start", "--host", HOST, "--port", prefect),
            f"http://{HOST}:{prefect}/api/health",
        ),
        Service(
            "mlflow",
            (*python, "mlflow", "server", *registry, "--host", HOST, "--port", mlflow, "--workers", "1"),
            f"http://{HOST}:{mlflow}/health",
        ),
        Service(
            "page",
            (*python, "forecaster", "serve", str(file), "--host", HOST, "--port", page),
            f"http://{HOST}:{page}/healthz",
        ),
        Service("worker", (*python, "prefect", "worker", "start", "--pool", pool, "--type", "process"), None),
    ]


def running_stack(spec: Spec) -> Mapping[str, Any] | None:
    """What `up` wrote down, where its process still lives."""
    try:
        record: Mapping[str, Any] = json.loads(spec.paths.local_stack.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return None if lease.is_gone(str(record["holder"])) else record


def address(spec: Spec) -> str | None:
    """The API of the server that is up for this pipeline; None where there is none."""
    stack = running_stack(spec)
    return None if stack is None or not answers(stack["health"]["prefect"]) else str(stack["api"])


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=SHORT) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def up(
    file: Path,
    spec: Spec,
    *,
    ports: Mapping[str, int],
    prepare: Callable[[], object],
    pool: str,
    say: Callable[[str], None],
) -> None:
    """Start all parts, and stop them when told to (SIGINT, SIGTERM) or when one of them ends by itself.

    `prepare` deploys, once the server answers. Raises Busy where all is up already, or a port is taken, ForecasterError
    when a part does not come up or ends.
    """
    if (stack := running_stack(spec)) is not None:
        raise Busy(f"{spec.name} is up already, at {stack['health']['page']}; `forecaster status` tells of it")
    for name, port in ports.items():
        _free(name, port)
    environment.prepare(spec.paths.folder)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())
    declared = services(file.resolve(), spec, ports, pool)
    api = f"http://{HOST}:{ports['prefect']}/api"
    os.environ |= {
        prefect_server.URL: api,
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    with _child_processes(spec) as children:
        for part in declared:
            if stop.is_set():
                return
            if part.health is None:
                prepare()
            children[part.name] = _start(part, spec)
            _wait_for(part, children[part.name], stop)
            say(f"{part.name:8} {part.health or 'takes up the work of pool ' + pool}")
        health = {part.name: part.health for part in declared if part.health}
        pids = {name: child.pid for name, child in children.items()}
        _write(spec, {"holder": lease.this_process(), "api": api, "health": health, "pids": pids})
        say("everything is up; Ctrl-C stops it")
        while not stop.wait(0.5):
            for name, child in children.items():
                if (code := child.poll()) is not None:
                    raise ForecasterError(f"{name} ended with exit code {code}; see {_log(spec, name)}")


@contextlib.contextmanager
def _child_processes(spec: Spec) -> Iterator[dict[str, subprocess.Popen[bytes]]]:
    """Processes that go when this is left, the last one first."""
    children: dict[str, subprocess.Popen[bytes]] = {}
    try:
        yield children
    finally:
        spec.paths.local_stack.unlink(missing_ok=True)
        for child in reversed(children.values()):
            _stop(child)


def _stop(child: subprocess.Popen[bytes]) -> None:
    """End a part and whatever it has started, which is in its session."""
    child.send_signal(signal.SIGINT if child.poll() is None else 0)
    try:
        child.wait(GRACE)
    except subprocess.TimeoutExpired:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(GRACE)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _start(part: Service, spec: Spec) -> subprocess.Popen[bytes]:
    log = _log(spec, part.name)
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(part.command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True)


def _wait_for(part: Service, child: subprocess.Popen[bytes], stop: threading.Event) -> None:
    deadline = time.monotonic() + PATIENCE
    while part.health is not None and not stop.is_set() and not answers(part.health):
        if (code := child.poll()) is not None:
            raise ForecasterError(f"{part.name} stopped at once with exit code {code}")
        if time.monotonic() > deadline:
            raise ForecasterError(f"{part.name} did not answer at {part.health} within {PATIENCE} s")
        stop.wait(0.2)


def _free(name: str, port: int) -> None:
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise Busy(
            f"port {port}, wanted for {name}, is taken ({error.strerror}); --{name}-port takes another"
        ) from None


def _write(spec: Spec, content: Mapping[str, Any]) -> None:
    beside = spec.paths.local_stack.with_suffix(".new")
    beside.write_text(json.dumps(content, indent=1), "utf-8")
    beside.rename(spec.paths.local_stack)


def _log(spec: Spec, name: str) -> Path:
    return spec.paths.logs / f"{name}.log"
