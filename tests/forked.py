"""Work done in a forked process, which may die of it or be killed.

Children are to be forked before any thread runs: by a program that a test starts, not by the test itself.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable


def die() -> None:
    """Be gone at once, as when a machine goes down."""
    os.kill(os.getpid(), signal.SIGKILL)


def start(work: Callable[[], object], on_fork: Callable[[int], object] = lambda _: None) -> int:
    """Begin some work in a forked process; its id, which `on_fork` hears before the work begins."""
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
    """How it ended."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def child(work: Callable[[], object], after: float | None = None) -> int:
    """Do some work in a forked process, which may be killed after some seconds; how it ended."""
    pid = start(work)
    if after is not None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    return end(pid)
