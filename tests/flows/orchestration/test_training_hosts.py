"""The other hosts of a training, on workers of a real cluster: they join the training and report
how they ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import dask
import distributed
import psutil
import pytest

from flows.orchestration import training_hosts
from forecaster.config import load
from forecaster.errors import SpecError, TrainingError
from tests import cpus
from tests.flows.tiny import pipeline
from tests.ports import free_port

pytestmark = pytest.mark.long

FIRST = """
import os, sys
from forecaster.model.fitting.distributed import HostGroup, join
join(HostGroup(sys.argv[1], 2, 0))
print("joined", flush=True)
os._exit(0)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[str]:
    """Return the address of a cluster of one worker, in a process with a single-threaded device."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in cpus.environment(os.environ, 1).items():
            patch.setenv(name, value)
        with distributed.LocalCluster(  # type: ignore[no-untyped-call]
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as started:
            yield started.scheduler_address


def on_workers(folder: Path, address: str, count: int = 2) -> Path:
    """Return the tiny pipeline with all hosts but the run's own on workers."""
    coordinator = f"127.0.0.1:{free_port()}"
    file = pipeline(folder, f"execution: {{runner: dask, address: '{address}'}}\n")
    hosts = f"training: {{hosts: {{coordinator: '{coordinator}', count: {count}, others: on_workers}}, "
    file.write_text(file.read_text("utf-8").replace("training: {", hosts), "utf-8")
    return file


def test_a_host_on_a_worker_joins_the_training_and_ends_with_it(tmp_path: Path, cluster: str) -> None:
    file = on_workers(tmp_path, cluster)
    spec = load(file)
    assert spec.training.hosts is not None
    command = [sys.executable, "-c", FIRST, spec.training.hosts.coordinator]
    first = subprocess.Popen(command, env=cpus.environment(os.environ, 1), stdout=subprocess.PIPE, text=True)
    with training_hosts.other_hosts(spec, file) as start:
        start()
        assert first.communicate(timeout=200) == ("joined\n", None)
    assert not [process for process in psutil.process_iter(["cmdline"]) if str(file) in (process.info["cmdline"] or ())]


def test_the_error_of_the_training_includes_why_a_host_ended(tmp_path: Path, cluster: str) -> None:
    file = on_workers(tmp_path, cluster)
    spec = load(file)
    file.unlink()
    expected = r"^the others are gone; host 1 on a worker: it ended with 2 and said: forecaster: .*pipeline\.yaml"

    def train() -> None:
        with training_hosts.other_hosts(spec, file) as start:
            start()
            # a host still at work would be ended instead, and a busy machine starts one slowly
            with distributed.Client(cluster, set_as_default=False) as client:  # type: ignore[no-untyped-call]
                while not any(client.has_what().values()):
                    time.sleep(0.1)
            raise TrainingError("the others are gone")

    with pytest.raises(TrainingError, match=expected):
        train()


def test_a_cluster_lost_after_the_training_is_harmless(tmp_path: Path) -> None:
    cluster = distributed.LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=":0")  # type: ignore[no-untyped-call]
    file = on_workers(tmp_path, cluster.scheduler_address)
    quickly = dask.config.set({"distributed.comm.timeouts.connect": "1s"})
    with quickly, training_hosts.other_hosts(load(file), file) as start:
        start()
        cluster.close()


def test_reports_too_few_workers(tmp_path: Path, cluster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training_hosts, "PATIENCE", 0.2)
    file = on_workers(tmp_path, cluster, count=3)
    expected = r"^training\.hosts wants 2 of its 3 hosts on workers .* tcp://\S+: Worker\w+: Only 1/2 .*`dask worker"
    with pytest.raises(TrainingError, match=expected), training_hosts.other_hosts(load(file), file) as start:
        start()


def test_hosts_are_spread_over_different_machines() -> None:
    workers = ["tcp://b:1", "tcp://a:2", "tcp://a:1", "tcp://c:9"]
    assert training_hosts.on_different_machines(workers) == ["tcp://a:1", "tcp://b:1", "tcp://c:9", "tcp://a:2"]


def test_workers_that_train_need_a_cluster(tmp_path: Path) -> None:
    file = on_workers(tmp_path, "tcp://scheduler:8786")
    threads = file.read_text("utf-8").replace("execution: {runner: dask, address: 'tcp://scheduler:8786'}", "")
    file.write_text(threads, "utf-8")
    with pytest.raises(
        SpecError, match=r"on_workers takes workers of a Dask cluster, and execution\.runner is threads"
    ):
        load(file)
