"""Measure whole nights: the Harbor Fleet sample twice from nothing, and favorita once where the datasets are present.

make bench
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from forecaster.config import DATASETS, ENVIRONMENT_DEFAULTS, load
from forecaster.ledger.records import Run
from forecaster.ledger.store import Ledger
from tests.benchmarks.report import ROOT, Figure, below, tell

SAMPLE = ROOT / "data" / "harbor_fleet" / "pipeline.yaml"
FAVORITA = ROOT / "data" / "real" / "favorita_transactions.yaml"


@dataclass(frozen=True)
class Measured:
    """One night as seen from outside, and what it wrote of itself."""

    wall: float  # seconds, from process start to process end
    cpu: float  # seconds, all its processes
    memory: float  # MB, of its largest process
    run: Run

    def measured(self, name: str) -> float:
        """What the night measured of itself; 0 where a remembered training spent nothing."""
        return float((self.run.measures or {}).get(name, 0))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-night-"))
    try:
        sample = _moved(SAMPLE, folder / "harbor_fleet")
        nights = [_night(sample, "--as-of", "2026-11-01") for _ in range(2)]
        figures = [*_times("first", nights[0], 90), *_times("second", nights[1], 60)]
        figures += _accuracy("Harbor Fleet, last 30 days", nights[0].run, 0.6)
        os.environ.setdefault(DATASETS, str((ROOT / ENVIRONMENT_DEFAULTS[DATASETS]).resolve()))
        if Path(os.environ[DATASETS]).is_dir():
            night = _night(_moved(FAVORITA, folder / "favorita"), "--as-of", "2017-08-16")
            figures += [Figure("favorita night, wall", night.wall, "s")]
            figures += [Figure("favorita night, training", night.run.timings["train"], "s")]
            figures += _accuracy("favorita, last 30 days", night.run)
        else:
            print(f"favorita is left out: {DATASETS} is not a folder")
        tell("night", figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _moved(file: Path, folder: Path) -> Path:
    """A copy of the pipeline file and its sources whose state starts empty."""
    shutil.copytree(file.parent, folder)
    copy = folder / file.name
    copy.write_text(re.sub(r"(?m)^state: .*$", f"state: {folder / 'var'}", copy.read_text("utf-8")), "utf-8")
    return copy


def _night(file: Path, *options: str) -> Measured:
    begun = time.monotonic()
    process = subprocess.Popen([sys.executable, "-m", "forecaster", "run", str(file), *options], cwd=ROOT)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.monotonic() - begun
    if code := os.waitstatus_to_exitcode(status):
        raise SystemExit(f"the night of {file} ended with exit code {code}")
    spec = load(file)
    with Ledger.open_reader(spec.ledger_url) as ledger:
        run = ledger.runs(spec.name, limit=1)[0]
    kilobyte = 1 if sys.platform == "darwin" else 1024
    return Measured(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * kilobyte / 1e6, run)


def _times(which: str, night: Measured, limit: float) -> list[Figure]:
    stages = [Figure(f"{which} night, {stage}", s, "s") for stage, s in night.run.timings.items() if stage != "night"]
    return [
        below(f"{which} night of 64 depots, wall", night.wall, "s", limit),
        Figure(f"{which} night, processor time", night.cpu, "s"),
        Figure(f"{which} night, peak memory of a process", night.memory, "MB"),
        Figure(f"{which} night, outside the stages (start of Python, Prefect)", night.wall - _inside(night), "s"),
        *stages,
        Figure(f"{which} compile of training (or its cache)", night.measured("compile_seconds"), "s"),
        Figure(f"{which} night, programs compiled", night.measured("compile_misses"), "programs"),
    ]


def _inside(night: Measured) -> float:
    return sum(seconds for stage, seconds in night.run.timings.items() if stage != "night")


def _accuracy(where: str, run: Run, aim: float | None = None) -> list[Figure]:
    assert run.verdict is not None
    compared = run.verdict["compared"]
    figures = [
        Figure(f"{where}: {metric.upper()} of {name}", 100 * compared[model][metric], "%")
        for metric in ("mape", "wape")
        for model, name in (("candidate", "the GRU"), ("seasonal_naive", "seasonal naive"))
    ]
    ratio = compared["candidate"]["mape"] / compared["seasonal_naive"]["mape"]
    name = f"{where}: MAPE of the GRU over seasonal naive's"
    figures.append(below(name, ratio, "ratio", aim) if aim else Figure(name, ratio, "ratio"))
    covered = compared["candidate"]["coverage"]
    return [*figures, Figure(f"{where}: coverage of the 80 % interval", 100 * covered, "%")]


if __name__ == "__main__":
    main()
