"""The start of `forecaster up`, waited for with an end: where it does not come up, what it said and its parts' logs."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest

from forecaster.config import Spec

PATIENCE = 400.0  # seconds until it must be up, far below the limit of a test
LAST_LINES = 15


def lines_until_up(process: subprocess.Popen[str], spec: Spec, *, patience: float = PATIENCE) -> list[str]:
    """What it says until everything is up. Fails, with all that there is to read, where it ends or takes longer."""
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
            process.send_signal(signal.SIGABRT)  # Python's fault handler says where it stands

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
