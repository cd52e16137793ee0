"""Two dumps of XLA are compared by the compiled programs, not by names, lines or order."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from jax import Array
from typer.testing import CliRunner

from forecaster.cli.app import app
from forecaster.errors import SpecError
from forecaster.model.fitting import hlo_dumps

SHAPE = (5, 8, 16)


def recurrence(x: Array, w: Array) -> Array:
    def step(h: Array, value: Array) -> tuple[Array, Array]:
        h = jnp.tanh(value @ w + h @ w)
        return h, h

    return jax.lax.scan(step, x[0], x)[1].sum()


def gated(x: Array, w: Array) -> Array:
    def step(h: Array, value: Array) -> tuple[Array, Array]:
        h = jnp.tanh(value @ w + h @ w) * jnp.exp(h)
        return h, h

    return jax.lax.scan(step, x[0], x)[1].sum()


def plus(x: Array) -> Array:
    return x + x


def dump(folder: Path, function: Callable[..., Array], *shapes: tuple[int, ...], name: str = "step") -> None:
    """Make XLA write the programs of a function, as with `XLA_FLAGS`."""
    function = jax.named_call(function, name=name)
    function.__name__ = name
    arguments = [jnp.ones(shape) for shape in shapes]
    jax.jit(function).lower(*arguments).compile({"xla_dump_to": str(folder), "xla_dump_hlo_as_text": True})


@pytest.fixture(autouse=True)
def _compiles() -> None:
    """Clear the cache: programs that are already compiled are not dumped."""
    jax.clear_caches()


@pytest.fixture
def dumps(tmp_path: Path) -> tuple[Path, Path]:
    """Dumps of a version, and of a later one whose recurrence does more, and which lacks one
    program and has another."""
    before, after = tmp_path / "before", tmp_path / "after"
    dump(before, recurrence, SHAPE, (16, 16))
    dump(before, plus, (4,), name="double")
    dump(before, plus, (3, 3), name="gone")
    dump(after, plus, (2,), name="fresh")
    dump(after, plus, (4,), name="double")
    dump(after, gated, SHAPE, (16, 16))
    return before, after


def test_new_removed_and_changed_programs_are_listed(dumps: tuple[Path, Path]) -> None:
    before, after = map(hlo_dumps.read_dump, dumps)
    lines = list(hlo_dumps.compare(before, after).lines())
    # the largest change first
    assert lines[0].startswith("changed: jit_step f32[5,8,16], f32[16,16] -> f32[]: instructions ")
    assert "FLOPs" in lines[0]
    assert lines[1].startswith("gone: jit_gone f32[3,3] -> f32[3,3]: ")
    assert lines[2].startswith("new: jit_fresh f32[2] -> f32[2]: ")
    assert lines[3].startswith("3 programs before, 3 after, 1 of them the same; in all FLOPs ")


def test_the_counts_are_those_of_the_function(tmp_path: Path) -> None:
    dump(tmp_path, plus, (1000,))
    [program] = hlo_dumps.read_dump(tmp_path)
    assert program.name == "jit_step"
    assert program.signature == "f32[1000] -> f32[1000]"
    assert program.flops == 1000  # one addition a number
    assert program.opcodes["add"] == 1


def test_another_location_and_other_names_are_not_a_change(tmp_path: Path) -> None:
    def moved(x: Array) -> Array:
        return x + x

    dump(tmp_path / "before", plus, (7,))
    dump(tmp_path / "after", moved, (7,))
    comparison = hlo_dumps.compare(hlo_dumps.read_dump(tmp_path / "before"), hlo_dumps.read_dump(tmp_path / "after"))
    assert [change.is_same for change in comparison.changes] == [True]
    assert len(list(comparison.lines())) == 1


def test_programs_with_the_same_name_are_paired_by_shapes(tmp_path: Path) -> None:
    for length in (3, 5):
        dump(tmp_path / "before", plus, (length,))
    dump(tmp_path / "after", plus, (5,))
    dump(tmp_path / "after", plus, (9,))
    changes = hlo_dumps.compare(
        hlo_dumps.read_dump(tmp_path / "before"), hlo_dumps.read_dump(tmp_path / "after")
    ).changes
    pairs = {(change.before and change.before.signature, change.after and change.after.signature) for change in changes}
    assert pairs == {("f32[5] -> f32[5]", "f32[5] -> f32[5]"), ("f32[3] -> f32[3]", "f32[9] -> f32[9]")}


def test_the_command_prints_lines_or_json(dumps: tuple[Path, Path]) -> None:
    text = CliRunner().invoke(app, ["compare-hlo", *map(str, dumps)])
    assert text.exit_code == 0
    assert len(text.stdout.splitlines()) == 4
    result = CliRunner().invoke(app, ["compare-hlo", *map(str, dumps), "--json"])
    assert [program["same"] for program in json.loads(result.stdout)["programs"]].count(True) == 1


def test_a_folder_without_a_dump_is_rejected_with_the_way_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"found no \*after_optimizations.txt, wanted .*--xla_dump_to=FOLDER"):
        hlo_dumps.read_dump(tmp_path)


def test_a_text_that_is_not_a_program_is_rejected_with_its_name(tmp_path: Path) -> None:
    (tmp_path / "module_0001.jit_step.cpu_after_optimizations.txt").write_text("no program")
    with pytest.raises(SpecError, match=r"module_0001\.jit_step\.cpu_after_optimizations\.txt: not HLO as jax"):
        hlo_dumps.read_dump(tmp_path)
