"""A host that trains with the run may die: this ends the training, and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from forecaster.config import load
from forecaster.ledger.store import Ledger
from tests import cpus
from tests.flows.test_degraded import interpreter, nightly
from tests.flows.tiny import pipeline_for_prefect
from tests.ports import free_port

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]
OTHER = """
import os, signal, sys
from forecaster.model.fitting.distributed import HostGroup, join
join(HostGroup(sys.argv[1], 2, 1))
print("joined", flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""

# The run's training process, with a shorter timeout for a silent host.
IMPATIENT = (
    "from forecaster.model.fitting import distributed; distributed.SILENT = 10; "
    "from forecaster.training import train; train.main()"
)


def test_a_dead_host_costs_only_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    address = f"127.0.0.1:{free_port()}"
    file = pipeline_for_prefect(tmp_path)
    declared = file.read_text("utf-8").replace(
        "training: {", f"training: {{hosts: {{coordinator: '{address}', count: 2}}, "
    )
    file.write_text(declared, "utf-8")
    command = [sys.executable, "-c", OTHER, address]
    other = subprocess.Popen(command, cwd=ROOT, env=cpus.environment(os.environ, 1), stdout=subprocess.PIPE, text=True)
    begun = time.monotonic()
    monkeypatch.setattr(sys, "executable", interpreter(tmp_path, f'exec {sys.executable} -c "{IMPATIENT}" "$3"'))
    night = nightly(file)
    assert other.communicate()[0] == "joined\n"
    assert other.returncode == -signal.SIGKILL
    assert time.monotonic() - begun < 200
    message = (
        "no model could be made tonight: another of training.hosts died or did not connect: the training process ended"
    )
    assert str(night.message).startswith(message)
    assert capfd.readouterr().err.count(f"waits for host 1 at {address}, at most 5 minutes") == 1
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        head, [run] = ledger.current("tiny"), ledger.runs()
    assert head is not None
    assert (run.outcome, run.exit_code, head.run_id, head.tier) == ("degraded", 3, night.run_id, "fallback")
