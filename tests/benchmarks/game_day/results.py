"""Results of trials, one JSON line each, appended to a file, so that a benchmark of hours can be
resumed."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.benchmarks.report import ROOT

RULES = 4
"""Version of the rules that judge a trial: incremented when a rule changes; results of earlier
versions no longer count.

2: the files of a checkpoint's arrays count as one; the cache of compiled programs may grow; damage
counts as reported if it is reported on reading, and so does the message of an override about a
waiting page.

3: two checkpoints may exist where the twin has one; a run stopped while it wrote must be resumed,
and so must one stopped without the lease.

4: no flow run may be running in Prefect's database after the next nightly run.
"""


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


def table(results: Iterable[Result]) -> list[str]:
    """Return a Markdown table of groups: the last result of a repeated trial counts, and earlier
    failures are mentioned."""
    trials: defaultdict[str, defaultdict[tuple[str, int, int], list[Result]]] = defaultdict(lambda: defaultdict(list))
    for result in results:
        trials[result.group][result.key].append(result)
    lines = ["| group | tried | of which | failed | seed | commit |", "|---|---|---|---|---|---|"]
    for group, by_key in sorted(trials.items()):
        last = [repeated[-1] for repeated in by_key.values()]
        outcomes = sorted({result.outcome for result in last})
        of_which = ", ".join(f"{sum(result.outcome == name for result in last)} {name}" for name in outcomes)
        failed = str(sum(bool(result.faults) for result in last))
        mended = sum(
            any(result.faults for result in repeated) and not repeated[-1].faults for repeated in by_key.values()
        )
        failed += f" ({mended} at first)" if mended else ""
        seeds = ", ".join(sorted({str(result.seed) for result in last}))
        commits = ", ".join(sorted({result.commit for result in last}))
        lines.append(f"| {group} | {len(last)} | {of_which} | {failed} | {seeds} | {commits} |")
    return lines


def _commit() -> str:
    """Return the commit under test, marked if the working tree differs from it."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"
