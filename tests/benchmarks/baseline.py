"""The performance gate: exact counts (`counts`) are compared with `baseline.json`, which changes
only with a reason.

    python -m tests.benchmarks.baseline                    prints differences; exits with 1 if there are any
    python -m tests.benchmarks.baseline --reason "…"       writes the current counts, with the reason
    python -m tests.benchmarks.baseline --only pages …     measures only some groups, in seconds

Counts that depend on compilers and libraries are valid for their versions. If other versions are
installed than those of the baseline, these counts are not compared, unless `requirements.lock` pins
the installed ones: then the baseline is outdated. Bytes of pages may differ by `PAGE_BYTES`, and
those of small pages by `NUMBER_BYTES`: a word on a page is no regression, and a processor may round
a number to fewer digits. Queries may not differ.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.benchmarks.counts import ROOT, SURROUNDINGS
from tests.test_lock import pins

FILE = Path(__file__).with_name("baseline.json")
PAGE_BYTES = 0.02  # share
NUMBER_BYTES = 16  # about the digits of one number
COMMAND = 'python -m tests.benchmarks.baseline --reason "…"'
COMPILER = ("jax", "jaxlib", "flax", "optax")
# Dependencies of each group of counts, in addition to our code.
FOLLOWS_FROM: Mapping[str, tuple[str, ...]] = {
    "training": COMPILER,
    "step": COMPILER,
    "onnx": ("jax", "jaxlib", "flax", "jax2onnx", "onnx"),
    "pages": ("sqlalchemy", "fastapi", "jinja2", "babel"),
    "packages": ("python",),
}
RECORDED = ("onnxruntime", "numpy", "prefect", "python", "machine", "c++")  # also recorded, for reference
OF_PROCESSORS = ("training", "step")  # groups whose counts also depend on the kind of processor
GROUP_OF = {
    "training": "training",
    "second training": "training",
    "step": "step",
    "validation": "step",
    "onnx": "onnx",
    "base install": "packages",
}


@dataclass(frozen=True)
class Difference:
    """A count that differs from the baseline; None if it is absent on that side."""

    name: str
    unit: str
    before: float | None
    now: float | None

    def __str__(self) -> str:
        before, now = (f"{value:,.0f}" if value is not None else None for value in (self.before, self.now))
        if before is None:
            return f"{self.name}: not in the baseline, now {now} {self.unit}"
        if now is None:
            return f"{self.name}: {before} {self.unit} before, now there is none"
        share = f" ({100 * (self.now / self.before - 1):+.1f} %)" if self.before and self.now is not None else ""
        return f"{self.name}: {before} {self.unit} before, now {now}{share}"


def group_of(name: str) -> str:
    """Return the group of a count, by the beginning of its name."""
    return GROUP_OF.get(name.partition(":")[0], "pages")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """Return the differences between two sets of counts, name → [value, unit]."""
    return [
        Difference(name, unit, old, new)
        for name in sorted({*before, *now})
        for old, new, unit in [_pair(before.get(name), now.get(name))]
        if not _is_same(name, old, new)
    ]


def _pair(old: Any, new: Any) -> tuple[float | None, float | None, str]:
    return (old[0] if old else None), (new[0] if new else None), (new or old)[1]


def _is_same(name: str, old: float | None, new: float | None) -> bool:
    if old is None or new is None:
        return False
    if name.startswith("page ") and name.endswith(": bytes"):
        return abs(new - old) <= max(PAGE_BYTES * old, NUMBER_BYTES)
    return new == old


def message(changes: Sequence[Difference]) -> str:
    """Return the message of a failing test."""
    return "\n".join([*map(str, changes), f"if this is intended, record the reason: {COMMAND}"])


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(*groups: str, plant: str = "", **variables: str) -> dict[str, list[Any]]:
    """Return the counts of these groups, measured in a separate process, which runs the code
    `plant` first."""
    begin = f"{plant}\nimport sys\nfrom tests.benchmarks import counts\nsys.argv[1:] = {list(groups)!r}\ncounts.main()"
    foreign = ("JAX_", "XLA_", "COUNTS_")
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(foreign)}
    process = subprocess.run(
        [sys.executable, "-c", begin],
        cwd=ROOT,
        env={**inherited, **SURROUNDINGS, **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )
    if process.returncode:
        raise RuntimeError(f"counting {', '.join(groups)} failed: {process.stderr[-2000:]}")
    counts: dict[str, list[Any]] = json.loads(process.stdout.splitlines()[-1])
    return counts


def measure_all(cache_folder: Path, groups: Sequence[str] = tuple(FOLLOWS_FROM)) -> dict[str, list[Any]]:
    """Return all counts, measured in two processes at a time; the folder keeps the programs of the
    training."""

    def trainings() -> dict[str, list[Any]]:
        first = measure("training", COUNTS_CACHE=str(cache_folder))
        return {**first, **measure("training", COUNTS_CACHE=str(cache_folder))}

    with ThreadPoolExecutor(2) as pool:
        parts = [pool.submit(trainings if group == "training" else partial(measure, group)) for group in groups]
        return {name: count for part in parts for name, count in part.result().items()}


def versions() -> dict[str, str]:
    """Return the installed versions of all dependencies of counts, and of some others for
    reference."""
    special = {"python": f"3.{sys.version_info.minor}", "machine": platform.machine(), "c++": _cpp()}
    names = sorted({*RECORDED, *(name for names in FOLLOWS_FROM.values() for name in names)})
    return {name: special.get(name) or version(name) for name in names}


def _cpp() -> str:
    try:
        version_text = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        version_text = ""
    return version_text.partition("\n")[0] or "none"


@cache
def _locked() -> Mapping[str, str]:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    return {pin.name: next(iter(pin.specifier)).version for pin, _ in pins(lock)}


def why_incomparable(group: str, baseline: Mapping[str, Any]) -> str | None:
    """Return the reason why a group's counts cannot be compared here, or None if they can. Raises
    AssertionError if the installed versions are those of the lock: then the baseline must be
    updated."""
    before, here = baseline["versions"], versions()
    if group in OF_PROCESSORS and here["machine"] != before["machine"]:
        return f"counts of {group} are of processor architecture {before['machine']}, here is {here['machine']}"
    others = {name: here[name] for name in FOLLOWS_FROM[group] if here[name] != before[name]}
    if not others:
        return None
    mismatches = ", ".join(f"{name} {before[name]}, here is {now}" for name, now in others.items())
    if all(_locked().get(name) == now for name, now in others.items()):
        raise AssertionError(f"the baseline of {group} is of {mismatches}, which the lock pins: {COMMAND}")
    return f"counts of {group} are of {mismatches}"


# --- the file ---------------------------------------------------------------------------------------------------------


def load() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return content


def rewritten(baseline: Mapping[str, Any], now: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """Return the baseline with the current counts of the measured groups; its history gets the
    reason and every change.

    Raises ValueError without a reason.
    """
    if not reason.strip():
        raise ValueError("found no reason, wanted a sentence that explains the current counts")
    before, history = baseline.get("counts", {}), baseline.get("history", [])
    measured = {group_of(name) for name in now}
    compared = {name: entry for name, entry in before.items() if group_of(name) in measured}
    changed = differences(compared, now)
    moved = {difference.name for difference in changed}
    # A page whose bytes stay within their tolerance keeps its old number: small steps would add up
    # to a large one.
    entries = {name: [*count, len(history)] if name in moved else before[name] for name, count in now.items()}
    others = {name: entry for name, entry in before.items() if group_of(name) not in measured}
    follow = {name for group in measured for name in FOLLOWS_FROM[group]}
    installed = versions()
    return {
        "versions": {**installed, **{k: v for k, v in baseline.get("versions", {}).items() if k not in follow}},
        "counts": dict(sorted({**others, **entries}.items())),
        **{key: value for key, value in baseline.items() if key == "ratios"},
        "history": [
            *history,
            {
                "on": str(datetime.now(UTC).date()),
                "reason": reason.strip(),
                "changes": [str(difference) for difference in changed] if before else ["the first counts"],
            },
        ],
    }


def text(baseline: Mapping[str, Any]) -> str:
    """Return the content of the file: one count per line, so that a change is one line; the last
    number of a count is the index of its reason in the history."""
    parts = []
    for key, value in baseline.items():
        lines = (
            [f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in value.items()]
            if isinstance(value, dict)
            else [f"  {json.dumps(entry, ensure_ascii=False)}" for entry in value]
        )
        begin, end = "{}" if isinstance(value, dict) else "[]"
        parts.append(f" {json.dumps(key)}: {begin}\n" + ",\n".join(lines) + f"\n {end}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


def main(words: Sequence[str]) -> Iterator[str]:
    """Compare, or write with `--reason`; yields the lines to print. Raises SystemExit with 1 if
    anything differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.baseline")
    parser.add_argument("--reason", help="reason for the current counts; writes them into the baseline")
    parser.add_argument("--only", nargs="+", choices=list(FOLLOWS_FROM), default=list(FOLLOWS_FROM), metavar="GROUP")
    options = parser.parse_args(words)
    if options.reason is not None and not options.reason.strip():
        parser.error("--reason: found nothing, wanted a sentence that explains the current counts")
    baseline = load() if FILE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        now = measure_all(Path(folder), options.only)
    compared = {name: entry for name, entry in baseline.get("counts", {}).items() if group_of(name) in options.only}
    changes = differences(compared, now)
    follow = {name for group in options.only for name in FOLLOWS_FROM[group]}
    behind = [name for name in sorted(follow) if baseline.get("versions", {}).get(name) != versions()[name]]
    yield from map(str, changes)
    if not changes and not behind:
        yield f"{len(now)} counts equal the baseline"
    elif options.reason is None:
        yield f"to record these counts: {COMMAND}"
        raise SystemExit(1)
    else:
        FILE.write_text(text(rewritten(baseline, now, options.reason)), "utf-8")
        yield f"{FILE.name}: {len(changes)} of {len(now)} counts updated"


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        print(line)
