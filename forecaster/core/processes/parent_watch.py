"""Parent watch: end a worker process when its parent is gone, for whatever reason."""

from __future__ import annotations

import os
import threading

PARENT = "FORECASTER_PARENT"
"""Environment variable: process id of the parent that this process works for, and of no other."""


def environment() -> dict[str, str]:
    """Return this process's environment, for a child that must end with it."""
    return {**os.environ, PARENT: str(os.getpid())}


def end_with_parent() -> None:
    """End this process as soon as its parent is gone.

    Does nothing if the environment names no parent.
    """
    parent = os.environ.pop(PARENT, None)  # must not reach its own children, whose parent is another
    if parent is not None:
        end_with(int(parent))


def end_with(parent: int) -> None:
    """End this process, from a thread and without cleanup, as soon as its parent is not `parent`."""

    def watch() -> None:
        pause = threading.Event()
        while os.getppid() == parent:
            pause.wait(1)
        os._exit(1)

    threading.Thread(target=watch, name="watches its parent", daemon=True).start()
