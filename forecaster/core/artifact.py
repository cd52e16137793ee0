"""Artefacts on disk: files and folders that appear whole or not at all, and the SHA-256 of their
content."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def writing(target: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield a hidden path next to `target` for a new file; rename it when the block ends, remove it
    if that raises.

    With `durable` the content is on the disk before the file gets its name. Makes the folder of
    `target`.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.name}-", dir=target.parent)
    os.close(handle)
    new = Path(name)
    try:
        yield new
        new.chmod(0o644)
        if durable:
            sync(new)
        new.replace(target)
    finally:
        new.unlink(missing_ok=True)


@contextmanager
def writing_folder(target: Path) -> Iterator[Path]:
    """The same for a folder: `target` must not exist, or be empty."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield new
        new.chmod(0o755)
        new.replace(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def write(target: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file that appears whole or not at all."""
    with writing(target, durable=durable) as new:
        new.write_bytes(content)


def sync(path: Path) -> None:
    """Flush a file, or the names of a folder, to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def file_digest(file: Path) -> str:
    """SHA-256 of a file of any size. Raises OSError when it cannot be read."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def differences(actual: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    """Name, digest found and digest wanted of each file that differs, by name; None: no such
    file."""
    for name in sorted(actual.keys() | expected.keys()):
        if actual.get(name) != expected.get(name):
            yield name, actual.get(name), expected.get(name)
