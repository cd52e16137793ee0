"""Waits, with a limit, for `forecaster up` to start; on failure shows its output and its parts'
logs."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

from forecaster.config import Spec

PATIENCE = 400.0  # seconds until it must be up, well below the limit of a test
LAST_LINES = 15


def lines_until_up(process: subprocess.Popen[str], spec: Spec, *, patience: float = PATIENCE) -> list[str]:
    """Return its output until everything is up. Fails, with all available logs, if it ends or takes
    longer."""
    report: list[str] = []

    def give_up() -> None:
        report.append(f"it was not up after {patience:.0f} s")
        for file in (spec.paths.local_stack, *sorted(spec.paths.logs.glob("*.log"))):
            text = file.read_text("utf-8", "replace") if file.exists() else "is not there"
            report.extend([f"--- {file.name}", *text.splitlines()[-LAST_LINES if file.suffix == ".log" else 0 :]])
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)  # Python's fault handler prints the stacks

    timer = threading.Timer(patience, give_up)
    timer.start()
    lines = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("everything is up"):
                return lines
    finally:
        timer.cancel()
        timer.join()
    pytest.fail("\n".join([*lines, process.stderr.read() if process.stderr else "", *report]))
