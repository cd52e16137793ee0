"""Progress bar of a night: stage, elapsed and remaining time; plain or JSON lines without a
terminal."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

from forecaster.core.metric_names import STAGES
from forecaster.core.terminal import escaped_lines

# seconds that count as run at the expected pace, so that short stages alone do not change it
STEADY = 30.0
LOG = "FORECASTER_LOG"
"""Environment variable: `json` makes each line an object with time, run_id, stage and message."""


class NightProgress:
    """Progress reporter: times stages and reports them on standard error.

    `expected` maps stages to their seconds on earlier nights; a missing one is estimated from
    `metric_names.STAGES`. `stages` are those that will run, by default all.
    """

    def __init__(
        self,
        expected: Mapping[str, float] | None = None,
        console: Console | None = None,
        *,
        run_id: str | None = None,
        stages: Collection[str] | None = None,
    ) -> None:
        earlier = expected or {}
        self.expected = {
            stage: earlier.get(stage, about.seconds)
            for stage, about in STAGES.items()
            if stages is None or stage in stages
        }
        self.timings: dict[str, float] = {}
        self._run_id = run_id
        self._as_json = os.environ.get(LOG) == "json"
        self.console = console or Console(stderr=True, highlight=False)
        self._begun = time.monotonic()
        self._stage: str | None = None
        self._stage_begun = 0.0
        # share and instant of the stage's first reported progress
        self._first: tuple[float, float] | None = None
        self._share = 0.0
        self._bar: Progress | None = None
        self._task: TaskID | None = None
        self._last_report = 0.0

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Run one stage; its seconds are in `timings` afterwards, even if it fails."""
        self._stage, self._stage_begun, self._share, self._first = name, time.monotonic(), 0.0, None
        self._report(STAGES[name].meaning)
        try:
            yield
        finally:
            self.timings[name] = self.timings.get(name, 0.0) + time.monotonic() - self._stage_begun
            self._stage = None
            self._report(f"{self.timings[name]:.1f} s", ended_stage=name)

    def advance(self, share: float, text: str) -> None:
        """Record the progress of the current stage, 0 to 1."""
        self._share = share
        self._first = self._first or (share, time.monotonic())
        if self._bar is not None or time.monotonic() - self._last_report > 5:
            self._report(text)

    def say(self, text: str) -> None:
        """Write a permanent line."""
        if self._as_json:
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            line = {"time": now, "run_id": self._run_id, "stage": self._stage, "message": text.strip()}
            self.console.file.write(json.dumps(line, ensure_ascii=False) + "\n")
            self.console.file.flush()
            return
        self.console.print(escaped_lines(text), markup=False, soft_wrap=True)

    @property
    def elapsed(self) -> float:
        return time.monotonic() - self._begun

    @property
    def remaining(self) -> float:
        """Remaining seconds: those of earlier nights, and longer if this night's stages have taken
        longer."""
        rest = sum(s for stage, s in self.expected.items() if stage not in self.timings and stage != self._stage)
        rest *= self._pace
        if self._stage is None:
            return rest
        now = time.monotonic()
        if self._first is not None and self._share > self._first[0]:
            # Measured from the first reported progress: the time before it is compilation, which
            # does not recur.
            share, since = self._first
            return rest + (now - since) * (1 - self._share) / (self._share - share)
        return rest + max(self._pace * self.expected.get(self._stage, 0.0) - (now - self._stage_begun), 0.0)

    @property
    def _pace(self) -> float:
        """Seconds of the ended stages per expected second, at least 1."""
        ended = self.timings.keys() & self.expected.keys()
        actual, expected = (
            STEADY + sum(seconds[stage] for stage in ended) for seconds in (self.timings, self.expected)
        )
        return max(actual / expected, 1.0)

    @contextmanager
    def live_bar(self) -> Iterator[None]:
        """Draw a bar inside the block if the console is a terminal."""
        if not self.console.is_terminal or self._as_json:
            yield
            return
        columns = (TextColumn("{task.fields[clock]}"), BarColumn(24), TextColumn("{task.description}", markup=False))
        with Progress(*columns, console=self.console, transient=True) as bar:
            self._bar, self._task = bar, bar.add_task("", total=1.0, clock="")
            try:
                yield
            finally:
                self._bar = None

    def _report(self, text: str, ended_stage: str | None = None) -> None:
        self._last_report = time.monotonic()
        clock = f"{_clock(self.elapsed)} elapsed, about {_clock(self.remaining)} left"
        if self._bar is not None and self._task is not None:
            total = self.elapsed + self.remaining
            label = ended_stage or self._stage or ""
            self._bar.update(
                self._task, completed=self.elapsed / max(total, 0.1), description=f"{label}: {text}", clock=clock
            )
        elif ended_stage is None:
            self.say(text if self._as_json else f"{clock}  {self._stage or '':9} {text}")


def _clock(seconds: float) -> str:
    return f"{int(seconds) // 60:02d}:{int(seconds) % 60:02d}"
