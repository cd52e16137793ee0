"""Results of trials, one JSON line each, appended to a file, so that a benchmark of hours can be
resumed."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.report import ROOT

RULES = 4  # version of the rules that judge a trial; results of earlier versions do not count


@dataclass(frozen=True)
class Result:
    """Result of a trial, which is identified by group, number and seed."""

    group: str  # such as "killed: predict"
    number: int
    seed: int
    faults: list[str]  # empty if everything is as after an undisturbed run
    outcome: str  # such as "at work": the kill hit a living process
    about: dict[str, Any] = field(default_factory=dict)  # mode, instant as a share of the undisturbed run, place
    commit: str = ""
    at: str = ""
    rules: int = RULES

    @property
    def key(self) -> tuple[str, int, int]:
        return self.group, self.seed, self.number


class Results:
    """A file of results; several processes may append to it."""

    def __init__(self, file: Path) -> None:
        self.file, self._commit = file, _commit()

    def append(self, result: Result) -> None:
        line = asdict(result) | {"commit": self._commit, "at": datetime.now(UTC).isoformat(timespec="seconds")}
        self.file.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(line, default=str)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text + "\n")
        print(text, flush=True)

    def read(self) -> list[Result]:
        """Return the results judged by the current rules, in the order of the file."""
        if not self.file.exists():
            return []
        lines = (json.loads(line) for line in self.file.read_text("utf-8").splitlines() if line.strip())
        return [Result(**line) for line in lines if line["rules"] == RULES]

    def left(self, group: str, numbers: Iterable[int], seed: int, *, again: bool) -> Iterator[int]:
        """Yield the numbers of a group's trials without a result; with `again`, also those that
        failed last."""
        last = {result.key: result for result in self.read()}
        for number in numbers:
            result = last.get((group, seed, number))
            if result is None or (again and result.faults):
                yield number


def _commit() -> str:
    """Return the commit under test, marked if the working tree differs from it."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"
