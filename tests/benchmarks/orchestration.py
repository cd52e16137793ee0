"""Measure the cost of Prefect: a nightly run whose stages do nothing, under Prefect and without it.

make bench-orchestration
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.benchmarks.report import ROOT, Figure, write_report
from tests.flows.tiny import pipeline

REPETITIONS = 3
NOTHING = """
import sys, time, json
from pathlib import Path
from types import SimpleNamespace
begun = time.monotonic()
from flows import steps
nothing = lambda *_, **__: None
for name in ("ingest", "train", "backtest", "export", "record", "register", "promote", "archive", "tidy"):
    setattr(steps, name, nothing)
steps.panel = lambda *_: (None, None)
steps.gate = lambda *_: SimpleNamespace(admitted=True)
def predict(night): night.exit_code = 0
steps.predict = predict
from flows import start
start.HEAVY = ()
from forecaster.config import load
file = Path(sys.argv[1])
code = start.nightly(file, load(file), plain=sys.argv[2] == "plain")
print(json.dumps({"code": code, "seconds": time.monotonic() - begun}))
"""


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-orchestration-"))
    try:
        file = pipeline(folder)
        seconds = {mode: median(_seconds(file, mode) for _ in range(REPETITIONS)) for mode in ("plain", "prefect")}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    write_report(
        "orchestration",
        [
            Figure("run of ten stages that do nothing, without Prefect", seconds["plain"], "s"),
            Figure("the same under Prefect, including start and stop of its server", seconds["prefect"], "s"),
            Figure("overhead of orchestration", seconds["prefect"] - seconds["plain"], "s"),
        ],
    )


def _seconds(file: Path, mode: str) -> float:
    begun = time.monotonic()
    command = [sys.executable, "-c", NOTHING, str(file), mode]
    process = subprocess.run(command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=True)
    assert json.loads(process.stdout.splitlines()[-1])["code"] == 0, process.stderr
    return time.monotonic() - begun


if __name__ == "__main__":
    main()
