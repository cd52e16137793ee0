"""A running installation with its Prometheus, Alertmanager and on-call staff, for one scenario."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from flows import local_stack
from flows.supervision import processes
from forecaster.config import load
from forecaster.ledger import lease
from tests.benchmarks.game_day.commands import Ending, ending, start
from tests.benchmarks.game_day.patience import divided
from tests.e2e.on_call import OnCall, ask, running, watched
from tests.ports import free_port

PATIENCE = 150.0  # seconds to wait for any expected event, on a busy machine
GRACE = 60.0  # seconds in which `up` must end
RECEIVERS = ("page", "ticket")  # receivers that notify people


class NotSeen(AssertionError):
    """An expected event did not happen in time."""


class Stage:
    """The objects of a scenario: the pipeline file, the page at a port, and the alerts about it."""

    def __init__(self, file: Path, folder: Path, factor: int, stack: ExitStack) -> None:
        self.file, self.folder, self.factor = file, folder, factor
        self.page_port, self.metrics_port, self.other_port = free_port(), free_port(), free_port()
        self.seen: dict[str, Any] = {}
        """Observations of this run for the table."""
        self.stack = stack
        self.person = OnCall()

    @property
    def state(self) -> Path:
        return load(self.file).paths.folder

    def watch(self, *more_ports: int) -> None:
        """Start Prometheus and Alertmanager."""
        targets = [self.metrics_port, *more_ports]
        self.person = self.stack.enter_context(watched(self.folder, targets, divided(self.factor)))

    def serve(self) -> subprocess.Popen[bytes]:
        """Start the page with its metrics, without a supervisor; return once it answers."""
        command = (sys.executable, "-m", "forecaster", "serve", str(self.file), "--port", str(self.page_port))
        page = self.stack.enter_context(
            running((*command, "--metrics", f"127.0.0.1:{self.metrics_port}"), self.folder, "page")
        )
        until(self.answers, "the page answers")
        return page

    def serve_and_watch(self, *more_ports: int) -> subprocess.Popen[bytes]:
        """Start both, and wait until the metrics of the ledger are scraped."""
        page = self.serve()
        self.watch(*more_ports)
        until(lambda: self.value("forecaster_publication_timestamp_seconds"), "the ledger was scraped")
        return page

    def answers(self) -> bool:
        """Return True if the page shows depots of a publication."""
        with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{self.page_port}/", timeout=30) as answer:
            return answer.status == 200 and b"/depot/" in answer.read()
        return False

    def value(self, query: str) -> list[Any]:
        """Return Prometheus' current result of a query, one entry per series; empty if it does not
        answer."""
        with suppress(OSError):
            answer = ask(f"{self.person.prometheus}/api/v1/query?query={urllib.request.quote(query)}")  # type: ignore[attr-defined]
            return list(answer["data"]["result"])
        return []

    def heard(self, status: str = "firing") -> set[str]:
        """Return the alerts that were sent to people."""
        return {name for receiver in RECEIVERS for name, s in self.person.alerts(receiver) if s == status}

    def fired(self) -> set[str]:
        """Return the alerts that fired in Prometheus in the last two hours, inhibited or not."""
        rows = self.value('max_over_time(ALERTS{alertstate="firing"}[2h])')
        return {row["metric"]["alertname"] for row in rows}

    def hears(self, *alerts: str, status: str = "firing", within: float = PATIENCE) -> None:
        """Wait until people were notified of all these alerts."""
        begun = time.monotonic()
        for alert in alerts:
            until(lambda name=alert: name in self.heard(status), f"{alert} is {status}", within)  # type: ignore[misc]
        self.seen[f"{status} after"] = f"{time.monotonic() - begun:.0f} s"

    def is_over(self, *alerts: str) -> None:
        """Wait until people were notified that these alerts are resolved."""
        self.hears(*alerts, status="resolved")

    def quiet(self, seconds: float) -> None:
        """Let time pass in which an unexpected alert would arrive."""
        time.sleep(seconds)

    def begin(self, *words: str, **environment: str) -> tuple[subprocess.Popen[bytes], Path]:
        """Start `forecaster …`; it is killed if it still runs at the end of the scenario."""
        process, output = start(self.file.parent, *words, **environment)
        self.stack.callback(_killed, process)
        return process, output

    def night(self, *codes: int, **environment: str) -> Ending:
        """Run a whole nightly run as of now. Raises NotSeen if it ends with another exit code."""
        begun = time.monotonic()
        process, output = self.begin("run", str(self.file), "--plain", **environment)
        return self.ended(process, output, begun, *codes)

    def ended(self, process: subprocess.Popen[bytes], output: Path, begun: float, *codes: int) -> Ending:
        end = ending(output, process.wait(600), time.monotonic() - begun)
        self.seen.setdefault("nights", []).append(
            {"code": end.code, "seconds": round(end.seconds), "said": end.sentence}
        )
        if end.code not in (codes or (0,)):
            raise NotSeen(f"the run ended with {end.code}: {end.sentence}")
        return end

    def training(self, night: subprocess.Popen[bytes]) -> int:
        """Wait for the training process of a nightly run and return its id."""

        def of_night() -> int | None:
            if night.poll() is not None:
                raise NotSeen(f"the run ended with {night.returncode} before it trained")
            children = _children(night.pid)
            return next((pid for pid in children if "forecaster.training.train" in _command(pid)), None)

        return int(until(of_night, "the training has begun"))

    def up(self) -> subprocess.Popen[bytes]:
        """Start everything with `forecaster up`; return once all parts are up."""
        ports = {
            "prefect": self.other_port,
            "mlflow": free_port(),
            "page": self.page_port,
            "metrics": self.metrics_port,
        }
        words = [word for name, port in ports.items() for word in (f"--{name}-port", str(port))]
        command = (sys.executable, "-m", "forecaster", "up", str(self.file), *words)
        self.stack.callback(self._end_parts)
        process = self.stack.enter_context(running(command, self.folder, "up"))
        until(lambda: self._is_up(process.pid), "everything is up", 2 * PATIENCE)
        return process

    def _is_up(self, pid: int) -> bool:
        """Return True if all parts are up, recorded by this `up` and not by an earlier one."""
        record = local_stack.read_record(load(self.file))
        is_of_this = record is not None and lease.process_id(str(record["holder"])) == pid
        return is_of_this and all(self.part(name)["state"] in ("up", "done") for name in PARTS)

    def part(self, name: str) -> Mapping[str, Any]:
        """Return the record that `up` has written of a part."""
        record = local_stack.read_record(load(self.file))
        with suppress(KeyError, TypeError):
            part: Mapping[str, Any] = (record or {})["parts"][name]
            return part
        return {"state": "unknown", "process": None, "restarts": 0}

    def _end_parts(self) -> None:
        """Kill the parts that a killed `up` has left."""
        for name in PARTS:
            if process := self.part(name)["process"]:
                processes.kill_group(process)


PARTS = ("prefect", "mlflow", "page", "deploy", "worker")


def until(condition: Any, description: str, seconds: float = PATIENCE) -> Any:
    """Wait until a condition is true and return its value. Raises NotSeen if it never is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with suppress(OSError):
            if value := condition():
                return value
        time.sleep(0.2)
    raise NotSeen(f"not true within {seconds:.0f} s: {description}")


@contextmanager
def staged(file: Path, folder: Path, factor: int) -> Iterator[Stage]:
    """Yield a stage; all its processes are stopped afterwards."""
    with ExitStack() as stack:
        yield Stage(file, folder, factor, stack)


def _killed(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _children(pid: int) -> Iterable[int]:
    with suppress(OSError):
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()] + [
            int(word)
            for task in Path(f"/proc/{pid}/task").iterdir()
            if task.name != str(pid)
            for word in (task / "children").read_text("ascii").split()
        ]
    return []


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text("utf-8").replace("\0", " ")
    return ""
