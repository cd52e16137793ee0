"""SIGKILL at random instants of a command, alone or with its process group; then the same command again, whole."""

from __future__ import annotations

import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from forecaster.config import load
from forecaster.errors import ForecasterError
from forecaster.operations import backup
from tests.benchmarks.faults.installation import (
    OVERRIDE,
    TONIGHT,
    Contents,
    Ending,
    expect,
    forecaster,
    put_in_place,
    read_contents,
    sizes,
    start,
)

MODES = ("process", "group")
BY = ("--by", "operator", "--reason", "a trial")
GROWS = ("lake/", "ledger.db", "mlflow.db", "mlflow_artifacts/", "jax_cache/", "prefect/")
"""What in the state folder a run that was killed may leave rows and files in: at most what a whole run adds to them."""
LEFT_BY_THE_DEAD = ("lease", "flow run")
"""Beginnings of the faults that may be there until the next run."""
SLACK = 64 << 10  # bytes beside: pages of two databases, a compiled program's length


@dataclass(frozen=True)
class Command:
    """A command to be killed: its words, the state that it starts from, and what an operator makes of its ending."""

    name: str
    words: Callable[[Path], list[str]]  # from the pipeline file
    template: str = "done"
    repeated: Callable[[Path, Contents, Contents], bool] = lambda file, after, twin: True
    """Whether it is called again, by what is there after the kill and what the twin holds."""
    codes: tuple[int, ...] = (0,)  # of the second call


def is_not_done(file: Path, after: Contents, twin: Contents) -> bool:
    return (after.rows, after.champion) != (twin.rows, twin.champion)


def older_bundle(file: Path) -> str:
    bundles = load(file).paths.bundles
    return sorted((path for path in bundles.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)[0].name


COMMANDS: Mapping[str, Command] = {
    command.name: command
    for command in (
        Command("run", lambda file: ["run", str(file), "--plain", "--as-of", TONIGHT], "ready"),
        Command("run, by Prefect", lambda file: ["run", str(file), "--as-of", TONIGHT], "ready"),
        Command("maintain", lambda file: ["maintain", str(file), "--plain"], "aged"),
        Command(
            "backup",
            lambda file: ["backup", str(file), "--to", str(file.parent / "backup")],
            repeated=lambda file, after, twin: not (file.parent / "backup" / backup.MANIFEST).exists(),
        ),
        Command(
            "restore", lambda file: ["restore", str(file), "--replace", "--from", str(file.parent / "saved")], "saved"
        ),
        Command(
            "restore, into nothing",
            lambda file: ["restore", str(file), "--from", str(file.parent / "saved")],
            "emptied",
        ),
        Command("predict", lambda file: ["predict", str(file), "--as-of", TONIGHT]),
        Command("override", lambda file: ["override", str(file), *OVERRIDE]),
        Command(
            "quarantine release",
            lambda file: ["quarantine", "release", str(file), "--rule", "superseded", *BY],
            repeated=is_not_done,
        ),
        Command("promote", lambda file: ["promote", str(file), older_bundle(file), *BY], repeated=is_not_done),
        Command("rollback", lambda file: ["rollback", str(file), *BY], repeated=is_not_done),
        Command("apply", lambda file: ["apply", str(file)], "planned"),
    )
}


@dataclass(frozen=True)
class Twin:
    """What a command comes to that nobody disturbs."""

    seconds: float
    contents: Contents
    sizes: Mapping[str, int]
    before: Mapping[str, int]  # sizes before the command

    @property
    def allowance(self) -> int:
        """Bytes by which a state may be larger than the twin's: what one run adds to what grows, and some slack."""
        return max(0, sum(_grown(self.sizes).values()) - sum(_grown(self.before).values())) + SLACK


def undisturbed(command: Command, template: Path, folder: Path) -> Twin:
    """Run it whole, under the load that there is. Raises RuntimeError where it fails by itself."""
    file = put_in_place(template, folder)
    state = load(file).paths.folder
    before = sizes(state)
    end = expect(forecaster(folder, *command.words(file)))
    return Twin(end.seconds, read_contents(file), sizes(state), before)


def one_trial(command: Command, file: Path, twin: Twin, mode: str, instant: float) -> tuple[bool, list[str]]:
    """Kill it at an instant in seconds: whether that met a living process, and what was wrong afterwards."""
    folder = file.parent
    process, _ = start(folder, *command.words(file))
    time.sleep(instant)
    hit = process.poll() is None
    if hit:
        (os.killpg if mode == "group" else os.kill)(process.pid, signal.SIGKILL)
    process.wait()
    after, faults = _after_the_kill(command, file, twin)
    if after is None or command.repeated(file, after, twin.contents):
        end = forecaster(folder, *command.words(file))
        faults += _faults_of_ending(end, command.codes)
    faults += compare(file, twin)
    faults += [f"process {process.pid} has left children"] if _group_lives(process.pid) else []
    return hit, faults


def compare(file: Path, twin: Twin) -> list[str]:
    """What an installation has lost, doubled, changed or left, beside its twin."""
    try:
        contents = read_contents(file)
    except ForecasterError as error:
        return [f"cannot be read: {error}"]
    faults = list(contents.faults)
    for kind, rows in twin.contents.rows.items():
        lost, more = rows - contents.rows[kind], contents.rows[kind] - rows
        faults += [f"{kind}: {lost.total()} rows lost, {more.total()} too many"] if lost or more else []
    faults += ["the forecast is another"] if contents.forecast != twin.contents.forecast else []
    faults += ["the champion is another"] if contents.champion != twin.contents.champion else []
    now = sizes(load(file).paths.folder)
    left = _places(now) - _places(twin.sizes)
    faults += [f"left behind: {', '.join(sorted(left.elements()))}"] if left else []
    excess = sum(now.values()) - sum(twin.sizes.values()) - twin.allowance
    if excess > 0:
        faults.append(f"the state is {excess:,} bytes larger than allowed, {_largest_growth(now, twin.sizes)}")
    if (folder := file.parent / "backup").exists():
        faults += _faults_of_backup(folder)
    return faults


def _places(files: Iterable[str]) -> Counter[str]:
    """How many files that do not grow lie where; of a checkpoint's arrays only that they are there, since Orbax writes
    the same ones into so many files as its threads happen to. Which epochs have one is a matter of minutes, and so is
    whether there are two of them, which is the most that is kept."""
    files = [re.sub("^checkpoints/[0-9]+/", "checkpoints/*/", path) for path in files]
    places = (re.sub("[0-9a-f]{32}", "*", path) for path in files if not path.startswith(GROWS))
    arrays = {path.partition("/arrays/")[0] for path in files if "/arrays/" in path}
    counts = Counter(path for path in places if "/arrays/" not in path) + Counter(f"{path}/arrays" for path in arrays)
    return Counter({path: max(n, 2) if path.startswith("checkpoints/*/") else n for path, n in counts.items()})


def _largest_growth(now: Mapping[str, int], twin: Mapping[str, int]) -> str:
    """The folders whose sizes differ most from the twin's."""
    growth: Counter[str] = Counter()
    for sizes_, sign in ((now, 1), (twin, -1)):
        for path, size in sizes_.items():
            growth[path.partition("/")[0]] += sign * size
    return ", ".join(f"{folder} by {size:,}" for folder, size in growth.most_common(3))


def _after_the_kill(command: Command, file: Path, twin: Twin) -> tuple[Contents | None, list[str]]:
    """What is there at once, which must be whole but for the lease of the dead; a restore's may be refused."""
    try:
        contents = read_contents(file)
    except ForecasterError as error:
        return None, [] if command.name.startswith("restore") else [f"after the kill: {error}"]
    faults = [f"after the kill: {fault}" for fault in contents.faults if not fault.startswith(LEFT_BY_THE_DEAD)]
    if command.name.startswith("restore"):
        faults += _faults_of_half_a_restore(file, contents, twin)
    return contents, faults


def _faults_of_half_a_restore(file: Path, contents: Contents, twin: Twin) -> list[str]:
    """A prediction is refused with a sentence, or what is there is whole: as before, or as in the backup."""
    end = forecaster(file.parent, "predict", str(file), "--as-of", TONIGHT)
    if end.code in (1, 2) and "forecaster restore" in end.sentence and "Traceback" not in end.err:
        return []
    is_whole = contents.rows == twin.contents.rows or (end.code == 0 and contents.forecast != ())
    return [] if is_whole or end.code == 4 else [f"half a restore: predict ended with {end.code}: {end.sentence}"]


def _faults_of_ending(end: Ending, codes: tuple[int, ...]) -> list[str]:
    faults = [f"the next one ended with {end.code}: {end.sentence}"] if end.code not in codes else []
    return faults + ([f"a traceback: {end.err[-2000:]}"] if "Traceback" in end.err else [])


def _faults_of_backup(folder: Path) -> list[str]:
    try:
        backup.read_manifest(folder)
    except ForecasterError as error:
        return [f"the backup: {error}"]
    return []


def _group_lives(pid: int) -> bool:
    for _ in range(50):
        try:
            os.killpg(pid, 0)
        except ProcessLookupError:
            return False
        time.sleep(0.2)
    return True


def _grown(files: Mapping[str, int]) -> dict[str, int]:
    return {path: size for path, size in files.items() if path.startswith(GROWS)}
