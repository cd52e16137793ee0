"""JAX setup: the persistent compilation cache, compiler options, and a count of compilations."""

from __future__ import annotations

import hashlib
import os
import platform
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import jax
from filelock import FileLock

from forecaster.config import Spec
from forecaster.core.language import N_
from forecaster.core.language.sentences import joined, sentence
from forecaster.core.time_limits import call_within
from forecaster.errors import TimeLimitExceeded
from forecaster.model.network import gru_cpu

FOLDER = "JAX_COMPILATION_CACHE_DIR"
"""JAX's own variable: its folder overrides that of the pipeline file, and pipelines may share it."""
LOOKING = 60.0  # seconds for a folder to respond
LOCK_SECONDS = 10.0  # seconds that a process waits for another's lock, as in JAX
_NOTE_BYTES = 8
_COMPILE = "/jax/core/compile/backend_compile_duration"
_HIT = "/jax/compilation_cache/cache_hits"
_MISS = "/jax/compilation_cache/cache_misses"
_CHECKED = "checked"  # empty file whose time is that of the last check of the programs next to it
_ZLIB = b"\x78"


def configure_for(spec: Spec) -> str | None:
    """Configure the folder of the pipeline file. Return a sentence about any fault: a folder that
    is unusable or does not respond costs a night only the time to compile, with the state's own
    folder as a fallback, or none."""
    faults: dict[Path, Exception] = {}
    fallbacks = () if os.environ.get(FOLDER) else (spec.paths.jax_cache,)
    for cache in dict.fromkeys((cache_folder(spec), *fallbacks)):
        look = partial(configure, cache, megabytes=spec.retention.compile_cache_mb)
        try:
            call_within(LOOKING, look, "it")
        except (OSError, TimeLimitExceeded) as error:
            faults[cache] = error
            continue
        if not faults:
            return None
        [fault] = faults.values()
        template = N_("{setting} cannot be used ({fault}): compiled programs of this night are kept in {folder}")
        setting = f"execution.compile_cache: {spec.compile_cache}"
        return sentence(template, setting=setting, fault=fault, folder=cache)
    update: Any = jax.config.update  # it has no types
    update("jax_compilation_cache_dir", None)
    template = N_("{folder} cannot be used ({fault})")
    of_folders = joined(sentence(template, folder=cache, fault=error) for cache, error in faults.items())
    return sentence(N_("compiled programs of this night are not kept: {faults}"), faults=of_folders)


def cache_folder(spec: Spec) -> Path:
    """Return the folder of this machine's programs. A folder shared by machines has a subfolder for
    each kind of processor, because their instruction sets differ."""
    if folder := os.environ.get(FOLDER):
        return Path(folder)
    if spec.execution.compile_cache is None:
        return spec.paths.jax_cache
    kind = hashlib.sha256(gru_cpu.processor().encode()).hexdigest()[:12]
    return spec.compile_cache / f"{platform.machine()}-{kind}"


def configure(cache: Path, *, megabytes: int | None = None) -> None:
    """Configure the persistent compilation cache: keep compiled programs in a folder, so that the
    second night compiles nothing.

    By default, JAX keeps only programs that took over a second to compile, which is almost none
    here. With `megabytes`, JAX removes the least recently used programs before the folder exceeds
    that size, and locks the folder while it reads and writes, so that several machines may share
    it. A folder from JAX's own `JAX_COMPILATION_CACHE_DIR` has only the limit of
    `JAX_COMPILATION_CACHE_MAX_SIZE`. Raises OSError if the folder cannot be written.
    """
    if folder := os.environ.get(FOLDER):
        cache, megabytes = Path(folder), None
    cache.mkdir(parents=True, exist_ok=True)
    update: Any = jax.config.update  # it has no types
    if megabytes is None:
        _drop_damaged(cache)
    else:
        # a program that another process is writing is not damaged
        with FileLock(cache / ".lockfile", timeout=LOCK_SECONDS):
            _drop_damaged(cache)
            _note_last_uses(cache)
        update("jax_compilation_cache_max_size", megabytes * 10**6)
    update("jax_compilation_cache_dir", str(cache))
    update("jax_persistent_cache_min_compile_time_secs", 0.0)
    update("jax_persistent_cache_min_entry_size_bytes", -1)
    # JAX would add the folder's path to a GPU's compiler options, which are part of a program's
    # key.
    update("jax_persistent_cache_enable_xla_caches", "none")


def _note_last_uses(cache: Path) -> None:
    """Write the missing time of last use of each program: JAX fails to write next to a program
    without one. Such programs are older than the size limit, or come from a killed process."""
    for program in cache.glob("*-cache"):
        note = program.with_name(f"{program.name.removesuffix('-cache')}-atime")
        if not note.exists() or note.stat().st_size != _NOTE_BYTES:
            note.write_bytes(program.stat().st_mtime_ns.to_bytes(_NOTE_BYTES, "little"))
    for note in cache.glob("*-atime"):
        if not note.with_name(f"{note.name.removesuffix('-atime')}-cache").exists():
            note.unlink(missing_ok=True)


def _drop_damaged(cache: Path) -> None:
    """Remove programs that a killed process left partly written: JAX warns about each whenever it
    is needed, compiles it, and never rewrites it. Programs that were whole at the last check are
    skipped, as are entries that are not files, because reading them could block."""
    marker = cache / _CHECKED
    since = marker.stat().st_mtime_ns if marker.exists() else 0
    marker.touch()  # before the check: programs written meanwhile are checked next time
    for program in cache.glob("*-cache"):
        with suppress(OSError):  # another process may clean up at the same time
            if not program.is_file() or (program.stat().st_mtime_ns >= since and not _whole(program.read_bytes())):
                program.unlink()


def _whole(content: bytes) -> bool:
    """Return True if a program is complete; a format other than zlib is assumed to be."""
    if content[:1] != _ZLIB:
        return bool(content)
    stream = zlib.decompressobj()
    try:
        stream.decompress(content)
    except zlib.error:
        return False
    return stream.eof


def compiler_effort(level: int) -> dict[str, bool | int | str] | None:
    """Return `compiler_options` of `jax.jit`: LLVM's optimization level on a CPU, 0 to 3.

    Measured on 2 cores: at level 1, an epoch of training compiles in two thirds of the time of
    level 3, the default, and runs as fast; at level 0 it runs four times slower, but compiles six
    times faster, which suits programs that run once. If the cores are devices, a program has one
    thread on each: with XLA's own threads in addition, a product could wait for a core that waits
    for the product's device, a deadlock.
    """
    if jax.config.values["jax_disable_most_optimizations"] or jax.default_backend() != "cpu":
        return None
    alone = {"xla_cpu_multi_thread_eigen": False} if jax.local_device_count() > 1 else {}
    return {"xla_backend_optimization_level": level, **alone}


@dataclass
class Compilations:
    """Programs compiled while `count_compilations` was open, including cache hits."""

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)


@contextmanager
def count_compilations() -> Iterator[Compilations]:
    """Count the compile events of this process while the block runs."""
    compilations = Compilations()

    # JAX calls listeners with these argument names.
    def on_event(event: str, **_: str | int) -> None:
        compilations.hits += event == _HIT
        compilations.misses += event == _MISS

    def on_duration(event: str, duration_secs: float, **_: str | int) -> None:
        if event == _COMPILE:
            compilations.seconds += duration_secs

    jax.monitoring.register_event_listener(on_event)
    jax.monitoring.register_event_duration_secs_listener(on_duration)
    try:
        yield compilations
    finally:
        jax.monitoring.unregister_event_listener(on_event)
        jax.monitoring.unregister_event_duration_listener(on_duration)
