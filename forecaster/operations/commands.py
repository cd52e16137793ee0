"""Commands of this installation in separate processes, for pages that start them: a run in the
background, and commands that are waited for."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path

from forecaster.core.processes import parent_watch

COMMAND = (sys.executable, "-m", "forecaster")


class NightProcess:
    """A run in a separate process, one at a time. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def begin(
        self, file: Path, log: Path, *options: str, environment: Mapping[str, str] | None = None, outlives: bool = False
    ) -> bool:
        """Start a run of this pipeline file, unless one is at work; return true if it was started.

        The log is truncated. A run that `outlives` this process is not stopped with it.
        """
        with self._lock:
            if self.runs:
                return False
            log.parent.mkdir(parents=True, exist_ok=True)
            inherited = dict(os.environ) if outlives else parent_watch.environment()
            with log.open("wb") as out:
                self._process = subprocess.Popen(
                    [*COMMAND, "run", file.name, *options],
                    cwd=file.parent,
                    env={**inherited, **(environment or {})},
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=out,
                    start_new_session=outlives,
                )
            return True

    @property
    def runs(self) -> bool:
        """Return true while the run is at work."""
        return self._process is not None and self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """Exit code of the last finished run; None if none was started, or one is at work."""
        return self._process.poll() if self._process else None

    def stop(self) -> None:
        """Terminate the run."""
        if self._process is not None and self.runs:
            self._process.terminate()


def output(*arguments: str, folder: Path, seconds: float) -> tuple[int, str]:
    """Exit code of a command, and its output, or its error message if it failed. A command that
    takes longer is killed; its code is 124."""
    try:
        process = subprocess.run(
            [*COMMAND, *arguments],
            cwd=folder,
            env=parent_watch.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return 124, f"`forecaster {arguments[0]}` was ended: it took longer than {seconds:g} s"
    printed = process.stdout if process.returncode == 0 else process.stderr or process.stdout
    return process.returncode, printed.strip().removeprefix("forecaster: ")
