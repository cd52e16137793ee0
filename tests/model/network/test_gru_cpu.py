"""The recurrence compiled for the processor matches the plain cell, and the scan replaces it where
it is unavailable."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax import Array

from forecaster.model.network import gru, gru_cpu
from tests.model.network.test_gru import (
    ROOT,
    dealt_over_eight_devices,
    few,
    inputs,
    mapped,
    states_and_gradients,
    unrolled,
    weights,
)

compiled = pytest.mark.usefixtures("compiled_library")


@pytest.fixture(scope="module")
def compiled_library() -> None:
    """Compile it in the first test, because each worker imports this module."""
    if not gru_cpu.ready():
        pytest.skip("no C++ compiler on this machine")


def served(days: int, depots: int, features: int, hidden: int, seed: int = 0) -> tuple[Array, ...]:
    """Return weights and inputs; the sum over units has the same size for any width, so that
    rounding errors do not grow from day to day."""
    assert gru_cpu.serves(hidden, jnp.dtype(jnp.float32))
    kernel_i, bias, kernel_h = weights(features, hidden, seed)
    return kernel_i, bias, 2 * kernel_h / hidden**0.5, inputs(days, depots, features, seed)


def near(actual: tuple[Array, ...], expected: tuple[Array, ...]) -> None:
    """Compare to 1e-5 of the largest number of each: gradients are sums of many terms that cancel."""
    for name, left, right in zip(("states", "kernel_i", "bias", "kernel_h", "x"), actual, expected, strict=True):
        largest = max(1.0, float(jnp.abs(right).max()))
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-5 * largest, err_msg=name)


@compiled
@few
@given(
    days=st.integers(1, 9),
    depots=st.integers(1, 19),  # blocks of eight or four, of two and of one
    features=st.integers(1, 19),
    hidden=st.sampled_from([16, 32, 48]),
    scored_share=st.floats(0, 1),
    seed=st.integers(0, 99),
)
def test_the_compiled_layer_is_the_cell_of_flax_unrolled(
    days: int, depots: int, features: int, hidden: int, scored_share: float, seed: int
) -> None:
    arguments = served(days, depots, features, hidden, seed)
    mask = jnp.asarray(np.random.default_rng(seed).random((days, depots, 1)) < scored_share, jnp.float32)
    mask = jnp.broadcast_to(mask, (days, depots, hidden))
    near(states_and_gradients(gru.layer, mask)(*arguments), states_and_gradients(unrolled, mask)(*arguments))


@compiled
@pytest.mark.parametrize(("days", "depots"), [(100, 3), (43, 3), (42, 3), (3, 150)])  # sums over 42 days, or one
def test_sums_over_many_days_and_depots_are_complete(days: int, depots: int, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = served(days, depots, 3, 16)
    fast = states_and_gradients(gru.layer)(*arguments)
    monkeypatch.setattr(gru_cpu, "serves", lambda *_: False)
    # another function, because JAX caches the fast one
    slow = states_and_gradients(lambda *a: gru.layer(*a))(*arguments)
    near(fast, slow)


@compiled
def test_states_without_a_gradient_are_bit_identical() -> None:
    arguments = served(8, 5, 3, 32)
    np.testing.assert_array_equal(gru.layer(*arguments), jax.vjp(gru.layer, *arguments)[0])
    np.testing.assert_array_equal(jax.jit(gru.layer)(*arguments), gru.layer(*arguments))
    with jax.disable_jit():
        np.testing.assert_array_equal(gru.layer(*arguments), jax.jit(gru.layer)(*arguments))


@compiled
def test_members_and_depots_may_be_mapped() -> None:
    members = [served(7, 5, 3, 16, seed) for seed in range(3)]
    for together, after, alone in mapped(members):
        near(together, alone)
        near(after, alone)
    kernel_i, bias, kernel_h, x = members[0]
    depots = jax.vmap(lambda depot: gru.layer(kernel_i, bias, kernel_h, depot[:, None])[:, 0], in_axes=1, out_axes=1)(x)
    np.testing.assert_allclose(depots, gru.layer(kernel_i, bias, kernel_h, x), rtol=1e-5, atol=1e-6)


@compiled
def test_depots_on_eight_devices_give_the_same_with_the_compiled_layer() -> None:
    assert dealt_over_eight_devices(16) == "the same by a loop\n"


@compiled
def test_gates_saturate_and_nan_stays_nan() -> None:
    kernel_i, bias, kernel_h, x = served(4, 3, 2, 16)
    far = states_and_gradients(gru.layer)(kernel_i, bias, kernel_h, 1e4 * x)
    assert all(bool(jnp.isfinite(array).all()) for array in far)
    assert float(jnp.abs(far[0]).max()) <= 1.0
    states = gru.layer(kernel_i, bias, kernel_h, x.at[1, 2, 0].set(jnp.nan))
    wrong = np.isnan(np.asarray(states)).any(axis=-1)
    np.testing.assert_array_equal(wrong, [[False] * 3] + [[False, False, True]] * 3)


@compiled
def test_other_widths_and_precisions_use_the_scan() -> None:
    assert not gru_cpu.serves(12, jnp.dtype(jnp.float32))
    assert not gru_cpu.serves(16, jnp.dtype(jnp.bfloat16))
    assert not gru_cpu.serves(16, jnp.dtype(jnp.float64))


REPORTS = """
import json, os, sys, warnings
import jax, jax.numpy as jnp
from forecaster.model.network import gru, gru_cpu
from tests import forked

def report(folder, compiler):
    os.environ.pop("CXX", None)
    if compiler is not None:
        os.environ["CXX"] = compiler
    jax.config.update("jax_compilation_cache_dir", folder)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        states = gru.layer(jnp.ones((1, 48)), jnp.zeros(48), jnp.zeros((16, 48)), jnp.ones((2, 1, 1)))
    print(json.dumps([gru_cpu.ready(), round(float(states[0, 0, 0]), 5), *(str(w.message) for w in caught)]))

for line in sys.stdin:
    print("ended", forked.child(lambda: report(*json.loads(line))), flush=True)
"""
Report = Callable[[Path, str | None], list[Any]]


@pytest.fixture(scope="module")
def report() -> Iterator[Report]:
    """Yield a function that starts a new process with a folder of programs and a compiler: it
    returns True if the recurrence is compiled, a state, (1 − σ(1)) tanh(1), and the warnings. The
    processes are forked from one that has imported everything and started nothing."""
    command = [sys.executable, "-c", REPORTS]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as source:

        def ask(folder: Path, compiler: str | None) -> list[Any]:
            assert source.stdin is not None
            assert source.stdout is not None
            print(json.dumps([str(folder), compiler]), file=source.stdin, flush=True)
            line = source.stdout.readline()
            assert source.stdout.readline() == "ended 0\n", line
            answer: list[Any] = json.loads(line)
            return answer

        yield ask


def script(path: Path, *lines: str) -> str:
    """Write an executable shell script and return its path."""
    path.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    path.chmod(0o755)
    return str(path)


@pytest.fixture(scope="module")
def again(compiled_library: None) -> str:
    """Return a line of a shell script that compiles like the real compiler, by copying its library
    for this process."""
    compiler = gru_cpu.compiler()
    assert compiler is not None
    library = gru_cpu._compiled_library(gru_cpu._command(compiler))
    return f'for last; do :; done; exec cp "{library}" "$last"'


def test_without_a_compiler_the_scan_is_used_without_a_warning(tmp_path: Path, report: Report) -> None:
    assert report(tmp_path, "") == [False, 0.20482]
    assert report(tmp_path, "no-such-compiler") == [False, 0.20482]
    assert not list(tmp_path.rglob("gru_cpu-*"))


def test_a_failing_compiler_is_named_with_its_message(tmp_path: Path, report: Report) -> None:
    broken = script(tmp_path / "broken", "echo 'no header for you' >&2", "exit 1")
    ready, state, warned = report(tmp_path, broken)
    assert (ready, state) == (False, 0.20482)
    assert broken in warned
    assert "no header for you; set CXX" in warned
    assert not list(tmp_path.rglob("gru_cpu-*"))


@compiled
def test_checkouts_share_the_library_regardless_of_their_headers_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: str
) -> None:
    compiler = script(tmp_path / "compiler", again)
    monkeypatch.setattr(gru_cpu, "_private_folder", lambda: tmp_path)
    libraries = []
    for place in (jax.ffi.include_dir(), str(tmp_path / "another" / "include")):
        if not Path(place).exists():
            shutil.copytree(jax.ffi.include_dir(), place)
        monkeypatch.setattr(jax.ffi, "include_dir", lambda place=place: place)
        libraries.append(gru_cpu._compiled_library(gru_cpu._command(compiler)))
    assert libraries[0] == libraries[1]
    assert list(tmp_path.glob("*.so")) == libraries[:1]


@compiled
def test_it_is_compiled_once_and_again_if_damaged(tmp_path: Path, report: Report, again: str) -> None:
    calls = tmp_path / "calls"
    counting = script(tmp_path / "counting", f"echo called >>{calls}", again)
    for _ in range(2):
        assert report(tmp_path / "programs", counting) == [True, 0.20482]
    assert calls.read_text() == "called\n"
    folder = tmp_path / "programs" / "gru_cpu"
    [library] = folder.iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    whole = library.read_bytes()
    flipped = whole[:-1] + bytes([whole[-1] ^ 1])
    for number, damaged in enumerate((whole[:100], flipped), start=2):
        library.write_bytes(damaged)
        assert report(tmp_path / "programs", counting) == [True, 0.20482]
        assert calls.read_text() == "called\n" * number
        assert list(folder.iterdir()) == [library]
        assert library.read_bytes() == whole


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory, again: str) -> str:
    """Return a compiler that takes no time."""
    return script(tmp_path_factory.mktemp("compiler") / "quick", again)


@pytest.fixture(scope="module")
def name_of_library(tmp_path_factory: pytest.TempPathFactory, report: Report, compiler: str) -> str:
    """Return the name of the compiled recurrence on this machine."""
    folder = tmp_path_factory.mktemp("mine")
    assert report(folder, compiler) == [True, 0.20482]
    [library] = (folder / "gru_cpu").iterdir()
    return library.name


@compiled
@pytest.mark.parametrize("way", ["others may write", "a link"])
def test_nothing_is_loaded_from_a_folder_that_others_may_write_to(
    tmp_path: Path, way: str, report: Report, compiler: str, name_of_library: str
) -> None:
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    planted = f"gru_cpu-{name_of_library.split('-')[1]}-{hashlib.sha256(b'planted').hexdigest()}.so"
    (foreign / planted).write_bytes(b"planted")
    programs = tmp_path / "programs"
    programs.mkdir()
    if way == "a link":
        (programs / "gru_cpu").symlink_to(foreign)
    else:
        foreign.rename(programs / "gru_cpu")
        (programs / "gru_cpu").chmod(0o777)
    assert report(programs, compiler) == [True, 0.20482]
    assert [path.name for path in (programs / "gru_cpu").iterdir()] == [planted]
