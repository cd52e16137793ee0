"""Compiled programs are kept in a folder, which a killed process cannot damage permanently."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from tests.flows.tiny import pipeline

SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_compilation_cache_max_size",
    "jax_persistent_cache_enable_xla_caches",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)
PROCESSES = """
import json, os, sys
from pathlib import Path
import jax
from forecaster.config import load
from forecaster.model.fitting import jax_setup
from tests import forked

def few(cache):
    jax_setup.configure(Path(cache))
    with jax_setup.count_compilations() as compilations:
        jax.jit(lambda x: x + 1)(2.0)
    return compilations.misses, compilations.hits

def many(cache, megabytes):
    jax_setup.configure(Path(cache), megabytes=megabytes)
    with jax_setup.count_compilations() as compilations:
        for number in range(12):
            jax.jit(lambda x, number=number: x * number + 1)(2.0)
    return compilations.misses, compilations.hits

def without_a_cache(file, damage):
    jax_setup.LOOKING, jax_setup.LOCK_SECONDS = 3.0, 0.3
    if damage == "never answers":
        jax_setup._note_last_uses = lambda cache: os.open(cache / "pipe", os.O_RDONLY)
    return jax_setup.configure_for(load(Path(file))), float(jax.jit(lambda x: x + 1)(2.0))

def answer(name, *arguments):
    # Several answer at once: where output is not buffered (PYTHONUNBUFFERED), `print` writes a line and its end apart.
    os.write(1, json.dumps(globals()[name](*arguments)).encode() + b"\\n")

for line in sys.stdin:
    processes = [forked.start(lambda: answer(*question)) for question in json.loads(line)]
    print(json.dumps({"ended": [forked.end(process) for process in processes]}), flush=True)
"""
Ask = Callable[..., list[Any]]


@pytest.fixture(scope="module")
def ask() -> Iterator[Ask]:
    """Yield a function that returns the answers of new processes, all at once; their warnings are
    errors. They are forked from one that has imported everything and started nothing."""
    command = [sys.executable, "-W", "error", "-c", PROCESSES]
    surroundings = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=Path(__file__).parents[3], env=surroundings, **pipes) as source:

        def answers(*questions: tuple[Any, ...]) -> list[Any]:
            print(json.dumps(questions, default=str), file=source.stdin, flush=True)
            lines: list[Any] = []
            while "ended" not in (line := json.loads(source.stdout.readline())):
                lines.append(line)
            assert line == {"ended": [0] * len(questions)}
            return lines

        yield answers


def programs(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.glob("*-cache")}


def compiled(cache: Path, ask: Ask) -> int:
    """Return the number of programs that a process had to compile."""
    [[misses, _]] = ask(("few", cache))
    return int(misses)


def test_a_partly_written_program_is_compiled_and_kept_again(tmp_path: Path, ask: Ask) -> None:
    assert compiled(tmp_path, ask) > 0
    whole = programs(tmp_path)
    assert compiled(tmp_path, ask) == 0
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content[: len(content) // 2])
    assert compiled(tmp_path, ask) == len(whole)
    assert programs(tmp_path).keys() == whole.keys()
    assert compiled(tmp_path, ask) == 0


def test_an_empty_program_is_removed_and_another_compression_is_accepted(tmp_path: Path) -> None:
    from forecaster.model.fitting import jax_setup

    (tmp_path / "empty-cache").touch()
    (tmp_path / "zstd-cache").write_bytes(b"\x28\xb5\x2f\xfd...")
    jax_setup._drop_damaged(tmp_path)
    assert programs(tmp_path).keys() == {"zstd-cache"}


def many(cache: Path, ask: Ask, megabytes: int = 100) -> tuple[int, int]:
    """Return the programs compiled and found by a process that needs a dozen of them, in a folder
    with a size limit."""
    [[misses, hits]] = ask(("many", cache, megabytes))
    return misses, hits


def test_processes_that_share_a_folder_leave_complete_programs(tmp_path: Path, ask: Ask) -> None:
    whole = {sum(counts) for counts in ask(*[("many", tmp_path, 100)] * 3)}
    assert len(whole) == 1  # each needed as many programs
    misses, hits = many(tmp_path, ask)
    assert (misses, hits) == (0, whole.pop())
    assert {path.name.removesuffix("-atime") for path in tmp_path.glob("*-atime")} == {
        path.name.removesuffix("-cache") for path in tmp_path.glob("*-cache")
    }


def test_a_folder_from_before_size_limits_is_still_used_and_written(tmp_path: Path, ask: Ask) -> None:
    assert many(tmp_path, ask)[0] > 0
    for note in tmp_path.glob("*-atime"):
        note.unlink()
    gone = next(tmp_path.glob("*-cache"))
    gone.unlink()
    assert many(tmp_path, ask)[0] == 1
    assert gone.exists()


def test_jax_keeps_the_folder_below_its_size_limit(tmp_path: Path, ask: Ask) -> None:
    old = tmp_path / "jit_old-0-cache"
    old.write_bytes(b"\x28" + bytes(1_000_000))
    os.utime(old, (1e9, 1e9))
    assert many(tmp_path, ask, 1)[0] > 0
    assert not old.exists()
    assert sum(path.stat().st_size for path in tmp_path.glob("*-cache")) < 1_000_000


def test_entries_that_are_not_files_are_removed_without_blocking(tmp_path: Path, ask: Ask) -> None:
    assert compiled(tmp_path, ask) > 0
    names = [*programs(tmp_path)]
    for name in names:
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
    assert compiled(tmp_path, ask) == len(names)
    assert {*programs(tmp_path)} == {*names}


@pytest.mark.parametrize("damage", ["no folder", "locked for ever", "never answers"])
def test_without_a_usable_folder_programs_are_compiled_but_not_kept(tmp_path: Path, damage: str, ask: Ask) -> None:
    (state := tmp_path / "var").mkdir()
    if damage == "no folder":
        (state / "jax_cache").write_text("", "utf-8")
    else:
        (state / "jax_cache").mkdir()
        os.mkfifo(state / "jax_cache" / "pipe")
    lock = FileLock(state / "jax_cache" / ".lockfile") if damage == "locked for ever" else nullcontext()
    with lock:
        [[sentence, answer]] = ask(("without_a_cache", pipeline(tmp_path), damage))
    assert sentence.startswith(f"compiled programs of this night are not kept: {state / 'jax_cache'} cannot be used (")
    assert answer == 3.0


def test_an_unreachable_shared_folder_costs_a_night_only_the_time_to_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jax

    from forecaster.config import load
    from forecaster.model.fitting import jax_setup

    changed = {name: jax.config.values[name] for name in SETTINGS}
    monkeypatch.delenv("JAX_COMPILATION_CACHE_DIR")
    (tmp_path / "mount").write_text("no folder")
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "name: fleet\ndemand: {source: {kind: csv, path: demand.csv}}\nexecution: {compile_cache: mount}\n", "utf-8"
    )
    spec = load(file)
    try:
        sentence = jax_setup.configure_for(spec)
        assert jax.config.values["jax_compilation_cache_dir"] == str(spec.paths.jax_cache)
    finally:
        for name, value in changed.items():
            jax.config.update(name, value)
    assert sentence is not None
    assert sentence.startswith(f"execution.compile_cache: {tmp_path / 'mount'} cannot be used (")
