"""Measure whole nightly runs: the Harbor Fleet sample twice from an empty state, and favorita once
if the datasets are present.

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
from tests.benchmarks.report import ROOT, Figure, below, write_report

SAMPLE = ROOT / "data" / "harbor_fleet" / "pipeline.yaml"
FAVORITA = ROOT / "data" / "real" / "favorita_transactions.yaml"


@dataclass(frozen=True)
class NightMeasurement:
    """One nightly run, measured from outside, and its own record in the ledger."""

    wall: float  # seconds, from process start to process end
    cpu: float  # seconds, all its processes
    memory: float  # MB, of its largest process
    run: Run

    def own_measure(self, name: str) -> float:
        """Return a measure that the run recorded of itself; 0 if a cached training spent nothing."""
        return float((self.run.measures or {}).get(name, 0))


def main() -> None:
    folder = Path(tempfile.mkdtemp(prefix="bench-night-"))
    try:
        sample = _copy_with_empty_state(SAMPLE, folder / "harbor_fleet")
        nights = [_night(sample, "--as-of", "2026-11-01") for _ in range(2)]
        figures = [*_times("first", nights[0], 90), *_times("second", nights[1], 60)]
        figures += _accuracy("Harbor Fleet, last 30 days", nights[0].run, 0.6)
        os.environ.setdefault(DATASETS, str((ROOT / ENVIRONMENT_DEFAULTS[DATASETS]).resolve()))
        if Path(os.environ[DATASETS]).is_dir():
            night = _night(_copy_with_empty_state(FAVORITA, folder / "favorita"), "--as-of", "2017-08-16")
            figures += [Figure("favorita night, wall", night.wall, "s")]
            figures += [Figure("favorita night, training", night.run.timings["train"], "s")]
            figures += _accuracy("favorita, last 30 days", night.run)
        else:
            print(f"favorita is skipped: {DATASETS} is not a folder")
        write_report("night", figures)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _copy_with_empty_state(file: Path, folder: Path) -> Path:
    """Copy the pipeline file and its sources, with an empty state."""
    shutil.copytree(file.parent, folder)
    copy = folder / file.name
    copy.write_text(re.sub(r"(?m)^state: .*$", f"state: {folder / 'var'}", copy.read_text("utf-8")), "utf-8")
    return copy


def _night(file: Path, *options: str) -> NightMeasurement:
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
    return NightMeasurement(wall, used.ru_utime + used.ru_stime, used.ru_maxrss * kilobyte / 1e6, run)


def _times(which: str, night: NightMeasurement, limit: float) -> list[Figure]:
    stages = [Figure(f"{which} night, {stage}", s, "s") for stage, s in night.run.timings.items() if stage != "night"]
    return [
        below(f"{which} night of 64 depots, wall", night.wall, "s", limit),
        Figure(f"{which} night, processor time", night.cpu, "s"),
        Figure(f"{which} night, peak memory of a process", night.memory, "MB"),
        Figure(f"{which} night, outside the stages (start of Python, Prefect)", night.wall - _inside(night), "s"),
        *stages,
        Figure(f"{which} night, compilation of the training (or its cache)", night.own_measure("compile_seconds"), "s"),
        Figure(f"{which} night, programs compiled", night.own_measure("compile_misses"), "programs"),
    ]


def _inside(night: NightMeasurement) -> float:
    return sum(seconds for stage, seconds in night.run.timings.items() if stage != "night")


def _accuracy(dataset: str, run: Run, aim: float | None = None) -> list[Figure]:
    assert run.verdict is not None
    compared = run.verdict["compared"]
    figures = [
        Figure(f"{dataset}: {metric.upper()} of {name}", 100 * compared[model][metric], "%")
        for metric in ("mape", "wape")
        for model, name in (("candidate", "the GRU"), ("seasonal_naive", "seasonal naive"))
    ]
    ratio = compared["candidate"]["mape"] / compared["seasonal_naive"]["mape"]
    name = f"{dataset}: MAPE of the GRU over seasonal naive's"
    figures.append(below(name, ratio, "ratio", aim) if aim else Figure(name, ratio, "ratio"))
    covered = compared["candidate"]["coverage"]
    return [*figures, Figure(f"{dataset}: coverage of the 80 % interval", 100 * covered, "%")]


if __name__ == "__main__":
    main()
