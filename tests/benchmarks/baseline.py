"""The performance gate: exact counts (`counts`) beside `baseline.json`, which changes only with a reason.

    python -m tests.benchmarks.baseline                    says what differs; exits with 1 where something does
    python -m tests.benchmarks.baseline --reason "…"       writes what is so now, and why
    python -m tests.benchmarks.baseline --only pages …     measures some groups alone, in seconds

Counts that follow from compilers and libraries belong to their versions. Where others are installed than the baseline
is of, these counts are not compared, unless `requirements.lock` pins the installed ones: then the baseline is behind.
Bytes of pages may differ by `PAGE_BYTES`, and by `NUMBER_BYTES` where a page is small: a word on a page is no
regression, and a processor may round a number to fewer digits. Queries may not.
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
NUMBER_BYTES = 16  # about one number's digits
COMMAND = 'python -m tests.benchmarks.baseline --reason "…"'
COMPILER = ("jax", "jaxlib", "flax", "optax")
# What each group of counts follows from, beside our code.
FOLLOWS_FROM: Mapping[str, tuple[str, ...]] = {
    "training": COMPILER,
    "step": COMPILER,
    "onnx": ("jax", "jaxlib", "flax", "jax2onnx", "onnx"),
    "pages": ("sqlalchemy", "fastapi", "jinja2", "babel"),
    "packages": ("python",),
}
TOLD = ("onnxruntime", "numpy", "prefect", "python", "machine", "c++")  # with the others, for whoever compares
OF_PROCESSORS = ("training", "step")  # groups whose counts follow from the kind of processor, too
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
    """A count that is not what it was; None where there is none."""

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
    """The group of a count, by the beginning of its name."""
    return GROUP_OF.get(name.partition(":")[0], "pages")


def differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[Difference]:
    """What differs between two sets of counts, name → [value, unit]."""
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


def message(found: Sequence[Difference]) -> str:
    """What a failing test says."""
    return "\n".join([*map(str, found), f"if that is meant, say why: {COMMAND}"])


# --- measuring --------------------------------------------------------------------------------------------------------


def measure(*groups: str, plant: str = "", **variables: str) -> dict[str, list[Any]]:
    """The counts of these groups, from a process of their own; `plant` is code that runs in it first."""
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
    """All counts, of two processes at a time; the folder keeps the programs of the training."""

    def trainings() -> dict[str, list[Any]]:
        first = measure("training", COUNTS_CACHE=str(cache_folder))
        return {**first, **measure("training", COUNTS_CACHE=str(cache_folder))}

    with ThreadPoolExecutor(2) as pool:
        parts = [pool.submit(trainings if group == "training" else partial(measure, group)) for group in groups]
        return {name: count for part in parts for name, count in part.result().items()}


def versions() -> dict[str, str]:
    """What is installed of all that counts follow from, and what else somebody may ask for."""
    known = {"python": f"3.{sys.version_info.minor}", "machine": platform.machine(), "c++": _cpp()}
    names = sorted({*TOLD, *(name for names in FOLLOWS_FROM.values() for name in names)})
    return {name: known.get(name) or version(name) for name in names}


def _cpp() -> str:
    try:
        said = subprocess.run(["c++", "--version"], capture_output=True, text=True, check=False).stdout
    except OSError:
        said = ""
    return said.partition("\n")[0] or "none"


@cache
def _locked() -> Mapping[str, str]:
    lock = (ROOT / "requirements.lock").read_text("utf-8")
    return {pin.name: next(iter(pin.specifier)).version for pin, _ in pins(lock)}


def why_not(group: str, baseline: Mapping[str, Any]) -> str | None:
    """Why a group's counts cannot be compared here, None where they can. Raises AssertionError where what is installed
    is what the lock pins: then nobody has written down what it costs."""
    before, here = baseline["versions"], versions()
    if group in OF_PROCESSORS and here["machine"] != before["machine"]:
        return f"counts of {group} are of a processor {before['machine']}, this is one {here['machine']}"
    others = {name: here[name] for name in FOLLOWS_FROM[group] if here[name] != before[name]}
    if not others:
        return None
    said = ", ".join(f"{name} {before[name]}, here is {now}" for name, now in others.items())
    if all(_locked().get(name) == now for name, now in others.items()):
        raise AssertionError(f"the baseline of {group} is of {said}, which the lock pins: {COMMAND}")
    return f"counts of {group} are of {said}"


# --- the file ---------------------------------------------------------------------------------------------------------


def load() -> dict[str, Any]:
    content: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    return content


def rewritten(baseline: Mapping[str, Any], now: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """The baseline with what is so now, of the groups that were measured; its history has the reason and every change.

    Raises ValueError without a reason.
    """
    if not reason.strip():
        raise ValueError("found no reason, wanted a sentence on why these counts are what they are now")
    before, history = baseline.get("counts", {}), baseline.get("history", [])
    measured = {group_of(name) for name in now}
    compared = {name: entry for name, entry in before.items() if group_of(name) in measured}
    changed = differences(compared, now)
    moved = {difference.name for difference in changed}
    # Of a page whose bytes stay within their tolerance the old number stays: small steps would add up to a large one.
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
    """As it is written: a count a line, so that a change is a line; the last number of a count names its reason, as an
    index into the history."""
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
    """Compare, or write with `--reason`; yields what is told. Raises SystemExit with 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.baseline")
    parser.add_argument("--reason", help="why the counts are what they are now; writes them down")
    parser.add_argument("--only", nargs="+", choices=list(FOLLOWS_FROM), default=list(FOLLOWS_FROM), metavar="GROUP")
    options = parser.parse_args(words)
    if options.reason is not None and not options.reason.strip():
        parser.error("--reason: found nothing, wanted a sentence on why these counts are what they are now")
    baseline = load() if FILE.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        now = measure_all(Path(folder), options.only)
    compared = {name: entry for name, entry in baseline.get("counts", {}).items() if group_of(name) in options.only}
    found = differences(compared, now)
    follow = {name for group in options.only for name in FOLLOWS_FROM[group]}
    behind = [name for name in sorted(follow) if baseline.get("versions", {}).get(name) != versions()[name]]
    yield from map(str, found)
    if not found and not behind:
        yield f"{len(now)} counts are as the baseline has them"
    elif options.reason is None:
        yield f"to write this down: {COMMAND}"
        raise SystemExit(1)
    else:
        FILE.write_text(text(rewritten(baseline, now, options.reason)), "utf-8")
        yield f"{FILE.name}: {len(found)} of {len(now)} counts written anew"


if __name__ == "__main__":
    for line in main(sys.argv[1:]):
        print(line)
