"""Process groups of parts: started so that a kill leaves no unknown process, and ended whole,
identified by PID and start time."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from forecaster.ledger import lease

GRACE = 20.0  # seconds for a process to stop by itself
_HELD = ("/bin/sh", "-c", 'read -r word && exec "$@" </dev/null', "sh")


def start_held(
    command: Sequence[str], log: Path, variables: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start a command in its own session, held until it is let go, so that it can be recorded
    first.

    It has this process's environment with the additional variables, and ends if this process ends
    before. Raises OSError.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        return subprocess.Popen(
            (*_HELD, *command),
            env={**os.environ, **(variables or {})},
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )


def free_port() -> int:
    """Return a currently unused port of this machine. Raises OSError."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def let_go(child: subprocess.Popen[bytes]) -> None:
    """Let a held command begin; if it was killed meanwhile, its exit code shows it."""
    with contextlib.suppress(OSError), child.stdin or contextlib.nullcontext() as pipe:
        if pipe is not None:
            pipe.write(b"go\n")


def lives(name: str | None) -> bool:
    """True if a process of this machine, named as in `lease.process_name`, exists."""
    return name is not None and lease.is_gone(name) is False


def group_lives(name: str) -> bool:
    """True if the session started by a process still has a process.

    The process ID is not reused while one of its group lives.
    """
    host, boot, pid, _ = name.split(" ")
    this_process = lease.process_name(os.getpid()).split(" ")
    if [host, boot] != this_process[:2]:
        return False
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(int(pid), 0)
        return lives(name) or lease.process_name(int(pid)).split(" ")[3] == ""
    return False


def kill(name: str) -> None:
    """Kill one process; its children live on."""
    if lives(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(lease.process_id(name), signal.SIGKILL)


def kill_group(name: str) -> None:
    if group_lives(name):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(lease.process_id(name), signal.SIGKILL)


def end_groups(names: Iterable[str], grace: float = GRACE) -> None:
    """Ask processes to stop (SIGINT, then SIGTERM), all at once, and kill the rest of their groups."""
    groups = [name for name in names if group_lives(name)]
    for number in (signal.SIGINT, signal.SIGTERM):
        for name in filter(lives, groups):
            with contextlib.suppress(ProcessLookupError):
                os.kill(lease.process_id(name), number)
        deadline = time.monotonic() + grace
        while any(map(lives, groups)) and time.monotonic() < deadline:
            time.sleep(0.05)
    for name in groups:
        kill_group(name)
