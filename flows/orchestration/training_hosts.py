"""The other hosts of a training (`training.hosts`), which the run starts on workers of a Dask
cluster.

A worker only provides its machine: `forecaster assist` runs there as a separate process, as JAX
ends a process whose peers are gone. Each host is on another worker, and on another machine if there
are enough.
"""

from __future__ import annotations

import logging
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from forecaster.config import Spec
from forecaster.config.execution import Execution
from forecaster.config.model import Hosts
from forecaster.core.language.sentences import of_error
from forecaster.core.processes import parent_watch
from forecaster.errors import MissingExtra, TrainingError
from forecaster.plugins import plugin

PATIENCE = 60.0  # seconds for the cluster to have enough workers
LOOK = 0.5  # seconds between two checks of a process
GRACE = 10.0  # seconds for a process to end by itself, after the run's own host has


@contextmanager
def other_hosts(spec: Spec, file: Path) -> Iterator[Callable[[], None]]:
    """Run the other hosts of a training while open; does nothing if they are started by hand.

    `file` is the pipeline file, visible to all workers. Starting the hosts raises TrainingError if
    the cluster does not come up or has too few workers, and MissingExtra if Dask is not installed.
    A TrainingError of the training itself also reports how the others ended.
    """
    hosts = spec.training.hosts
    assert hosts is not None
    if hosts.others == "by_hand":
        yield _nothing
        return
    with ExitStack() as stack:
        assisting_hosts = _OtherHosts(hosts, spec.execution, file, stack)
        try:
            yield assisting_hosts.start
        except TrainingError as error:
            raise TrainingError("; ".join([of_error(error), *assisting_hosts.end()])) from error
        except BaseException:  # including Ctrl-C, which must not wait
            assisting_hosts.end(patience=0.0)
            raise
        assisting_hosts.end()


@dataclass
class _OtherHosts:
    """The processes of the other hosts, by host number."""

    hosts: Hosts
    execution: Execution
    file: Path
    stack: ExitStack  # of the connection, and of a cluster started for them
    # of the event that the training is over
    name: str = field(default_factory=lambda: f"training-{uuid4().hex}")
    client: Any = None
    processes: dict[int, Any] = field(default_factory=dict)

    def start(self) -> None:
        """Start one process on each of the required workers. Raises TrainingError."""
        host_count = self.hosts.count - 1
        try:
            self.client = self.stack.enter_context(_client(self.execution, host_count))
            self.client.wait_for_workers(host_count, PATIENCE)
            workers = on_different_machines(self.client.scheduler_info()["workers"])
        except (OSError, TimeoutError) as error:
            where = self.execution.address or "this machine"
            raise TrainingError(
                f"training.hosts wants {host_count} of its {self.hosts.count} hosts on workers of the Dask cluster on "
                f"{where}: {type(error).__name__}: {error}; start as many (`dask worker ADDRESS`)"
            ) from error
        for number, worker in zip(range(1, host_count + 1), workers, strict=False):
            self.processes[number] = self.client.submit(
                assist, str(self.file.resolve()), number, self.name, workers=[worker], pure=False, retries=0
            )

    def end(self, patience: float = 2 * GRACE) -> list[str]:
        """Let the processes end, and describe those that failed. A lost cluster is harmless by now:
        the training has ended, and without the run's own host the others end too."""
        if not self.processes:
            return []
        from distributed import Event

        futures = list(self.processes.values())
        with suppress(Exception):
            Event(self.name, client=self.client).set()  # type: ignore[no-untyped-call]
            until = time.monotonic() + patience
            while time.monotonic() < until and not all(future.done() for future in futures):
                time.sleep(LOOK)
        endings = [_ending(number, future) for number, future in self.processes.items()]
        with suppress(Exception):
            self.client.cancel(futures)
        self.processes.clear()
        return [ending for ending in endings if ending]


def assist(file: str, number: int, over: str) -> str:
    """Run one host of a training on a worker, to its end, or until some seconds after the event
    `over`. Returns its last line if it failed, else an empty text."""
    from distributed import Event

    command = [sys.executable, "-m", "forecaster", "assist", file, "--number", str(number)]
    event = Event(over)  # type: ignore[no-untyped-call]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(command, env=parent_watch.environment(), stdout=output, stderr=output)
        try:
            while process.poll() is None:
                if event.wait(timeout=LOOK):  # type: ignore[no-untyped-call]
                    process.wait(GRACE)
        except subprocess.TimeoutExpired:
            return "it was still active when the training was over, and was stopped"
        finally:
            process.kill()
            process.wait()
        output.seek(0)
        lines = output.read().decode("utf-8", "replace").strip().splitlines() or ["nothing"]
    return f"it ended with {process.returncode} and said: {lines[-1][:500]}" if process.returncode else ""


def on_different_machines(workers: Iterable[str]) -> list[str]:
    """Sort addresses of workers (`tcp://host:port`): the first of each machine before its second,
    and so on."""
    place, on_machine = dict[str, int](), Counter[str]()
    for worker in sorted(workers):
        machine = worker.rpartition(":")[0]
        place[worker] = on_machine[machine]
        on_machine[machine] += 1
    return sorted(place, key=lambda worker: (place[worker], worker))


@contextmanager
def _client(execution: Execution, workers: int) -> Iterator[Any]:
    """Open a connection to the existing cluster, or to one with `workers` workers that is started
    on this machine."""
    try:
        from distributed import Client, LocalCluster
    except ModuleNotFoundError as error:
        raise MissingExtra(
            f"training.hosts.others is on_workers, which needs {error.name}, not installed here: "
            "pip install 'harbor-forecaster[cluster]'"
        ) from error
    # joins and departures of workers do not belong in the run's output
    logging.getLogger("distributed").setLevel(logging.WARNING)
    with ExitStack() as stack:
        address = execution.address
        if address is None:
            arguments = plugin("groups.workers").cluster_arguments(workers)
            address = stack.enter_context(LocalCluster(**arguments))  # type: ignore[no-untyped-call]
        yield stack.enter_context(Client(address, set_as_default=False))  # type: ignore[no-untyped-call]


def _ending(number: int, future: Any) -> str:
    """Describe a host that failed."""
    where = f"host {number} on a worker"
    if not future.done():
        return f"{where}: it has not reported"
    if future.status == "finished":
        return f"{where}: {failure}" if (failure := future.result()) else ""
    return f"{where}: its worker ended ({future.status})"


def _nothing() -> None:
    """The user starts the other hosts."""
