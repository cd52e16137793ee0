"""What is made once for a whole test session: by the first worker that needs it, while the others wait for it.

Only what comes out the same wherever it is made belongs here, and nothing that a test is about: such a test makes its
own.
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
    """A folder that all workers see, gone with the session."""
    if VARIABLE not in os.environ:  # a benchmark, say
        os.environ[VARIABLE] = tempfile.mkdtemp(prefix="forecaster-shared-")
        atexit.register(shutil.rmtree, os.environ[VARIABLE], ignore_errors=True)
    path = Path(os.environ[VARIABLE]) / name
    path.mkdir(parents=True, exist_ok=True)
    return path


@contextmanager
def locked(name: str) -> Iterator[Path]:
    """The folder of this name, for one worker at a time."""
    path = folder(name)
    with (path.with_name(f"{name}.lock")).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield path


def content(name: str, make: Callable[[], bytes]) -> bytes:
    """What `make` gave to the first who asked."""
    with locked(name) as path:
        file = path / "content"
        if not file.exists():
            temporary = path / "new"
            temporary.write_bytes(make())
            temporary.rename(file)
        return file.read_bytes()


def tree(name: str, make: Callable[[Path], None]) -> Path:
    """A folder as `make` filled it for the first who asked; whoever changes something takes a copy."""
    with locked(name) as path:
        if not (path / "made").exists():
            shutil.rmtree(path / "tree", ignore_errors=True)
            (path / "tree").mkdir()
            make(path / "tree")
            (path / "made").touch()
    return path / "tree"


def copy(name: str, make: Callable[[Path], None], folder: Path) -> None:
    """Put a copy of that folder into another one, which may be there already."""
    shutil.copytree(tree(name, make), folder, dirs_exist_ok=True)


def digest(*words: object) -> str:
    """A name of what is made of these words."""
    return hashlib.sha256(repr(words).encode()).hexdigest()[:16]
