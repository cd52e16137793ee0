"""A run that is asked to stop does so within seconds, reports it once, and leaves no child process;
the next run continues."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from flows.night import Night
from forecaster.config import load
from forecaster.core.processes import parent_watch
from forecaster.ledger.store import Ledger
from tests.flows.tiny import NIGHT, pipeline, pipeline_for_prefect

pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parents[2]


HEARD_AGAIN = (
    "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)
"""Restores SIGINT: a shell makes background processes and their children ignore it."""


def night(file: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run and wait until its training has begun, which takes seconds to import and compile."""
    process = subprocess.Popen(
        [
            *(sys.executable, "-c", HEARD_AGAIN, "-m", "forecaster", "run"),
            *(str(file), "--as-of", NIGHT.isoformat(), *options),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 300
    while not any("forecaster.training.train" in command for command in commands_with(str(file))):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process


def children_left(file: Path) -> list[str]:
    """Return processes that name the pipeline file, after those that watch their parent had time to
    end."""
    deadline = time.monotonic() + 60
    while (left := commands_with(str(file))) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


def commands_with(text: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            continue
        if text in command:
            found.append(command)
    return found


@pytest.mark.parametrize(
    ("options", "number", "name", "code"),
    [
        (("--plain",), signal.SIGTERM, "SIGTERM", 143),
        ((), signal.SIGINT, "Ctrl-C", 130),
        pytest.param(("--plain",), signal.SIGINT, "Ctrl-C", 130, marks=pytest.mark.exhaustive),
        pytest.param((), signal.SIGTERM, "SIGTERM", 143, marks=pytest.mark.exhaustive),
    ],
)
def test_an_interrupted_run_ends_with_one_sentence(
    tmp_path: Path, options: tuple[str, ...], number: signal.Signals, name: str, code: int
) -> None:
    file = pipeline_for_prefect(tmp_path)
    process = night(file, *options)
    process.send_signal(number)
    _, stderr = process.communicate(timeout=240)
    assert process.returncode == code, stderr
    sentence = f"{name} ended it; the next run continues from the checkpoint"
    assert stderr.count(sentence) == 1
    assert "Traceback" not in stderr
    assert children_left(file) == []
    with Ledger.open_reader(load(file).ledger_url) as ledger:
        [run] = ledger.runs()
    assert (run.outcome, run.exit_code) == ("failed", code)
    assert str(run.message).startswith(sentence)


def test_a_killed_run_leaves_no_processes(tmp_path: Path) -> None:
    file = pipeline_for_prefect(tmp_path)
    process = night(file, "--plain")
    assert len(commands_with(str(file))) >= 2
    process.kill()
    process.communicate(timeout=240)
    assert children_left(file) == []


def test_a_child_ends_with_its_parent_only_if_asked_to(tmp_path: Path) -> None:
    imports = "import subprocess, sys, time; from forecaster.core.processes import parent_watch; "
    child = f"{imports}parent_watch.end_with_parent(); time.sleep(60) # {tmp_path}"
    parent = (
        f"{imports}subprocess.Popen([sys.executable, '-c', {child!r}], env=parent_watch.environment()); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", parent], cwd=ROOT, start_new_session=True)
    mark = f"# {tmp_path}"
    deadline = time.monotonic() + 120
    while not any(mark in command and "environment()" not in command for command in commands_with(mark)):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 120
    while commands_with(mark):
        assert time.monotonic() < deadline, commands_with(mark)
        time.sleep(0.1)
    os.environ.pop(parent_watch.PARENT, None)
    parent_watch.end_with_parent()  # this process must survive


@pytest.mark.parametrize(("published", "outcome", "code"), [(True, "degraded", 3), (False, "failed", 130)])
def test_a_run_interrupted_after_publishing_counts_as_published(
    tmp_path: Path, published: bool, outcome: str, code: int
) -> None:
    run = Night.begin(str(pipeline(tmp_path)), NIGHT)

    def line() -> None:
        if published:
            run.publication = {"tier": "fresh"}
        raise KeyboardInterrupt

    run.run(line)
    assert (run.outcome, run.exit_code) == (outcome, code)
    assert str(run.message) == (
        "Ctrl-C ended it after the forecast was out"
        if published
        else "Ctrl-C ended it; the next run continues from the checkpoint"
    )
