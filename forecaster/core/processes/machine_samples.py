"""Samples of the machine during a run: processor load, and memory in use.

Names and units are those of MLflow's system metrics. Read from Linux's /proc; elsewhere there are
no samples.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PROC = Path("/proc")
SECONDS = 1.0  # from one sample to the next, initially
# samples; beyond that, every second one is dropped and the interval is doubled
MOST = 240
Sample = dict[str, float]


class MachineSamples:
    """Sampler with its own thread, which runs inside `taken`."""

    def __init__(self, proc: Path = PROC) -> None:
        self._proc, self._every, self._ends = proc, SECONDS, threading.Event()
        self._samples: list[Sample] = []
        self._last = self._ticks()

    @contextmanager
    def taken(self) -> Iterator[None]:
        """Take samples until the block ends."""
        thread = threading.Thread(target=self._take_all, name="machine samples", daemon=True)
        if self._last is not None:
            thread.start()
        try:
            yield
        finally:
            self._ends.set()
            if thread.is_alive():
                thread.join(SECONDS)

    def so_far(self) -> tuple[Sample, ...]:
        """Return the samples, oldest first; `at` is in seconds since 1970, the others are percent
        and megabytes."""
        return tuple(self._samples)

    def take(self) -> None:
        """Take one sample now. Raises OSError if /proc cannot be read."""
        sample: Sample = {"at": time.time(), **self._memory()}
        ticks, last = self._ticks(), self._last
        if ticks is not None and last is not None and ticks[1] > last[1]:
            sample["cpu_utilization_percentage"] = 100 * (1 - (ticks[0] - last[0]) / (ticks[1] - last[1]))
            self._last = ticks
        samples = [*self._samples, sample]
        if len(samples) > MOST:
            samples, self._every = samples[::2], 2 * self._every
        self._samples = samples

    def _take_all(self) -> None:
        while not self._ends.wait(self._every):
            try:
                self.take()
            except (OSError, ValueError):
                return

    def _ticks(self) -> tuple[float, float] | None:
        """Return the idle ticks and the total ticks of all processors since boot; None if they
        cannot be read."""
        try:
            head = (self._proc / "stat").read_text().partition("\n")[0].split()
            ticks = [float(word) for word in head[1:9]]
        except (OSError, ValueError):
            return None
        return ticks[3] + ticks[4], sum(ticks)

    def _memory(self) -> Sample:
        content = (self._proc / "meminfo").read_text()
        kilobytes = {name: float(number) for name, number in re.findall(r"(?m)^(\w+):\s+(\d+) kB", content)}
        total = kilobytes["MemTotal"]
        used = total - kilobytes.get("MemAvailable", total)
        return {
            "system_memory_usage_megabytes": used / 1024,
            "system_memory_usage_percentage": 100 * used / total,
        }
