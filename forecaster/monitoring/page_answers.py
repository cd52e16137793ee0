"""Hourly counts of failed and slow responses of the page, for its service level objectives without
Prometheus.

The page's process counts, and once a minute writes its hours into its own file in the state folder;
readers add up the files. This needs neither a lock nor the ledger: a count that is a minute late
does no harm.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from forecaster.core import artifact

SLOW_SECONDS = 0.2
KEPT = timedelta(days=28)
WRITE_SECONDS = 60.0
LIMITED = 429  # status of rate-limited requests, which are not counted


@dataclass(frozen=True)
class Answers:
    """Counted responses: the total, our errors among them, and those that took longer than
    `SLOW_SECONDS`."""

    total: int = 0
    errors: int = 0
    slow: int = 0

    def __add__(self, other: Answers) -> Answers:
        return Answers(self.total + other.total, self.errors + other.errors, self.slow + other.slow)


class AnswerLog:
    """The hours that one process counts, in its file, which it continues after a restart.
    Thread-safe."""

    def __init__(self, file: Path) -> None:
        self._file, self._lock = file, threading.Lock()
        self._hours = dict(_read(file))
        self._changed = False

    def count(self, now: datetime, status: int, seconds: float) -> None:
        """Count one response."""
        if status == LIMITED:
            return
        hour = f"{now:%Y-%m-%dT%H}"
        with self._lock:
            more = Answers(1, int(status >= 500), int(seconds > SLOW_SECONDS))
            self._hours[hour] = self._hours.get(hour, Answers()) + more
            self._changed = True

    def write(self, now: datetime) -> None:
        """Write changes, and drop hours past the retention. If the disk is full, the next write
        catches up."""
        first = f"{now - KEPT:%Y-%m-%dT%H}"
        with self._lock:
            if not self._changed:
                return
            self._hours = {hour: answers for hour, answers in self._hours.items() if hour >= first}
            content = {hour: [answers.total, answers.errors, answers.slow] for hour, answers in self._hours.items()}
            self._changed = False
        with suppress(OSError):
            artifact.write(self._file, json.dumps(content).encode())


@contextmanager
def written_regularly(logs: Iterable[AnswerLog]) -> Iterator[None]:
    """Write logs once a minute from a thread while the block runs, and once more at the end."""
    every, stop = tuple(logs), threading.Event()

    def write() -> None:
        for log in every:
            log.write(datetime.now(UTC))

    def work() -> None:
        while not stop.wait(WRITE_SECONDS):
            write()

    if every:
        threading.Thread(target=work, name="writes down how the page answers", daemon=True).start()
    try:
        yield
    finally:
        stop.set()
        write()


def between(folder: Path, since: datetime, until: datetime) -> Answers:
    """Return the counts of all pages in the hours between two instants, in UTC."""
    first, last = f"{since:%Y-%m-%dT%H}", f"{until:%Y-%m-%dT%H}"
    answers = Answers()
    for file in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        for hour, hour_answers in _read(file).items():
            if first <= hour <= last:
                answers = answers + hour_answers
    return answers


def _read(file: Path) -> Mapping[str, Answers]:
    """Return the hours of a file; empty if it is missing or damaged."""
    try:
        content = json.loads(file.read_text("utf-8"))
        return {str(hour): Answers(*map(int, counts)) for hour, counts in content.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
