"""Resources made once per test session: by the first worker that needs one, while the others wait
for it.

Use it only for resources that are the same wherever they are made, and never for the subject of a
test: such a test makes its own.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "TESTS_SHARED"  # names the folder to all workers, and to the programs that tests start


def folder(name: str) -> Path:
    """Return a folder that all workers see, removed with the session."""
    if VARIABLE not in os.environ:  # in a benchmark, for example
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="forecaster-shared-")
        atexit.register(shutil.rmtree, os.environ[VARIABLE], ignore_errors=True)
    path = Path(os.environ[VARIABLE]) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """Lock the folder of this name for one worker at a time."""
    path = folder(name)
    with (path.with_name(f"{name}.lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


def content(name: str, make: Callable[[], bytes]) -> bytes:
    """Return the content that `make` produced for the first caller."""
    with locked(name) as path:
        file = path / "content"
        if not file.exists():
            temporary = path / "new"
            temporary.write_bytes(make())
            temporary.rename(file)
        return file.read_bytes()


def tree(name: str, make: Callable[[Path], None]) -> Path:
    """Return a folder as `make` filled it for the first caller; copy it before any change."""
    with locked(name) as path:
        if not (path / "made").exists():
            shutil.rmtree(path / "tree", ignore_errors=True)
            (path / "tree").mkdir()
            make(path / "tree")
            (path / "made").touch()
    return path / "tree"


def copy(name: str, make: Callable[[Path], None], folder: Path) -> None:
    """Copy that folder into another one, which may exist already."""
    shutil.copytree(tree(name, make), folder, dirs_exist_ok=True)


def digest(*words: object) -> str:
    """Return a name derived from these words."""
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]
