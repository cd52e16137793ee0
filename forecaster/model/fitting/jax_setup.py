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
"""JAX's own variable: pipelines may share the folder that it names, whatever their files say."""
LOOKING = 60.0  # seconds that a folder may take to answer
LOCK_SECONDS = 10.0  # how long a process waits for another's lock, as JAX does
_NOTE_BYTES = 8
_COMPILE = "/jax/core/compile/backend_compile_duration"
_HIT = "/jax/compilation_cache/cache_hits"
_MISS = "/jax/compilation_cache/cache_misses"
_CHECKED = "checked"  # a file, as old as the last look at the programs next to it
_ZLIB = b"\x78"


def configure_for(spec: Spec) -> str | None:
    """`configure` the folder that the pipeline file names; what went wrong, as a sentence: one that
    cannot be used, or does not answer, costs a night only the time to compile, into the state's own
    folder or into none."""
    faults: dict[Path, Exception] = {}
    others = () if os.environ.get(FOLDER) else (spec.paths.jax_cache,)
    for cache in dict.fromkeys((cache_folder(spec), *others)):
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
    update: Any = jax.config.update  # which has no types
    update("jax_compilation_cache_dir", None)
    template = N_("{folder} cannot be used ({fault})")
    of_folders = joined(sentence(template, folder=cache, fault=error) for cache, error in faults.items())
    return sentence(N_("compiled programs of this night are not kept: {faults}"), faults=of_folders)


def cache_folder(spec: Spec) -> Path:
    """Folder of this machine's programs: in a folder that machines share, next to those of other
    kinds of processors, whose instructions this one may not have."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    if spec.execution.compile_cache is None:
        return spec.paths.jax_cache
    kind = hashlib.sha256(gru_cpu.processor().encode()).hexdigest()[:12]
    return spec.compile_cache / f"{platform.machine()}-{kind}"


def configure(cache: Path, *, megabytes: int | None = None) -> None:
    """Persistent compilation cache: keep compiled programs in a folder, so that the second night
    compiles nothing.

    JAX's own default keeps only what took over a second to compile, which is almost nothing here.
    With `megabytes` JAX drops what was not used for longest before the folder grows beyond them,
    and locks it while it reads and writes, so that several machines may. Another folder that JAX's
    own `JAX_COMPILATION_CACHE_DIR` names has only the bounds that JAX's
    `JAX_COMPILATION_CACHE_MAX_SIZE` gives it. Raises OSError where the folder cannot be written.
    """
    if named := os.environ.get(FOLDER):
        cache, megabytes = Path(named), None
    cache.mkdir(parents=True, exist_ok=True)
    update: Any = jax.config.update  # which has no types
    if megabytes is None:
        _drop_damaged(cache)
    else:
        # what another process writes just now is not damaged
        with FileLock(cache / ".lockfile", timeout=LOCK_SECONDS):
            _drop_damaged(cache)
            _note_last_uses(cache)
        update("jax_compilation_cache_max_size", megabytes * 10**6)
    update("jax_compilation_cache_dir", str(cache))
    update("jax_persistent_cache_min_compile_time_secs", 0.0)
    update("jax_persistent_cache_min_entry_size_bytes", -1)
    # JAX would put the folder's path among a GPU's compiler options, by which programs are found
    # again.
    update("jax_persistent_cache_enable_xla_caches", "none")


def _note_last_uses(cache: Path) -> None:
    """Note of each program when it was last used, where no note is: JAX writes nothing next to one
    without. Those are of before there were bounds, or of a process that was killed."""
    for program in cache.glob("*-cache"):
        note = program.with_name(f"{program.name.removesuffix('-cache')}-atime")
        if not note.exists() or note.stat().st_size != _NOTE_BYTES:
            note.write_bytes(program.stat().st_mtime_ns.to_bytes(_NOTE_BYTES, "little"))
    for note in cache.glob("*-atime"):
        if not note.with_name(f"{note.name.removesuffix('-atime')}-cache").exists():
            note.unlink(missing_ok=True)


def _drop_damaged(cache: Path) -> None:
    """Drop programs that a killed process left half written: JAX warns of each whenever it is
    wanted, compiles it, and never writes it anew. What was whole the last time is not looked at
    again, and what is no file would be waited for.
    """
    marker = cache / _CHECKED
    since = marker.stat().st_mtime_ns if marker.exists() else 0
    marker.touch()  # before looking: what is written meanwhile is for the next time
    for program in cache.glob("*-cache"):
        with suppress(OSError):  # another process may tidy too
            if not program.is_file() or (program.stat().st_mtime_ns >= since and not _whole(program.read_bytes())):
                program.unlink()


def _whole(content: bytes) -> bool:
    """True if a program ends where its writer meant it to; what is packed in another way than
    zlib's is believed."""
    if content[:1] != _ZLIB:
        return bool(content)
    stream = zlib.decompressobj()
    try:
        stream.decompress(content)
    except zlib.error:
        return False
    return stream.eof


def compiler_effort(level: int) -> dict[str, bool | int | str] | None:
    """`compiler_options` of `jax.jit`: how hard LLVM tries on a CPU, 0 to 3.

    Measured on 2 cores: at 1 an epoch of training compiles in two thirds of the time that 3, the
    default, takes, and runs as fast; at 0 it runs four times slower, but what runs once is there
    six times sooner. Where the cores are devices, a program has one thread on each: with XLA's own
    threads next to them, a product may wait for a core that waits for the product's device, for
    ever.
    """
    if jax.config.values["jax_disable_most_optimizations"] or jax.default_backend() != "cpu":
        return None
    alone = {"xla_cpu_multi_thread_eigen": False} if jax.local_device_count() > 1 else {}
    return {"xla_backend_optimization_level": level, **alone}


@dataclass
class Compilations:
    """Programs compiled while `count_compilations` was open: cache hits pass through the compiler's
    door too."""

    hits: int = 0
    misses: int = 0
    seconds: float = 0.0
    started: float = field(default_factory=time.monotonic)


@contextmanager
def count_compilations() -> Iterator[Compilations]:
    """Count compile events of this process."""
    compilations = Compilations()

    # JAX calls listeners by these names.
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
