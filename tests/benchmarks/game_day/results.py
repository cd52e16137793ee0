"""Results of trials, a line of JSON each, appended to a file: a benchmark of hours goes on in pieces."""

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
"""Of judging a trial: a higher number wherever a rule changes, after which those judged before count no more.

2: the files of a checkpoint's arrays count as one, the cache of compiled programs may grow, damage that is named when
it is read counts as named, and so does what an override says of a page that waits.
3: two checkpoints may lie beside the twin's one; a night that was stopped while it wrote has to go on, and so has one
that was stopped without the lease.
4: no flow run may be at work in Prefect's database after the next night.
"""


@dataclass(frozen=True)
class Result:
    """What became of a trial, which its group, its number and the seed make what it is."""

    group: str  # such as "killed: predict"
    number: int
    seed: int
    faults: list[str]  # empty: all is as if nothing had happened
    outcome: str  # such as "at work": the kill met a living process
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
        """All that were judged by today's rules, in the order in which they came."""
        if not self.file.exists():
            return []
        lines = (json.loads(line) for line in self.file.read_text("utf-8").splitlines() if line.strip())
        return [Result(**line) for line in lines if line["rules"] == RULES]

    def left(self, group: str, numbers: Iterable[int], seed: int, *, again: bool) -> Iterator[int]:
        """Those numbers of a group's trials that have no result yet; with `again`, also of those that failed last."""
        last = {result.key: result for result in self.read()}
        for number in numbers:
            result = last.get((group, seed, number))
            if result is None or (again and result.faults):
                yield number


def table(results: Iterable[Result]) -> list[str]:
    """A Markdown table of groups: a trial that was done again counts as it ended last; what failed at first is told."""
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
    """The commit that is tried, with a mark where files differ from it."""
    words = ["git", "describe", "--always", "--dirty", "--abbrev=7", "--exclude=*"]
    process = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    return process.stdout.strip() or "unknown"
