"""Break a running installation on purpose; check that the expected alerts arrive, no others do, and
a forecast is out.

    make game-day
    python -m tests.benchmarks.game_day --only "two nights killed" --again
    python -m tests.benchmarks.game_day --table

Each scenario's result is appended to `--results`; a later call resumes with the scenarios that have
no result there. `--folder` keeps the installations that scenarios start from. Needs Debian's
prometheus, prometheus-alertmanager and faketime. Where no file system can be mounted, the scenario
that needs its own file system fails.
"""

from __future__ import annotations

import argparse
import os
import signal
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from tests.benchmarks.game_day.installation import Templates
from tests.benchmarks.game_day.results import Result, Results
from tests.benchmarks.game_day.scenarios import BESIDES, SCENARIOS, Scenario
from tests.benchmarks.game_day.stage import staged
from tests.benchmarks.report import FOLDER, working_folder

PREFIX = "Forecaster"
SEED = 0  # nothing is random
HEAD = (
    "scenario",
    "must arrive",
    "may arrive",
    "must be held back",
    "arrived",
    "held back",
    "forecast published",
    "passed",
    "s",
    "commit",
)


def main() -> None:
    options = _options()
    results = Results(options.results)
    if not options.table:
        for number in (signal.SIGINT, signal.SIGTERM):  # also in the background: started processes are stopped
            signal.signal(number, signal.default_int_handler)
        # Programs compiled without optimization do the same work, and most of a small run is
        # compilation.
        os.environ["JAX_DISABLE_MOST_OPTIMIZATIONS"] = "1"
        with working_folder(options.folder, "game-day-") as work:
            templates = Templates(work)
            for name in options.only or SCENARIOS:
                for _ in results.left(name, range(1), SEED, again=options.again):
                    results.append(one_result(SCENARIOS[name], templates))
    print(*table(results.read()), sep="\n")


def one_result(scenario: Scenario, templates: Templates) -> Result:
    """Play a scenario and judge its alerts."""
    environment = dict(os.environ)
    file = templates.put_in_place(scenario.template)
    begun, faults = time.monotonic(), list[str]()
    with (
        tempfile.TemporaryDirectory(prefix="game-day-") as folder,
        staged(file, Path(folder), scenario.factor) as stage,
    ):
        try:
            scenario.play(stage)
        except Exception as error:
            faults.append(f"{type(error).__name__}: {error}")
        heard, fired = _bare(stage.heard()), _bare(stage.fired())
        is_out = stage.answers()
        faults += judged(scenario, heard, fired, is_out=is_out)
    os.environ.clear()
    os.environ.update(environment)
    about = {
        "factor": scenario.factor,
        "heard": sorted(heard),
        "held back": sorted(fired - heard - {"Watchdog"}),
        "is out": is_out,
        "seconds": round(time.monotonic() - begun),
        "seen": stage.seen,
    }
    return Result(scenario.name, 0, SEED, faults, ", ".join(sorted(heard)) or "none", about)


def judged(scenario: Scenario, heard: set[str], fired: set[str], *, is_out: bool) -> list[str]:
    """Return the deviations from the scenario's declaration, as sentences."""
    allowed = {*scenario.must, *scenario.may, *BESIDES}
    faults = [f"{name} did not come" for name in scenario.must if name not in heard]
    faults += [f"{name} came" for name in sorted(heard - allowed)]
    faults += [f"{name} did not fire" for name in scenario.held_back if name not in fired]
    return faults + ([] if is_out or not scenario.is_out else ["no forecast is out"])


def _bare(alerts: Iterable[str]) -> set[str]:
    return {name.removeprefix(PREFIX) for name in alerts}


def table(results: Iterable[Result]) -> list[str]:
    """Return a Markdown table in the order of the scenarios; the last result of each counts."""
    last = {result.group: result for result in results}
    lines = [
        f"| {' | '.join(HEAD)} |",
        "|---" * len(HEAD) + "|",
    ]
    for name, scenario in SCENARIOS.items():
        if (result := last.get(name)) is None:
            continue
        cells = (
            name,
            _words(scenario.must),
            _words(scenario.may),
            _words(scenario.held_back),
            result.outcome,
            _words(result.about["held back"]),
            "yes" if result.about["is out"] else "no",
            "**no**: " + "; ".join(result.faults).replace("|", "/") if result.faults else "yes",
            str(result.about["seconds"]),
            result.commit,
        )
        lines.append(f"| {' | '.join(cells)} |")
    passed = sum(not result.faults for name, result in last.items() if name in SCENARIOS)
    return [*lines, "", f"{passed} of {len(SCENARIOS)} scenarios passed."]


def _words(names: Sequence[str]) -> str:
    return ", ".join(names) or "–"


def _options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", choices=[*SCENARIOS], help="names of scenarios")
    parser.add_argument(
        "--results", type=Path, default=FOLDER / "game_day.jsonl", help="file to which results are appended"
    )
    parser.add_argument("--again", action="store_true", help="also repeat scenarios whose last result failed")
    parser.add_argument("--table", action="store_true", help="only print the table of results")
    parser.add_argument(
        "--folder", type=Path, help="working folder, which keeps the installations; use one per version"
    )
    return parser.parse_args(words)


if __name__ == "__main__":
    main()
