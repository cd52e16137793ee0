"""Measure whole trainings with the preset `nightly`: Harbor Fleet's with five members, and
rossmann's 1,115 stores.

    make bench-training

Each training runs in its own process, as in a nightly run, which finds the programs that the
previous run compiled. The first training of Harbor Fleet, which compiles them, is therefore
reported without an aim. rossmann is trained once.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time

from forecaster.config import Spec
from forecaster.core.panel import Panel
from forecaster.errors import NoUsableData
from forecaster.training import fit_candidate
from tests.benchmarks import real, worked_example
from tests.benchmarks.report import Figure, below, write_report

MEMBERS, TRAININGS = 5, 4
SAMPLE, LARGEST = "Harbor Fleet, five members", "rossmann"
NO_DATA = 3  # exit code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--train", nargs=2, metavar=("NAME", "STATE"), help="run only this training, and print its seconds"
    )
    options = parser.parse_args()
    if options.train:
        _train_and_report(*options.train)
        return
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory() as state:
        first, *later = (_in_its_own_process(SAMPLE, state) for _ in range(TRAININGS))
        figures.append(Figure(f"{SAMPLE}: first training, which compiles", first, "s"))
        figures += [below(f"{SAMPLE}: training {number}", took, "s", 40) for number, took in enumerate(later, start=2)]
        try:
            figures.append(below(f"{LARGEST}: training", _in_its_own_process(LARGEST, state), "s", 360))
        except NoUsableData as error:
            print(f"{LARGEST} is skipped: {error}")
    write_report("training", figures)


def _in_its_own_process(name: str, state: str) -> float:
    """Return the seconds of a training. Raises NoUsableData if the dataset is absent."""
    process = subprocess.run(
        [sys.executable, "-m", __spec__.name, "--train", name, state], stdout=subprocess.PIPE, text=True
    )
    answer = process.stdout.splitlines()[-1] if process.stdout else ""
    if process.returncode == NO_DATA:
        raise NoUsableData(answer)
    process.check_returncode()
    print(f"{name}: {answer}", flush=True)
    seconds: float = json.loads(answer)["seconds"]
    return seconds


def _train_and_report(name: str, state: str) -> None:
    try:
        panel, spec = _sample(state) if name == SAMPLE else _real(name, state)
    except NoUsableData as error:
        print(error)
        sys.exit(NO_DATA)
    before = panel.at(fit_candidate.first_cutoff(panel, spec))
    shutil.rmtree(spec.paths.checkpoints, ignore_errors=True)  # otherwise nothing is left to train
    begun = time.perf_counter()
    summary = fit_candidate.train_uncalibrated(before, spec).summary
    report = {
        "seconds": time.perf_counter() - begun,
        "steps": summary["steps_seconds"],
        "recurrence": summary["recurrence"],
    }
    print(json.dumps(report))


def _sample(state: str) -> tuple[Panel, Spec]:
    spec = worked_example.spec_of("pipeline", state)
    training = spec.training.model_copy(update={"members": MEMBERS})
    return worked_example.panel_of(spec), spec.model_copy(update={"training": training})


def _real(name: str, state: str) -> tuple[Panel, Spec]:
    return real.panel_of(name), real.spec_of(name).model_copy(update={"state": state})


if __name__ == "__main__":
    main()
