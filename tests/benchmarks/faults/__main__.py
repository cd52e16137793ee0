"""Kill, pause and damage a small installation, and count what does not come out as if nothing had happened.

make bench-faults
python -m tests.benchmarks.faults --what kills --commands run --nights 5
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from forecaster.config import load
from forecaster.registry import outbox
from forecaster.registry.run_record import Record
from tests.benchmarks.faults import flips, kills, pauses
from tests.benchmarks.faults.installation import TONIGHT, expect, forecaster, make, put_in_place, start
from tests.benchmarks.report import FOLDER, Figure, tell

NIGHTS, OTHERS, PAUSES, FLIPS, SEED = 50, 10, 10, 10, 38
WHAT = ("kills", "pauses", "flips")
AGED = 3 * 24 * 3600  # seconds by which what `maintain` removes is older
RETENTION = "retention: {bundles: 1, checkpoints: 1, caches: 1, lake: 1}\n"


def main() -> None:
    options = _options()
    # Programs that are compiled without optimisation do the same work; most of a small night is compiling.
    os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
    with _folder(options.folder) as work:
        templates = Templates(work)
        figures = list[Figure]()
        for name in options.commands if "kills" in options.what else ():
            figures += _kill(kills.COMMANDS[name], templates, options)
        if "pauses" in options.what:
            figures += _pause(templates, options)
        for kind in flips.KINDS if "flips" in options.what else ():
            if not options.kinds or kind.name in options.kinds:
                figures.append(_flip(kind, templates, options))
    tell("faults", figures)


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
        process, _ = start(self.fleet, "run", str(file), "--plain", "--as-of", TONIGHT)
        before = {*checkpoints.rglob("manifest.json")}
        while not {*checkpoints.rglob("manifest.json")} - before:
            if process.poll() is not None:
                raise RuntimeError("the training saved no checkpoint")
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def _make_waiting(self) -> None:
        """A run that the registry was not told yet."""
        file = put_in_place(self["done"], self.fleet)
        record = Record("2026-05-10-waits", {"seed": 1}, {"mape": 0.1}, ({"loss": 0.1},), {"kind": "night"}, {}, None)
        outbox.enqueue(record, {"epochs.png": b"a picture"}, load(file))


def _pause(templates: Templates, options: argparse.Namespace) -> Iterator[Figure]:
    template = templates["ready"]
    twin = kills.undisturbed(kills.COMMANDS["run"], template, templates.fleet)
    chance = random.Random(f"{options.seed} pauses")
    for place in pauses.PLACES:
        for mode in kills.MODES:
            tried = met = failed = 0
            for _ in range(options.pauses):
                instant = chance.uniform(0, twin.seconds)
                hit, faults = pauses.one_trial(template, templates.fleet, twin, mode, place, instant)
                tried, met, failed = tried + 1, met + hit, failed + bool(faults)
                _log(kind="pause", place=place, mode=mode, instant=instant, of=twin.seconds, hit=hit, faults=faults)
            yield Figure(
                f"night paused {place}, {mode}, {met} at work; seed {options.seed}: failed",
                failed, "trials", "0", failed == 0, tried,
            )  # fmt: skip


def _flip(kind: flips.Kind, templates: Templates, options: argparse.Namespace) -> Figure:
    tried = failed = harmless = 0
    for where, outcome, faults in flips.trials(
        kind, templates[kind.template], templates.fleet, options.flips, options.seed
    ):
        tried, failed, harmless = tried + 1, failed + bool(faults), harmless + (outcome == flips.HARMLESS)
        _log(kind="flip", file=kind.name, where=where, outcome=outcome, faults=faults)
    figure = (
        f"flipped byte, {kind.name}: {harmless} did no harm, {tried - failed - harmless} named; seed {options.seed}"
    )
    return Figure(f"{figure}: failed", failed, "trials", "0", failed == 0, tried)


def _kill(command: kills.Command, templates: Templates, options: argparse.Namespace) -> Iterator[Figure]:
    count = options.nights if command.name.startswith("run") else options.others
    template = templates[command.template]
    twin = kills.undisturbed(command, template, templates.fleet)
    tried, met, failed = dict.fromkeys(kills.MODES, 0), dict.fromkeys(kills.MODES, 0), dict.fromkeys(kills.MODES, 0)
    for mode, instant, hit, faults in kills.trials(command, template, templates.fleet, twin, count, options.seed):
        tried[mode] += 1
        met[mode] += hit
        failed[mode] += bool(faults)
        _log(kind="kill", command=command.name, mode=mode, instant=instant, of=twin.seconds, hit=hit, faults=faults)
    for mode in kills.MODES:
        yield Figure(
            f"{command.name}: {mode} killed, {met[mode]} at work; seed {options.seed}: failed",
            failed[mode], "trials", "0", failed[mode] == 0, tried[mode],
        )  # fmt: skip


def _log(**line: object) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    with (FOLDER / "faults.jsonl").open("a", encoding="utf-8") as log:
        log.write(json.dumps(line, default=str) + "\n")
    print(line, flush=True)


@contextmanager
def _folder(wanted: Path | None) -> Iterator[Path]:
    if wanted is not None:
        wanted.mkdir(parents=True, exist_ok=True)
        yield wanted.resolve()
        return
    with tempfile.TemporaryDirectory(prefix="bench-faults-") as temporary:
        yield Path(temporary)


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nights", type=int, default=NIGHTS, help="instants of a night, for each of the two modes")
    parser.add_argument("--others", type=int, default=OTHERS, help="instants of each other command")
    parser.add_argument("--pauses", type=int, default=PAUSES, help="instants, for each mode and place")
    parser.add_argument("--flips", type=int, default=FLIPS, help="flipped bytes of each kind of file")
    parser.add_argument("--what", nargs="*", default=WHAT, choices=WHAT)
    parser.add_argument("--kinds", nargs="*", choices=[kind.name for kind in flips.KINDS], help="of files")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--folder", type=Path, help="where to work, and keep the states that trials start from")
    parser.add_argument("--commands", nargs="*", default=[*kills.COMMANDS], choices=[*kills.COMMANDS])
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
