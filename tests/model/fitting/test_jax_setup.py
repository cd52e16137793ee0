"""Compiled programs are kept in a folder, from which a killed process takes nothing for good."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
