"""Commands of `forecaster` in separate processes, and their output."""

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
    """Result of a command; `code` is negative if a signal ended it."""

    code: int
    seconds: float
    out: str
    err: str

    @property
    def sentence(self) -> str:
        """The last line of its output."""
        return (self.err.strip() or self.out.strip() or "nothing").splitlines()[-1]


def start(folder: Path, *arguments: str, **environment: str) -> tuple[subprocess.Popen[bytes], Path]:
    """Start `forecaster …` as the leader of its own process group, with its output in two files."""
    output = folder / "said"
    output.mkdir(exist_ok=True)
    with (output / "out").open("wb") as out, (output / "err").open("wb") as err:
        process = subprocess.Popen(
            [sys.executable, "-m", "forecaster", *arguments],
            cwd=ROOT,
            stdout=out,
            stderr=err,
            env={**os.environ, **environment},
            start_new_session=True,
        )
    return process, output


def forecaster(folder: Path, *arguments: str, **environment: str) -> Ending:
    """Run `forecaster …` and wait for it."""
    begun = time.monotonic()
    process, output = start(folder, *arguments, **environment)
    code = process.wait(LIMIT)
    return ending(output, code, time.monotonic() - begun)


def ending(output: Path, code: int, seconds: float) -> Ending:
    out, err = ((output / name).read_text("utf-8", errors="replace") for name in ("out", "err"))
    return Ending(code, seconds, out, err)


def expect(end: Ending, *codes: int) -> Ending:
    """Return the result. Raises RuntimeError if an undisturbed command ended with another code."""
    if end.code not in (codes or (0,)):
        raise RuntimeError(f"an undisturbed command ended with {end.code}: {end.err[-2000:]}")
    return end


def put_in_place(template: Path, folder: Path) -> Path:
    """Replace `folder` by a fresh copy of a template and return its pipeline file; always the same
    path, because the registry stores absolute addresses."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(template, folder, symlinks=True)
    return folder / "pipeline.yaml"
