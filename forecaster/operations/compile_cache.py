"""Bounds of a compilation cache: programs that nobody used for long go, then the least used, down to so many bytes.

JAX keeps each program as NAME-cache, and in NAME-atime when it was used last; while a process of JAX reads or writes,
it holds the lock `.lockfile` of the folder. A folder that machines share has one of these for each kind of processor.
"""

from __future__ import annotations

import fcntl
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

LOCK = ".lockfile"
LOCK_SECONDS = 10.0  # how long JAX, too, waits for it
_PROGRAM, _LAST_USE = "-cache", "-atime"
_NO_PROGRAMS = (LOCK, "checked")  # files that go with the folder


@dataclass(frozen=True)
class CachedProgram:
    """What is removed as one: a program, and the note of its last use."""

    files: tuple[Path, ...]
    used: float  # seconds since 1970
    size: int  # bytes


def tidy(cache: Path, *, before: datetime, most_bytes: int) -> int:
    """Remove programs last used before an instant, then the least recently used until `most_bytes` are left at the
    most; returns how many went. A folder that is not there, or cannot be read, has none."""
    with suppress(OSError):
        return sum(_tidy_folder(folder, before) for folder in _folders(cache)) + _shrink(cache, most_bytes)
    return 0


def programs(cache: Path) -> list[CachedProgram]:
    """All programs of a folder and of those in it, the least recently used first."""
    parts: dict[Path, list[Path]] = defaultdict(list)
    for file in cache.rglob("*"):
        if file.name not in _NO_PROGRAMS and file.is_file():
            parts[file.with_name(file.name.removesuffix(_PROGRAM).removesuffix(_LAST_USE))].append(file)
    found = []
    for files in parts.values():
        with suppress(OSError):  # another process may tidy too
            found.append(_program(tuple(files)))
    return sorted(found, key=lambda program: program.used)


def _program(files: tuple[Path, ...]) -> CachedProgram:
    used = max(file.stat().st_mtime for file in files)
    for note in (file for file in files if file.name.endswith(_LAST_USE)):
        used = int.from_bytes(note.read_bytes(), "little") / 1e9
    return CachedProgram(files, used, sum(file.stat().st_size for file in files))


def _folders(cache: Path) -> list[Path]:
    return [cache, *(path for path in cache.iterdir() if path.is_dir())] if cache.is_dir() else []


def _tidy_folder(folder: Path, before: datetime) -> int:
    with _locked(folder):
        here = [program for program in programs(folder) if program.files[0].parent == folder]
        # What JAX keeps deeper down, such as how it tuned programs of a GPU, goes with its own folder's turn.
        return _remove([program for program in here if program.used < before.timestamp()])


def _shrink(cache: Path, most_bytes: int) -> int:
    remaining = programs(cache)
    size, count = sum(program.size for program in remaining), 0
    for program in remaining:
        if size <= most_bytes:
            break
        with _locked(program.files[0].parent):
            count += _remove([program])
        size -= program.size
    return count


def _remove(expired: list[CachedProgram]) -> int:
    for program in expired:
        for file in program.files:
            file.unlink(missing_ok=True)
    return len(expired)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock that JAX takes; without it where nobody lets go of it in time, which then costs JAX a program."""
    if not (folder / LOCK).exists():
        yield
        return
    with (folder / LOCK).open("rb") as lock:
        waited_until = time.monotonic() + LOCK_SECONDS
        while time.monotonic() < waited_until:
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            time.sleep(0.05)
        yield
