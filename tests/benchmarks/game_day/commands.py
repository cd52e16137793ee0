"""Commands of `forecaster` in a process of their own, and what they said."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tests.benchmarks.report import ROOT

LIMIT = 600.0  # seconds for one command


@dataclass(frozen=True)
class Ending:
    """How a command ended; `code` is negative where a signal ended it."""

    code: int
    seconds: float
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The last line that it said."""
        return (self.err.strip() or self.out.strip() or "nothing").splitlines()[-1]


def start(folder: Path, *arguments: str, **environment: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Begin `forecaster …` as the leader of a process group of its own; what it says goes into two files."""
    said = folder / "said"
    said.mkdir(exist_ok=True)
    with (said / "out").open("wb") as out, (said / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "forecaster", *arguments],
            cwd=ROOT,
            stdout=out,
            stderr=err,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    return process, said


def forecaster(folder: Path, *arguments: str, **environment: str) -> Ending:
    """Run `forecaster …` to its end."""
    begun = time.monotonic()
    process, said = start(folder, *arguments, **environment)
    code = process.wait(LIMIT)
    return ending(said, code, time.monotonic() - begun)


def ending(said: Path, code: int, seconds: float) -> Ending:
    out, err = ((said / name).read_text("utf-8", errors="replace") for name in ("out", "err"))
    return Ending(code, seconds, out, err)


def expect(end: Ending, *codes: int) -> Ending:
    """Raises RuntimeError where a command that nobody disturbed ended otherwise."""
    if end.code not in (codes or (0,)):
        raise RuntimeError(f"an undisturbed command ended with {end.code}: {end.err[-2000:]}")
    return end


def put_in_place(template: Path, folder: Path) -> Path:
    """A fresh copy, always at the same place, since the registry writes addresses down; returns its pipeline file."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder, symlinks=True)
    return folder / "pipeline.yaml"
