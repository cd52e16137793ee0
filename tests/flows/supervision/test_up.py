"""The local stack stays up: ended parts are restarted, and leftovers of a killed supervisor are
taken over."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from flows.status import status
from flows.supervision import processes
from forecaster.config import Spec, load
from forecaster.ledger import lease
from tests.flows.stack_start import lines_until_up
from tests.flows.tiny import NIGHT, pipeline
from tests.ports import free_ports

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[3]
SERVER = """
import http.server, os, subprocess, sys
if len(sys.argv) > 2:
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_): pass
http.server.HTTPServer(("127.0.0.1", int(os.environ.get("OWN_PORT", sys.argv[1]))), Handler).serve_forever()
"""
STACK = """
import sys
from pathlib import Path
from flows import local_stack
from flows.supervision import part
from flows.supervision.part import Service
from forecaster.config import load

PYTHON, SERVER = sys.executable, sys.argv[3]
part.PATIENCE, part.CHECKED = 3.0, 0.5

def services(file, spec, ports, pool):
    def server(name, *more):
        url = f"http://127.0.0.1:{ports[name]}/"
        return Service(name, (PYTHON, "-c", SERVER, str(ports[name]), *more), url, url)
    deploy = file.parent / "deploy.py"  # a test's own
    return [
        server("prefect"),
        server("mlflow", "with a child"),
        server("page"),
        Service("deploy", (PYTHON, str(deploy)) if deploy.exists() else (PYTHON, "-c", ""), after="prefect", once=True),
        Service(
            "worker",
            (PYTHON, "-c", SERVER, "its own", "with a night"),
            "http://127.0.0.1:{port}/",
            after="deploy",
            outlived=True,
            port_variable="OWN_PORT",
        ),
    ]

local_stack.services = services
ports = dict(zip(("prefect", "mlflow", "page"), map(int, sys.argv[2].split(",")), strict=True))
file = Path(sys.argv[1])
local_stack.up(file, load(file), ports=ports, pool="forecaster", say=lambda line: print(line, flush=True))
"""
REAL = """
import signal
part.PATIENCE, part.CHECKED = 120.0, 0.5
signal.signal(signal.SIGUSR1, lambda *_: setattr(part, "PATIENCE", 3.0))  # with what is there; a start has its time
end = part.Part._end

def ends(self, child, reason):
    part.PATIENCE = 120.0
    end(self, child, reason)

part.Part._end = ends
every = local_stack.services

def services(file, spec, ports, pool):
    return [service for service in every(file, spec, ports, pool) if service.name not in ("mlflow", "page")]
""" + STACK[STACK.index("\nlocal_stack.services = services") :]


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    return load(pipeline(tmp_path, days=20))


@contextmanager
def up(spec: Spec, ports: list[int], *, stack: str = STACK) -> Iterator[subprocess.Popen[str]]:
    command = [
        sys.executable,
        "-X",
        "faulthandler",
        "-c",
        stack,
        str(spec.folder / "pipeline.yaml"),
        ",".join(map(str, ports)),
        SERVER,
    ]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGCONT)
            process.terminate()
            try:
                process.wait(60)
            finally:
                process.kill()


def wait_for(condition: Callable[[], bool], patience: float = 240) -> None:
    deadline = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < deadline, "it did not come to that"
        time.sleep(0.05)


def parts(spec: Spec) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(spec.paths.local_stack.read_text("utf-8"))
    return dict(content["parts"])


def group(spec: Spec, name: str) -> int:
    return lease.process_id(parts(spec)[name]["process"])


def group_is_there(number: int) -> bool:
    try:
        os.killpg(number, 0)
    except ProcessLookupError:
        return False
    return True


def test_restarts_an_ended_part_without_affecting_others(spec: Spec) -> None:
    with up(spec, free_ports(3)) as process:
        lines = lines_until_up(process, spec)
        page = parts(spec)["page"]["page"]
        assert any(line.split() == ["page", page] for line in lines), "the address that people open"
        before = {name: group(spec, name) for name in ("prefect", "mlflow", "page", "worker")}
        for name in ("page", "mlflow", "worker"):
            os.kill(before[name], signal.SIGKILL)
        wait_for(lambda: all(parts(spec)[name]["restarts"] for name in ("page", "mlflow", "worker")))
        wait_for(lambda: all(part["state"] in ("up", "done") for part in parts(spec).values()))
        after = {name: group(spec, name) for name in before}
        assert after["prefect"] == before["prefect"]
        assert parts(spec)["mlflow"]["restarts"] == 1
        wait_for(lambda: not group_is_there(before["mlflow"]))  # its child did not survive
        assert group_is_there(before["worker"])  # its runs continue
        told = {line[:10].strip(): line[10:].strip() for line in status(spec, NIGHT)}
        assert told["page"].startswith(f"up, {page}, since 20")
        assert told["page"].endswith(", 1 restart")
        assert told["prefect"].endswith(", 0 restarts")
        process.terminate()
        assert process.wait(60) == 0
    assert not spec.paths.local_stack.exists()
    wait_for(lambda: not any(map(group_is_there, (*before.values(), *after.values()))))


def test_restarts_a_hanging_part(spec: Spec) -> None:
    with up(spec, free_ports(3)) as process:
        lines_until_up(process, spec)
        os.kill(group(spec, "page"), signal.SIGSTOP)
        wait_for(lambda: parts(spec)["page"]["state"] == "silent")
        assert any(line.startswith("page       does not answer, no answer at http://") for line in status(spec, NIGHT))
        wait_for(lambda: parts(spec)["page"]["restarts"] == 1 and parts(spec)["page"]["state"] == "up")


def test_restarts_a_hanging_worker_while_its_run_continues(spec: Spec) -> None:
    with up(spec, free_ports(3)) as process:
        lines_until_up(process, spec)
        former = group(spec, "worker")
        os.kill(former, signal.SIGSTOP)
        wait_for(lambda: parts(spec)["worker"]["state"] == "silent")
        assert any(line.startswith("worker     does not answer, no answer at http://") for line in status(spec, NIGHT))
        wait_for(lambda: parts(spec)["worker"]["restarts"] == 1 and parts(spec)["worker"]["state"] == "up")
        assert group(spec, "worker") != former
        assert group_is_there(former)  # its child processes
        assert any(line.startswith("worker     up, process ") and "1 restart" in line for line in status(spec, NIGHT))


def test_ends_and_repeats_a_hanging_deployment(spec: Spec) -> None:
    hangs_once = "import pathlib, time\nif not (it := pathlib.Path(__file__ + '.was')).exists():\n    it.touch()\n"
    (spec.folder / "deploy.py").write_text(f"{hangs_once}    time.sleep(300)\n", "utf-8")
    with up(spec, free_ports(3)) as process:
        lines = lines_until_up(process, spec)
        assert any(line.startswith("deploy   was not done within 3 s; it is started again in 1 s") for line in lines)
        assert parts(spec)["deploy"]["state"] == "done"


def test_restarts_a_healthy_server_that_does_not_serve_the_deployment(spec: Spec) -> None:
    wait_for_another_server = (
        "import json, pathlib, time\n"
        f"record = pathlib.Path({str(spec.paths.local_stack)!r})\n"
        "while not json.loads(record.read_text())['parts']['prefect']['restarts']:\n    time.sleep(0.1)\n"
    )
    (spec.folder / "deploy.py").write_text(wait_for_another_server, "utf-8")
    with up(spec, free_ports(3)) as process:
        lines = lines_until_up(process, spec)
    reason = "prefect  did not do within 3 s what deploy asks for; it is started again in 1 s"
    assert any(line.startswith(reason) for line in lines)


def test_restarts_a_worker_on_another_port_if_its_port_is_in_use(spec: Spec) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        given = f"taken, free_port = iter([{other.getsockname()[1]}]), processes.free_port\n"
        instead = f"{given}processes.free_port = lambda: next(taken, None) or free_port()\n"
        stack = f"from flows.supervision import processes\n{instead}{STACK}"
        with up(spec, free_ports(3), stack=stack) as process:
            lines = lines_until_up(process, spec)
        assert any(line.startswith("worker   ") and "; it is started again in 1 s" in line for line in lines)


def test_the_real_worker_has_a_health_check_and_is_restarted_if_it_hangs(spec: Spec) -> None:
    with up(spec, free_ports(3), stack=STACK.partition("def services")[0] + REAL) as process:
        lines_until_up(process, spec)
        os.kill(group(spec, "worker"), signal.SIGSTOP)
        wait_for(lambda: parts(spec)["worker"]["state"] == "silent")
        process.send_signal(signal.SIGUSR1)
        wait_for(lambda: parts(spec)["worker"]["restarts"] == 1 and parts(spec)["worker"]["state"] == "up")


def test_the_next_up_ends_or_takes_over_leftovers_of_a_killed_one(spec: Spec) -> None:
    ports = free_ports(3)
    with up(spec, ports) as process:
        lines_until_up(process, spec)
        numbers = {name: group(spec, name) for name in ("prefect", "mlflow", "page", "worker")}
        process.kill()
        process.wait()
    assert "of an `up` that was killed: prefect, mlflow, page, worker" in "\n".join(status(spec, NIGHT))
    with up(spec, ports) as process:
        lines = lines_until_up(process, spec)
        assert lines[0].startswith("the last `up` was killed; prefect, mlflow, page, worker of it")
        wait_for(lambda: not any(group_is_there(numbers[name]) for name in ("prefect", "mlflow", "page")))
        assert group_is_there(numbers["worker"])  # its run continues
        assert group(spec, "worker") != numbers["worker"]
        assert len(parts(spec)["worker"]["former"]) == 1
    wait_for(lambda: not group_is_there(numbers["worker"]))


def test_an_up_killed_at_any_moment_of_its_start_leaves_no_unknown_process(spec: Spec) -> None:
    ports = free_ports(3)
    for moment in (0.6, 0.9, 1.2, 1.6, 2.4):
        with up(spec, ports) as process:
            time.sleep(moment)
            process.kill()
            process.wait()
    with up(spec, ports) as process:
        lines_until_up(process, spec)
        process.terminate()
        assert process.wait(60) == 0
    mentions = [
        entry.name
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and str(ports[2]).encode() in _command(entry)
    ]
    assert mentions == []


def test_rejects_a_second_up(spec: Spec) -> None:
    ports = free_ports(3)
    with up(spec, ports) as process:
        lines_until_up(process, spec)
        with up(spec, ports) as second:
            assert second.stdout is not None
            assert f"tiny is up already, at http://127.0.0.1:{ports[2]}/; " in second.stdout.read()


def test_never_ends_a_process_with_another_start_time(spec: Spec) -> None:
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as other:
        name = lease.process_name(other.pid)
        stranger = name.rpartition(" ")[0] + " 1"
        try:
            assert processes.group_lives(name)
            assert not processes.group_lives(stranger)
            processes.kill(stranger)
            processes.end_groups([stranger])
            assert other.poll() is None
        finally:
            processes.end_groups([name])
        assert other.wait(5) != 0


def _command(entry: Path) -> bytes:
    try:
        return (entry / "cmdline").read_bytes()
    except OSError:
        return b""
