"""Compiled programs are kept in a folder, from which a killed process takes nothing for good."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

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
COMPILES = """
import sys
from pathlib import Path
import jax
from forecaster.model.fitting import jax_setup
jax_setup.configure(Path(sys.argv[1]))
with jax_setup.count_compilations() as compilations:
    jax.jit(lambda x: x + 1)(2.0)
print(compilations.misses)
"""


def programs(cache: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in cache.glob("*-cache")}


def compiled(cache: Path) -> int:
    """How many programs a process had to compile; its warnings are errors."""
    command = [sys.executable, "-W", "error", "-c", COMPILES, str(cache)]
    surroundings = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    process = subprocess.run(command, capture_output=True, text=True, check=False, env=surroundings)
    assert process.returncode == 0, process.stderr
    return int(process.stdout)


def test_a_program_that_was_half_written_is_compiled_and_kept_again(tmp_path: Path) -> None:
    assert compiled(tmp_path) > 0
    whole = programs(tmp_path)
    assert compiled(tmp_path) == 0
    for name, content in whole.items():
        (tmp_path / name).write_bytes(content[: len(content) // 2])
    assert compiled(tmp_path) == len(whole)
    assert programs(tmp_path).keys() == whole.keys()
    assert compiled(tmp_path) == 0


def test_an_empty_program_is_dropped_and_one_that_is_packed_otherwise_is_believed(tmp_path: Path) -> None:
    from forecaster.model.fitting import jax_setup

    (tmp_path / "empty-cache").touch()
    (tmp_path / "zstd-cache").write_bytes(b"\x28\xb5\x2f\xfd...")
    jax_setup._drop_damaged(tmp_path)
    assert programs(tmp_path).keys() == {"zstd-cache"}


MANY = """
import sys
from pathlib import Path
import jax
from forecaster.model.fitting import jax_setup
jax_setup.configure(Path(sys.argv[1]), megabytes=int(sys.argv[2]))
with jax_setup.count_compilations() as compilations:
    for number in range(12):
        jax.jit(lambda x, number=number: x * number + 1)(2.0)
print(compilations.misses, compilations.hits)
"""


def many(cache: Path, megabytes: int = 100) -> subprocess.Popen[str]:
    """Compiles a dozen programs into a folder with bounds; its warnings are errors."""
    command = [sys.executable, "-W", "error", "-c", MANY, str(cache), str(megabytes)]
    surroundings = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=surroundings)


def counts(process: subprocess.Popen[str]) -> tuple[int, int]:
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    misses, hits = map(int, out.split())
    return misses, hits


def test_processes_that_write_one_folder_at_once_leave_whole_programs(tmp_path: Path) -> None:
    together = [many(tmp_path) for _ in range(3)]
    whole = {sum(counts(process)) for process in together}
    assert len(whole) == 1  # each needed as many programs
    misses, hits = counts(many(tmp_path))
    assert (misses, hits) == (0, whole.pop())
    assert {path.name.removesuffix("-atime") for path in tmp_path.glob("*-atime")} == {
        path.name.removesuffix("-cache") for path in tmp_path.glob("*-cache")
    }


def test_a_folder_of_before_there_were_bounds_is_used_on_and_written(tmp_path: Path) -> None:
    assert counts(many(tmp_path))[0] > 0
    for note in tmp_path.glob("*-atime"):
        note.unlink()
    gone = next(tmp_path.glob("*-cache"))
    gone.unlink()
    assert counts(many(tmp_path))[0] == 1
    assert gone.exists()


def test_jax_keeps_the_folder_below_its_bound(tmp_path: Path) -> None:
    old = tmp_path / "jit_old-0-cache"
    old.write_bytes(b"\x28" + bytes(1_000_000))
    os.utime(old, (1e9, 1e9))
    assert counts(many(tmp_path, 1))[0] > 0
    assert not old.exists()
    assert sum(path.stat().st_size for path in tmp_path.glob("*-cache")) < 1_000_000


def test_what_is_no_file_among_the_programs_is_dropped_and_not_waited_for(tmp_path: Path) -> None:
    assert compiled(tmp_path) > 0
    names = [*programs(tmp_path)]
    for name in names:
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
    assert compiled(tmp_path) == len(names)
    assert {*programs(tmp_path)} == {*names}


@pytest.mark.parametrize("damage", ["no folder", "locked for ever", "never answers"])
def test_without_any_folder_that_can_be_used_programs_are_compiled_and_not_kept(tmp_path: Path, damage: str) -> None:
    (state := tmp_path / "var").mkdir()
    if damage == "no folder":
        (state / "jax_cache").write_text("", "utf-8")
    else:
        (state / "jax_cache").mkdir()
        os.mkfifo(state / "jax_cache" / "pipe")
    lock = FileLock(state / "jax_cache" / ".lockfile") if damage == "locked for ever" else nullcontext()
    with lock:
        process = without_a_cache(pipeline(tmp_path), damage)
    assert process.returncode == 0, process.stderr
    sentence, answer = process.stdout.splitlines()
    assert sentence.startswith(f"compiled programs of this night are not kept: {state / 'jax_cache'} cannot be used (")
    assert answer == "3.0"


def without_a_cache(file: Path, damage: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", NOT_KEPT, str(file), damage],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"},
        timeout=120,
    )


NOT_KEPT = """
import os, sys
from pathlib import Path
import jax
from forecaster.config import load
from forecaster.model.fitting import jax_setup
jax_setup.LOOKING, jax_setup.LOCK_SECONDS = 3.0, 0.3
if sys.argv[2] == "never answers":
    jax_setup._note_last_uses = lambda cache: os.open(cache / "pipe", os.O_RDONLY)
print(jax_setup.configure_for(load(Path(sys.argv[1]))))
print(float(jax.jit(lambda x: x + 1)(2.0)), flush=True)
os._exit(0)
"""


def test_a_shared_folder_that_is_away_costs_a_night_only_the_time_to_compile(
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
