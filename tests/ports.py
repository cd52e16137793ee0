"""Ports for servers that tests start, reserved for the process that asked.

They are below the range from which the system assigns ports to connections and servers, and a lock
reserves each for the process that asked, for its lifetime.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import socket
import tempfile
from contextlib import ExitStack
from pathlib import Path

FIRST, LAST = 20_000, 30_000
_locks = ExitStack()
atexit.register(_locks.close)


def free_port() -> int:
    start = os.getpid() * 37 % (LAST - FIRST)  # so that processes rarely try the same ones
    for step in range(LAST - FIRST):
        port = FIRST + (start + step) % (LAST - FIRST)
        if _is_kept(port):
            return port
    raise RuntimeError(f"found no free port from {FIRST} to {LAST}")


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


def _is_kept(port: int) -> bool:
    """Reserve a port, unless another process reserves or uses it."""
    lock = (Path(tempfile.gettempdir()) / f"forecaster-tests-port-{port}").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        lock.close()
        return False
    _locks.enter_context(lock)
    return True
