"""Local process supervisor: runs Prefect's server and worker, MLflow and the page together on one
machine.

The running processes are recorded in `state/up.json`, so that runs started by hand use the same
server, `status` finds them, and the next `up` ends leftovers of a killed one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from flows import environment, prefect_server
from flows.supervision import processes
from flows.supervision.part import WELL, Part, Service, answers
from forecaster.config import Spec
from forecaster.errors import Busy
from forecaster.ledger import lease

HOST = prefect_server.HOST
LOOKS = 0.5  # seconds between two checks of the parts


def services(file: Path, spec: Spec, ports: Mapping[str, int], pool: str) -> list[Service]:
    """Return the services: all start at once, except the deployment, which waits for the server,
    and then the worker."""
    python = (sys.executable, "-m")
    prefect, mlflow, page = (str(ports[name]) for name in ("prefect", "mlflow", "page"))
    registry = (
        "--backend-store-uri",
        spec.registry_url,
        "--artifacts-destination",
        str(spec.paths.up_artifacts),
    )
    metrics = ("--metrics", f"{HOST}:{ports['metrics']}") if "metrics" in ports else ()
    return [
        Service(
            "prefect",
            (*python, "prefect", "server", "start", "--host", HOST, "--port", prefect),
            f"http://{HOST}:{prefect}/api/health",
            f"http://{HOST}:{prefect}/",
        ),
        Service(
            "mlflow",
            (*python, "mlflow", "server", *registry, "--host", HOST, "--port", mlflow, "--workers", "1"),
            f"http://{HOST}:{mlflow}/health",
            f"http://{HOST}:{mlflow}/",
        ),
        Service(
            "page",
            (*python, "forecaster", "serve", str(file), "--host", HOST, "--port", page, *metrics),
            f"http://{HOST}:{page}/healthz",
            f"http://{HOST}:{page}/",
        ),
        Service("deploy", (*python, "forecaster", "deploy", str(file)), after="prefect", once=True),
        Service(
            "worker",
            (*python, "prefect", "worker", "start", "--pool", pool, "--type", "process", "--with-healthcheck"),
            f"http://{HOST}:{{port}}/health",
            after="deploy",
            outlived=True,
            port_variable="PREFECT_WORKER_WEBSERVER_PORT",
        ),
    ]


def read_record(spec: Spec) -> Mapping[str, Any] | None:
    """Return the record of the last `up`, whether or not it is alive."""
    try:
        record: Mapping[str, Any] = json.loads(spec.paths.local_stack.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return record


def running_stack(spec: Spec) -> Mapping[str, Any] | None:
    """Return the record of `up` if its process is alive."""
    record = read_record(spec)
    return None if record is None or lease.is_gone(str(record["holder"])) else record


def left_behind(spec: Spec) -> dict[str, tuple[str, ...]]:
    """Return the surviving processes of each part of a killed `up`, named as in
    `lease.process_name`."""
    record = read_record(spec)
    if record is None or not lease.is_gone(str(record["holder"])):
        return {}
    groups = {
        name: tuple(filter(processes.group_lives, [*part["former"], *([part["process"]] if part["process"] else [])]))
        for name, part in record["parts"].items()
    }
    return {name: alive for name, alive in groups.items() if alive}


def address(spec: Spec) -> str | None:
    """Return the API of the running server of this pipeline; None if there is none."""
    stack = running_stack(spec)
    return None if stack is None or not answers(stack["health"]["prefect"]) else str(stack["api"])


def restart_page(spec: Spec) -> None:
    """End the page of a running `up`, which restarts it with the current pipeline file.

    Does nothing for the deployment with which `up` itself begins.
    """
    stack = running_stack(spec)
    parts = stack["parts"] if stack else {}
    if parts and parts["deploy"]["process"] != lease.this_process() and (page := parts["page"]["process"]):
        processes.end_groups([page])


def up(file: Path, spec: Spec, *, ports: Mapping[str, int], pool: str, say: Callable[[str], None]) -> None:
    """Start all parts, restart each that ends, and stop them on SIGINT, SIGTERM or SIGHUP.

    Raises Busy if all is up already, or a port is in use.
    """

    def tell(sentence: str) -> None:
        with contextlib.suppress(OSError):  # a closed terminal must not end anything
            say(sentence)

    with _alone(spec):
        nights = _end_left_behind(spec, tell)
        for name, port in ports.items():
            _free(name, port)
        environment.prepare(spec.paths.folder)
        stop = _stop_event()
        api = f"http://{HOST}:{ports['prefect']}/api"
        os.environ |= {
            prefect_server.URL: api,
            "PREFECT_WORKER_WEBSERVER_HOST": HOST,
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        parts = {
            service.name: Part(service, _log(spec, service.name), tell)
            for service in services(file.resolve(), spec, ports, pool)
        }
        parts["worker"].former = nights
        with _ended_at_last(spec, parts):
            _supervise(spec, parts, api, stop, tell)


def _supervise(
    spec: Spec, parts: Mapping[str, Part], api: str, stop: threading.Event, say: Callable[[str], None]
) -> None:
    """Check each part, twice a second, until the stop event."""

    def write() -> None:
        _write(spec, {"holder": lease.this_process(), "api": api, **_records(parts)})

    write()
    complete = False
    while not stop.is_set():
        for part in parts.values():
            part.look(parts, write)
        if not complete and all(part.state in WELL for part in parts.values()):
            complete = True
            say("everything is up; Ctrl-C stops it")
        stop.wait(LOOKS)


def _records(parts: Mapping[str, Part]) -> dict[str, Any]:
    return {
        "health": {name: part.health for name, part in parts.items() if part.health},
        "pids": {name: lease.process_id(part.process) for name, part in parts.items() if part.process},
        "parts": {name: part.record() for name, part in parts.items()},
    }


def _stop_event() -> threading.Event:
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # ignored under nohup
            signal.signal(number, lambda *_: stop.set())
    return stop


@contextlib.contextmanager
def _alone(spec: Spec) -> Iterator[None]:
    """Ensure that this is the only `up` of a pipeline on this machine. Raises Busy otherwise."""
    spec.paths.logs.mkdir(parents=True, exist_ok=True)
    lock = os.open(spec.paths.logs, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if (stack := running_stack(spec)) is not None:  # of a version without the lock
            raise _is_up(spec, stack)
        yield
    except BlockingIOError:
        raise _is_up(spec, running_stack(spec)) from None
    finally:
        os.close(lock)


def _is_up(spec: Spec, stack: Mapping[str, Any] | None) -> Busy:
    place = f", at {stack['health']['page'].removesuffix('healthz')}" if stack else ""
    return Busy(f"{spec.name} is up already{place}; `forecaster status` tells of it")


def _end_left_behind(spec: Spec, say: Callable[[str], None]) -> tuple[str, ...]:
    """End the leftovers of a killed `up`; returns the process groups whose runs may continue, which
    are taken over."""
    groups = left_behind(spec)
    if not groups:
        return ()
    say(f"the last `up` was killed; {', '.join(groups)} of it still ran, and is ended")
    workers = groups.pop("worker", ())
    for name in workers:
        processes.kill(name)
    processes.end_groups(name for names in groups.values() for name in names)
    return tuple(filter(processes.group_lives, workers))


@contextlib.contextmanager
def _ended_at_last(spec: Spec, parts: Mapping[str, Part]) -> Iterator[None]:
    """End the parts on exit: the worker with its runs first, then the others at once."""
    try:
        yield
    finally:
        processes.end_groups(parts["worker"].groups())
        processes.end_groups(group for part in parts.values() for group in part.groups())
        for part in parts.values():
            part.reap()
        spec.paths.local_stack.unlink(missing_ok=True)


def _free(name: str, port: int) -> None:
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise Busy(
            f"port {port}, wanted for {name}, is taken ({error.strerror}); --{name}-port takes another"
        ) from None


def _write(spec: Spec, content: Mapping[str, Any]) -> None:
    """Write the record; after an error, as on a full disk, the next change tries again."""
    new_file = spec.paths.local_stack.with_suffix(".new")
    with contextlib.suppress(OSError):
        new_file.write_text(json.dumps(content, indent=1), "utf-8")
        new_file.rename(spec.paths.local_stack)


def _log(spec: Spec, name: str) -> Path:
    return spec.paths.logs / f"{name}.log"
