"""Artifacts on disk: write files and folders atomically, and compute the SHA-256 of their content."""

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
    """Yield a hidden path next to `target` for a new file; rename it to `target` when the block
    ends, or remove it if the block raises.

    With `durable`, the content is flushed to disk before the rename. Creates the folder of
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
    """Yield a hidden path for a new folder, as `writing` does for a file: `target` must not exist,
    or be empty."""
    target.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield new
        new.chmod(0o755)
        new.replace(target)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def write(target: Path, content: bytes, *, durable: bool = False) -> None:
    """Write a file atomically."""
    with writing(target, durable=durable) as new:
        new.write_bytes(content)


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def digest(content: bytes) -> str:
    """Return the SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file of any size. Raises OSError if it cannot be read."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def differences(actual: Mapping[str, str], expected: Mapping[str, str]) -> Iterator[tuple[str, str | None, str | None]]:
    """Yield name, actual digest and expected digest of each file that differs, by name; None for a
    missing file."""
    for name in sorted(actual.keys() | expected.keys()):
        if actual.get(name) != expected.get(name):
            yield name, actual.get(name), expected.get(name)
