"""Work in a forked process, which may die or be killed.

Fork children before any thread runs: from a program that a test starts, not from the test itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable


def die() -> None:
    """Exit at once, as if the machine went down."""
    os.kill(os.getpid(), signal.SIGKILL)


def start(work: Callable[[], object], on_fork: Callable[[int], object] = lambda _: None) -> int:
    """Start some work in a forked process and return its id, which is passed to `on_fork` before
    the work begins."""
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.read(ready, 1)
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    on_fork(pid)
    os.write(go, b".")
    os.close(go)
    os.close(ready)
    return pid


def end(pid: int) -> int:
    """Wait for a process and return its exit status."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def child(work: Callable[[], object], after: float | None = None) -> int:
    """Run some work in a forked process, kill it after some seconds if requested, and return its
    exit status."""
    pid = start(work)
    if after is not None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    return end(pid)
