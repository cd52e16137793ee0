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


def child(work: Callable[[], object], after: float | None = None) -> int:
    """Do some work in a forked process, which may be killed after some seconds; how it ended."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if after is not None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
