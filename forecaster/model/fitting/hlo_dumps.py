"""Comparison of two dumps of a training's programs as compiled by XLA: programs, instructions,
fusions, costs.

A dump is a folder that XLA writes while compiling with `XLA_FLAGS="--xla_dump_to=FOLDER
--xla_dump_hlo_as_text"`. The text of each program after optimization is read. Names, line numbers
and the order of compilation are ignored: two programs are the same if their fingerprints as XLA
prints them are equal. FLOPs and bytes are those of XLA's own cost analysis, which counts the body
of a loop once.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
from jaxlib import _hlo, _jax  # type: ignore[attr-defined] # of the pinned jaxlib; it offers no public way

from forecaster.errors import SpecError

TEXTS = "*after_optimizations.txt"
_PROGRAM = re.compile(r"module_\d+\.(?P<name>.+?)\.(?:[^.]+_|sm_[\d.]+_gpu_)?after_optimizations\.txt$")
_KERNELS = {"fusion": "fusions", "custom-call": "custom calls", "dot": "matrix products", "while": "loops"}


@dataclass(frozen=True)
class Program:
    """A compiled program from a dump."""

    name: str
    signature: str  # shapes of its arguments and results
    fingerprint: str  # of its text without names and source locations
    instructions: int
    opcodes: Mapping[str, int]
    flops: float
    bytes_accessed: float


@dataclass(frozen=True)
class ProgramChange:
    """A program of two dumps; None where one of them lacks it."""

    before: Program | None
    after: Program | None

    @property
    def is_same(self) -> bool:
        return bool(self.before and self.after and self.before.fingerprint == self.after.fingerprint)

    @property
    def weight(self) -> float:
        """Absolute difference of the two in FLOPs and bytes."""
        before, after = (
            (program.flops, program.bytes_accessed) if program else (0.0, 0.0) for program in (self.before, self.after)
        )
        return abs(after[0] - before[0]) + abs(after[1] - before[1])

    def sentence(self) -> str:
        """Return a sentence about the program's change, with its counts before and after."""
        program = self.after or self.before
        assert program is not None
        if self.before is None:
            return f"new: {program.name} {program.signature}: {_counts(program)}"
        if self.after is None:
            return f"gone: {program.name} {program.signature}: {_counts(program)}"
        parts = [
            f"{noun} {_moved(before, after)}"
            for noun, before, after in _numbers(self.before, self.after)
            if before != after
        ]
        return f"changed: {program.name} {program.signature}: {', '.join(parts) or 'the same counts, in another form'}"


@dataclass(frozen=True)
class HloComparison:
    changes: tuple[ProgramChange, ...]  # all programs of both dumps

    def lines(self) -> Iterator[str]:
        """Yield a line for each new, removed or changed program, the largest change first, and a
        summary line."""
        differing = sorted((change for change in self.changes if not change.is_same), key=lambda change: -change.weight)
        for change in differing:
            yield change.sentence()
        before = [change.before for change in self.changes if change.before]
        after = [change.after for change in self.changes if change.after]
        same = len(self.changes) - len(differing)
        yield (
            f"{len(before)} programs before, {len(after)} after, {same} of them the same; in all "
            f"FLOPs {_moved(_total(before, 'flops'), _total(after, 'flops'))}, "
            f"bytes {_moved(_total(before, 'bytes_accessed'), _total(after, 'bytes_accessed'))}"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "programs": [
                {
                    "same": change.is_same,
                    "before": asdict(change.before) if change.before else None,
                    "after": asdict(change.after) if change.after else None,
                }
                for change in self.changes
            ]
        }


def read_dump(folder: Path) -> tuple[Program, ...]:
    """Return the programs of a dump, by name and shapes; identical compilations appear once.

    Raises SpecError if the folder has no dump, or a text that this version of XLA cannot read.
    """
    files = sorted(folder.glob(TEXTS)) if folder.is_dir() else []
    if not files:
        raise SpecError(
            f"{folder}: found no {TEXTS}, wanted a folder that XLA dumped into: set "
            'XLA_FLAGS="--xla_dump_to=FOLDER --xla_dump_hlo_as_text" and JAX_ENABLE_COMPILATION_CACHE=false, and train'
        )
    programs = {(program.name, program.fingerprint): program for program in map(_program, files)}
    return tuple(sorted(programs.values(), key=lambda program: (program.name, program.signature, program.fingerprint)))


def compare(before: Sequence[Program], after: Sequence[Program]) -> HloComparison:
    """Pair programs with the same name: identical ones first, then those with the same shapes, then
    the rest in order."""
    changes: list[ProgramChange] = []
    for name in sorted({program.name for program in (*before, *after)}):
        old, new = ([program for program in programs if program.name == name] for programs in (before, after))
        changes += _twins(old, new)
        changes += [ProgramChange(program, None) for program in old]
        changes += [ProgramChange(None, program) for program in new]
    return HloComparison(tuple(changes))


def _twins(old: list[Program], new: list[Program]) -> Iterator[ProgramChange]:
    """Yield pairs of programs with the same name, the most similar first, and remove them from the
    lists."""
    for key in ("fingerprint", "signature", "name"):
        for program in list(old):
            twin = next((candidate for candidate in new if getattr(candidate, key) == getattr(program, key)), None)
            if twin is not None:
                old.remove(program)
                new.remove(twin)
                yield ProgramChange(program, twin)


def _program(file: Path) -> Program:
    text = file.read_text("utf-8")
    try:
        module = _hlo.hlo_module_from_text(text)
    except Exception as error:
        raise SpecError(f"{file}: not HLO as jax {jax.__version__} reads it: {str(error)[:200]}") from error
    matched = _PROGRAM.search(file.name)
    costs = _jax.hlo_module_cost_analysis(jax.devices("cpu")[0].client, module)
    opcodes = Counter(
        _words(instruction.opcode.name)
        for computation in module.computations()
        for instruction in computation.instructions()
    )
    signature = re.search(r"entry_computation_layout=\{(.*?)->(.*?)\}(?:,|$)", text.split("\n", 1)[0])
    return Program(
        matched["name"] if matched else module.name,
        _shapes(signature[1], signature[2]) if signature else "",
        hashlib.sha256(module.to_string(_hlo.HloPrintOptions.fingerprint()).encode()).hexdigest(),
        sum(opcodes.values()),
        dict(sorted(opcodes.items())),
        float(costs.get("flops", 0.0)),
        float(costs.get("bytes accessed", 0.0)),
    )


def _words(opcode: str) -> str:
    """Spell an opcode such as "kCustomCall" as XLA prints it: "custom-call"."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", opcode.removeprefix("k")).lower()


def _shapes(takes: str, gives: str) -> str:
    """Return the shapes without layouts; more than three are replaced by their number."""
    plain = [re.findall(r"\w+\[[\d,]*\]", re.sub(r"/\*.*?\*/", "", part)) for part in (takes, gives)]
    return " -> ".join(", ".join(part) if len(part) <= 3 else f"{len(part)} arrays" for part in plain)


def _numbers(before: Program, after: Program) -> Iterator[tuple[str, int | float, int | float]]:
    yield "instructions", before.instructions, after.instructions
    for opcode, noun in _KERNELS.items():
        yield noun, before.opcodes.get(opcode, 0), after.opcodes.get(opcode, 0)
    yield "FLOPs", before.flops, after.flops
    yield "bytes", before.bytes_accessed, after.bytes_accessed
    if before.signature != after.signature:
        yield "arrays", before.signature.count("["), after.signature.count("[")


def _counts(program: Program) -> str:
    fusions = program.opcodes.get("fusion", 0)
    return (
        f"{program.instructions:,} instructions, {fusions:,} fusions, {program.flops:,.0f} FLOPs, "
        f"{program.bytes_accessed:,.0f} bytes"
    )


def _moved(before: int | float, after: int | float) -> str:
    share = f" ({100 * (after / before - 1):+.1f} %)" if before else ""
    return f"{before:,.0f} -> {after:,.0f}{share}" if before != after else f"{after:,.0f}, as before"


def _total(programs: Sequence[Program], field: str) -> float:
    return sum(float(getattr(program, field)) for program in programs)
