"""Parent watch: a process that works for another one ends when that one is gone, however it
went."""

from __future__ import annotations

import os
import threading

PARENT = "FORECASTER_PARENT"
"""Environment variable: the process id of whom this process works for, and nobody else."""


def environment() -> dict[str, str]:
    """This process's environment for a child that is to end with it."""
    return {**os.environ, PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """End this process as soon as its parent is gone.

    Does nothing in a process that was started by anybody else than the parent whom the environment
    names.
    """
    parent = os.environ.pop(PARENT, None)  # its own children have another
    if parent is not None:
        end_with(int(parent))


def end_with(parent: int) -> None:
    """End this process, from a thread and without any more ado, as soon as its parent is another
    than this one."""

    def watch() -> None:
        pause = threading.Event()
        while os.getppid() == parent:
            pause.wait(1)
        os._exit(1)

    threading.Thread(target=watch, name="watches its parent", daemon=True).start()
