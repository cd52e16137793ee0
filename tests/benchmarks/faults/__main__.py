"""Kill, pause and damage a small installation, and count what does not come out as if nothing had happened.

make bench-faults
python -m tests.benchmarks.faults --what kills --commands run --nights 5
python -m tests.benchmarks.faults --table

Each trial is appended to `--results`; a call goes on with those that have no result there, so that it can be ended and
begun again, also by several processes, each with a `--folder` and with groups, or `--numbers` of trials, of its own.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from forecaster.config import load
from forecaster.registry import outbox
from forecaster.registry.run_record import Record
from tests.benchmarks.faults import flips, kills, pauses
from tests.benchmarks.faults.installation import TONIGHT, Contents, expect, forecaster, make, put_in_place, start
from tests.benchmarks.faults.results import Result, Results, table
from tests.benchmarks.report import FOLDER, working_folder

NIGHTS, OTHERS, PAUSES, FLIPS, SEED = 50, 10, 10, 10, 38
NIGHT_FLIPS = 2  # nights, of each of whose files a byte is flipped
MEASURED_AFTER = 10  # trials
AT_WORK, OVER = "at work", "over by then"
WHAT = ("kills", "pauses", "flips")
AGED = 3 * 24 * 3600  # seconds by which what `maintain` removes is older
RETENTION = "retention: {bundles: 1, checkpoints: 1, caches: 1, lake: 1}\n"


def main() -> None:
    options = _options()
    results = Results(options.results)
    if not options.table:
        # Programs that are compiled without optimisation do the same work; most of a small night is compiling.
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        with working_folder(options.folder, "bench-faults-") as work:
            for group in _groups(Templates(work), options):
                numbers = range(*options.numbers) if options.numbers else range(group.count)
                for number in results.left(group.name, numbers, options.seed, again=options.again):
                    chance = random.Random(f"{options.seed} {group.name} {number}")
                    outcome, faults, about = group.trial(number, chance)
                    results.append(Result(group.name, number, options.seed, faults, outcome, about))
    print(*table(results.read()), sep="\n")


class Templates:
    """States that trials start from, each made when it is first asked for, and kept with the folder."""

    def __init__(self, work: Path) -> None:
        self.work, self.fleet = work, work / "fleet"

    def __getitem__(self, name: str) -> Path:
        template = self.work / name
        if not template.exists():
            getattr(self, f"_make_{name}")()
        if not template.exists():
            self.fleet.rename(template)
        return template

    def _make_ready(self) -> None:
        shutil.rmtree(self.fleet, ignore_errors=True)
        file = make(self.fleet)
        shutil.rmtree(self.work / "half", ignore_errors=True)
        shutil.copytree(self.fleet, self.work / "half")
        # One night ahead, whose compiled programs warm all others.
        expect(forecaster(self.fleet, "run", str(file), "--plain", "--as-of", TONIGHT))
        put_in_place(self.fleet, self.work / "done")
        warm = self.work / "warm"
        shutil.rmtree(warm, ignore_errors=True)
        shutil.copytree(self.fleet / "var" / "jax_cache", warm)
        put_in_place(self.work / "half", self.fleet)
        shutil.rmtree(self.fleet / "var" / "jax_cache")
        warm.rename(self.fleet / "var" / "jax_cache")

    def _make_done(self) -> None:
        assert self["ready"], "which makes both"

    def _make_aged(self) -> None:
        file = put_in_place(self["done"], self.fleet)
        file.write_text(file.read_text("utf-8") + RETENTION, "utf-8")
        old = time.time() - AGED
        for folder in ("checkpoints", "jax_cache", "graphs"):
            for path in (self.fleet / "var" / folder).glob("*"):
                os.utime(path, (old, old))

    def _make_saved(self) -> None:
        file = put_in_place(self["ready"], self.fleet)
        saved = self.work / "saved-meanwhile"
        shutil.rmtree(saved, ignore_errors=True)
        expect(forecaster(self.fleet, "backup", str(file), "--to", str(saved), "--keys"))
        put_in_place(self["done"], self.fleet)
        saved.rename(self.fleet / "saved")

    def _make_emptied(self) -> None:
        put_in_place(self["saved"], self.fleet)
        shutil.rmtree(self.fleet / "var")

    def _make_interrupted(self) -> None:
        """A night that was killed when its training had saved a checkpoint."""
        file = put_in_place(self["ready"], self.fleet)
        checkpoints = load(file).paths.checkpoints
        shutil.rmtree(checkpoints)  # of the night before, which had one of the same number
        process, _ = start(self.fleet, "run", str(file), "--plain", "--as-of", TONIGHT)
        while not [*checkpoints.rglob("manifest.json")]:
            if process.poll() is not None:
                raise RuntimeError("the training saved no checkpoint")
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _make_planned(self) -> None:
        file = put_in_place(self["done"], self.fleet)
        expect(forecaster(self.fleet, "plan", str(file)))

    def _make_waiting(self) -> None:
        """A run that the registry was not told yet."""
        file = put_in_place(self["done"], self.fleet)
        record = Record("2026-05-10-waits", {"seed": 1}, {"mape": 0.1}, ({"loss": 0.1},), {"kind": "night"}, {}, None)
        outbox.enqueue(record, {"epochs.png": b"a picture"}, load(file))


def _groups(templates: Templates, options: argparse.Namespace) -> Iterator[Group]:
    """What there is to try, in the order asked for."""
    for name in options.commands if "kills" in options.what else ():
        yield Kills(kills.COMMANDS[name], templates, options)
    if "pauses" in options.what:
        yield Pauses(templates, options)
    for kind in flips.KINDS if "flips" in options.what else ():
        if not options.kinds or kind.name in options.kinds:
            yield Flips(kind, templates, options)


class Group(Protocol):
    """Trials of one kind, told apart by their numbers."""

    name: str
    count: int

    def trial(self, number: int, chance: random.Random) -> tuple[str, list[str], dict[str, Any]]:
        """Outcome, faults, and what there is to know of a trial."""


class Timed:
    """A command whose length is measured anew after so many trials, since the load of a machine changes."""

    def __init__(self, command: kills.Command, templates: Templates) -> None:
        self.command, self.templates = command, templates
        self._twin: kills.Twin | None = None
        self._trials = 0

    def twin(self) -> kills.Twin:
        if self._twin is None or self._trials % MEASURED_AFTER == 0:
            template = self.templates[self.command.template]
            self._twin = kills.undisturbed(self.command, template, self.templates.fleet)
        self._trials += 1
        return self._twin


class Kills(Timed):
    def __init__(self, command: kills.Command, templates: Templates, options: argparse.Namespace) -> None:
        super().__init__(command, templates)
        self.name = f"killed: {command.name}"
        self.count = options.nights if command.name.startswith("run") else options.others

    def trial(self, number: int, chance: random.Random) -> tuple[str, list[str], dict[str, Any]]:
        twin, share, mode = self.twin(), chance.random(), kills.MODES[number % 2]
        file = put_in_place(self.templates[self.command.template], self.templates.fleet)
        hit, faults = kills.one_trial(self.command, file, twin, mode, share * twin.seconds)
        return AT_WORK if hit else OVER, faults, {"mode": mode, "share": share, "seconds": twin.seconds}


class Pauses(Timed):
    name = "paused past its lease: run"

    def __init__(self, templates: Templates, options: argparse.Namespace) -> None:
        super().__init__(kills.COMMANDS["run"], templates)
        self.count = options.pauses

    def trial(self, number: int, chance: random.Random) -> tuple[str, list[str], dict[str, Any]]:
        twin, share = self.twin(), chance.random()
        mode, place = kills.MODES[number % 2], pauses.PLACES[number // 2 % 2]
        template = self.templates[self.command.template]
        outcome, faults = pauses.one_trial(template, self.templates.fleet, twin, mode, place, share * twin.seconds)
        return outcome, faults, {"mode": mode, "place": place, "share": share, "seconds": twin.seconds}


class Flips:
    def __init__(self, kind: flips.Kind, templates: Templates, options: argparse.Namespace) -> None:
        self.kind, self.templates = kind, templates
        self.name = f"byte flipped: {kind.name}"
        self.count = min(options.flips, NIGHT_FLIPS) if kind.at_once else options.flips
        self._twin: Contents | None = None

    def trial(self, number: int, chance: random.Random) -> tuple[str, list[str], dict[str, Any]]:
        template = self.templates[self.kind.template]
        self._twin = self._twin or flips.undisturbed(self.kind, template, self.templates.fleet)
        where, outcome, faults = flips.one_trial(self.kind, template, self.templates.fleet, self._twin, chance)
        return outcome, faults, {"where": where}


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=NIGHTS, help="instants of a night, and as many by Prefect")
    parser.add_argument("--others", type=int, default=OTHERS, help="instants of each other command")
    parser.add_argument("--pauses", type=int, default=PAUSES, help="instants of a night that is stopped past its lease")
    parser.add_argument("--flips", type=int, default=FLIPS, help="flipped bytes of each kind of file")
    parser.add_argument("--what", nargs="*", default=WHAT, choices=WHAT)
    parser.add_argument("--kinds", nargs="*", choices=[kind.name for kind in flips.KINDS], help="of files")
    parser.add_argument("--results", type=Path, default=FOLDER / "faults.jsonl", help="the file that results go to")
    parser.add_argument("--numbers", nargs=2, type=int, metavar=("FROM", "BEFORE"), help="only these trials of a group")
    parser.add_argument("--again", action="store_true", help="repeat those that failed last")
    parser.add_argument("--table", action="store_true", help="only print the table of the results")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--folder", type=Path, help="where to work, and keep the states that trials start from")
    parser.add_argument("--commands", nargs="*", default=[*kills.COMMANDS], choices=[*kills.COMMANDS])
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
