"""Supervisor of one part (process): starts it, checks its health, and restarts it with growing
pauses."""

from __future__ import annotations

import http.client
import subprocess
import time
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from flows.supervision import processes
from forecaster.ledger import lease

PATIENCE = 180.0  # seconds for which a part may fail to answer, at its start and later
SHORT = 3.0  # seconds for a health check
CHECKED = 10.0  # seconds between two health checks of a healthy part
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds until an ended part is restarted
STEADY = 600.0  # seconds of uptime after which the pause is reset

State = Literal["waits", "starting", "up", "silent", "pauses", "done"]
WELL = ("up", "done")


@dataclass(frozen=True)
class Service:
    """One of the processes: its health address, and the address that people open (none for the
    worker)."""

    name: str
    command: tuple[str, ...]
    health: str | None = None
    page: str | None = None
    after: str | None = None  # the part that must be healthy before
    once: bool = False  # done once it has ended with exit code 0
    outlived: bool = False  # its child processes may outlive it: runs, which have a lease
    # environment variable of an internal port, `{port}` in `health`
    port_variable: str | None = None


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=SHORT) as answer:
            return bool(answer.status == 200)
    except (OSError, ValueError, http.client.HTTPException):
        return False


class Part:
    """A service and its current process."""

    def __init__(self, service: Service, log: Path, say: Callable[[str], None]) -> None:
        self.service, self._log, self._say = service, log, say
        self.state: State = "waits"
        self.since = datetime.now(UTC)
        self.restarts = 0
        self.reason = f"for {service.after}" if service.after else ""
        # current address of the health check
        self.health = None if service.port_variable else service.health
        self.process: str | None = None  # as in `lease.process_name`
        self.former: tuple[str, ...] = ()  # ended, but their child processes may still run
        self._child: subprocess.Popen[bytes] | None = None
        self._pause = FIRST_PAUSE
        self._changed = self._checked = time.monotonic()

    def record(self) -> dict[str, Any]:
        """Return the record of the part for `status`."""
        return {
            "state": self.state,
            "since": self.since.isoformat(timespec="seconds"),
            "restarts": self.restarts,
            "reason": self.reason,
            "process": self.process,
            "page": self.service.page,
            "former": list(self.former),
        }

    def look(self, parts: Mapping[str, Part], write: Callable[[], None]) -> None:
        """Take the next step: start the part, or check it. `write` stores the records, before a
        process begins."""
        before = self.state, self.process
        if self.state in ("waits", "pauses"):
            ready = self.service.after is None or parts[self.service.after].state in WELL
            if ready and (self.state == "waits" or time.monotonic() - self._changed >= self._pause):
                self._start(write)
        elif self._child is not None:
            self._see(self._child, parts)
        if (self.state, self.process) != before:
            write()

    def _start(self, write: Callable[[], None]) -> None:
        if self.state == "pauses":
            self.restarts += 1
            self._pause = min(2 * self._pause, LONGEST_PAUSE)
        variables = {}
        try:
            if self.service.health and self.service.port_variable:
                # a new one at each start: a free port may have been taken meanwhile
                port = processes.free_port()
                variables[self.service.port_variable] = str(port)
                self.health = self.service.health.format(port=port)
            self._child = processes.start_held(self.service.command, self._log, variables)
        except OSError as error:
            self._change("pauses", f"could not be started: {error}")
            return
        self.process = lease.process_name(self._child.pid)
        self._change("starting")
        write()
        processes.let_go(self._child)

    def _see(self, child: subprocess.Popen[bytes], parts: Mapping[str, Part]) -> None:
        if (code := child.poll()) is not None:
            self._ended(code)
        elif self.service.once and self.health is None:
            self._see_once(child, parts)
        elif self.health is None:
            if self.state == "starting":
                self._change("up")
        elif self.state != "up" or time.monotonic() - self._checked >= CHECKED:
            self._ask(self.health, child)
        if self.state == "up" and time.monotonic() - self._changed >= STEADY:
            self._pause = FIRST_PAUSE

    def _see_once(self, child: subprocess.Popen[bytes], parts: Mapping[str, Part]) -> None:
        """End a part that should run once but exceeds its time."""
        if time.monotonic() - self._changed > PATIENCE:
            self._end(child, f"was not done within {PATIENCE:.0f} s")
            # it may report healthy, and yet not process requests
            if self.service.after:
                parts[self.service.after].start_again(
                    f"did not do within {PATIENCE:.0f} s what {self.service.name} asks for"
                )

    def _ask(self, health: str, child: subprocess.Popen[bytes]) -> None:
        if answers(health):
            if self.state != "up":
                self._change("up")
        elif self.state == "up":
            self._change("silent", f"no answer at {health}")
        elif time.monotonic() - self._changed > PATIENCE:
            self._end(child, f"no answer at {health} for {PATIENCE:.0f} s")
        self._checked = time.monotonic()

    def start_again(self, reason: str) -> None:
        """End its process, if any; it is restarted as after any end."""
        if self._child is not None:
            self._end(self._child, reason)

    def _end(self, child: subprocess.Popen[bytes], reason: str) -> None:
        """End a part that hangs; processes that may outlive it continue."""
        (processes.kill if self.service.outlived else processes.kill_group)(self.process or "")
        child.wait()
        self._pausing(reason)

    def _ended(self, code: int) -> None:
        if self.service.once and code == 0:
            self._child = self.process = None
            self._change("done")
            return
        if self.process is not None and not self.service.outlived:
            processes.kill_group(self.process)  # its leftovers would hold its port
        self._pausing(f"ended with {f'exit code {code}' if code >= 0 else f'signal {-code}'}")

    def _pausing(self, reason: str) -> None:
        former = (*self.former, self.process) if self.process and self.service.outlived else self.former
        self.former = tuple(filter(processes.group_lives, former))
        self._child = self.process = None
        self._change("pauses", reason)
        self._say(f"{self.service.name:8} {reason}; it is started again in {self._pause:.0f} s; see {self._log}")

    def _change(self, state: State, reason: str = "") -> None:
        self.state, self.reason = state, reason
        self.since, self._changed = datetime.now(UTC), time.monotonic()
        if state == "up":
            self._say(f"{self.service.name:8} {self.service.page or 'takes up the work of the schedule'}")

    def groups(self) -> tuple[str, ...]:
        """Return all process groups to be ended with it."""
        return (*self.former, *((self.process,) if self.process else ()))

    def reap(self) -> None:
        """Wait for the ended process, so that no zombie is left."""
        if self._child is not None:
            self._child.wait()
