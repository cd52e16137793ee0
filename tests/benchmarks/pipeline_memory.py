"""What becomes of a night on a node without memory: the kernel kills it in each of its stages, and the next makes up.

A night runs in a control group of its own (version 1; needs root). As soon as it says that a stage begins, the group
may have no more memory than it has at that moment: the kernel ends what takes more. It is begun again after each kill,
and killed further on, until one has all the memory that it wants; then a night of the next day. On another place the
same nights run without a limit: what both show has to be the same to the bit.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa

from forecaster.config import load
from forecaster.ledger import connect, tables
from tests.benchmarks.pipelines import Place, as_of, lost, mixed, place_of_all, run, shown, write
from tests.benchmarks.report import ROOT, working_folder

GROUPS = Path("/sys/fs/cgroup/memory")
STAGES = ("ingest", "panel", "train", "backtest", "export", "predict", "record")
SLACK = (1, 2, 4, 8, 16, 32)  # MiB above what cannot be given back; the least that the kernel takes
PATIENCE = 280.0  # seconds for one night
MIB = 1 << 20


@dataclass(frozen=True)
class Death:
    """A night under a limit: where it was set and where it ended, the limit in MiB, how often the kernel killed
    something in the group, the exit code, and the last words."""

    stage: str
    ended: str
    limit: int
    kills: int
    code: int
    said: str


@contextmanager
def memory_group() -> Iterator[Path]:
    """A control group without a limit so far."""
    group = GROUPS / f"pipeline-memory-{os.getpid()}"
    group.mkdir()
    try:
        yield group
    finally:
        deadline = time.monotonic() + 10
        while (group / "cgroup.procs").read_text("ascii") and time.monotonic() < deadline:
            time.sleep(0.1)
        group.rmdir()


def tighten(group: Path) -> int:
    """Allow the group no more than it has now, without what the kernel can take back; returns how many MiB."""
    needed = _number(group / "memory.stat", "total_rss")
    for slack in SLACK:
        limit = needed + slack * MIB
        try:
            (group / "memory.limit_in_bytes").write_text(str(limit), "ascii")
        except OSError:  # busy: it needs more
            continue
        return limit // MIB
    raise RuntimeError("the kernel takes no limit near what the night has")


def night_without_memory(place: Place, number: int, night: int, stage: str) -> Death:
    """A night that may have no more memory from the beginning of a stage on."""
    said = place.file(number).with_name(f"said-memory-{stage}")
    words = ["run", str(place.file(number)), "--plain", "--as-of", as_of(night).isoformat()]
    limit, begun = 0, time.monotonic()
    with memory_group() as group:
        with said.open("wb") as out:
            process = subprocess.Popen(
                # the shell enters the group before it becomes the night, whose children are in it too
                [
                    "sh",
                    "-c",
                    f'echo $$ > {group}/cgroup.procs; exec "$@"',
                    "sh",
                    sys.executable,
                    "-m",
                    "forecaster",
                    *words,
                ],
                cwd=ROOT,
                stdout=out,
                stderr=out,
                env=place.environment(),
            )
        while process.poll() is None:
            if not limit and _last_stage(said) == stage:
                limit = tighten(group)
            if time.monotonic() - begun > PATIENCE:
                process.kill()
            time.sleep(0.01)
        kills = _number(group / "memory.oom_control", "oom_kill")
    last = (said.read_text("utf-8", errors="replace").strip() or "nothing").splitlines()[-1]
    return Death(stage, _last_stage(said), limit, kills, process.returncode, last)


def outcomes(place: Place, number: int) -> list[tuple[str, str]]:
    """Of each run of a pipeline what came of it, and its message, the oldest first."""
    runs = tables.runs.c
    query = sa.select(runs.outcome, runs.message).where(runs.pipeline == f"fleet-{number}").order_by(runs.started_at)
    engine = connect.reader(load(place.file(number)).ledger_url)
    with engine.begin() as connection:
        rows = [(row.outcome, row.message or "") for row in connection.execute(query)]
    engine.dispose()
    return rows


def _last_stage(said: Path) -> str:
    """The stage that a night has said last to begin; empty before the first."""
    begun = re.findall(r"^\d\d:\d\d elapsed, .*?left  (\w+)", said.read_text("utf-8", errors="replace"), re.M)
    return str(begun[-1]) if begun else ""


def _number(file: Path, name: str) -> int:
    lines = (line.split() for line in file.read_text("ascii").splitlines())
    return next(int(value) for key, value in lines if key == name)


def main() -> None:
    with working_folder(None, "pipeline-memory-") as folder, place_of_all(folder) as (place, _):
        alone = Place(folder / "alone")
        for where in (place, alone):
            write(where, 0, 120)
            run(where, 0, 0, trains=False)  # a night before it, whose forecast is out
            write(where, 0, 121)
        print("| no more memory from | ended in | MiB | kills | exit code | last words |\n|---|---|---|---|---|---|")
        for stage in STAGES:
            death = night_without_memory(place, 0, 1, stage)
            row = (death.stage, death.ended, death.limit, death.kills, death.code, death.said[:150])
            print("|", " | ".join(map(str, row)), "|", flush=True)
        _made_up_for(place, alone)


def _made_up_for(place: Place, alone: Place) -> None:
    """The same night with all the memory that it wants, and the next day's."""
    for where in (place, alone):
        ends = [run(where, 0, 1, trains=True)]
        write(where, 0, 122)
        ends.append(run(where, 0, 2, trains=False))
        print("exit codes afterwards:", [end.code for end in ends], flush=True)
    for outcome, message in outcomes(place, 0):
        print(f"  {outcome}: {message[:120]}")
    name = "fleet-0"
    same = shown(str(place.ledger), name) == shown(load(alone.file(0)).ledger_url, name) != []
    print("shows the same to the bit as without a limit:", same)
    faults = [fault for fault in [*mixed(place, [0]), *lost(place, [0], 3)] if "publications" not in fault]
    print("mixed or lost:", faults or "nothing")


if __name__ == "__main__":
    main()
