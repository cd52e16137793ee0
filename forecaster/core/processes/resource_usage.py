"""Peak memory and processor time of this process, as a run writes them into its ledger row."""

from __future__ import annotations

import re
import resource
import sys
import time
from pathlib import Path
from typing import Any

STATUS = Path("/proc/self/status")


def usage(process: str) -> dict[str, dict[str, float]]:
    """Resources used by this process so far, under the names of `metric_names.OF_RUNS`: bytes, and
    seconds of processor."""
    return {
        "peak_memory_bytes": {process: float(peak_memory())},
        "cpu_seconds": {process: time.process_time()},
    }


def peak_memory() -> int:
    """The most bytes of memory that this process ever held.

    Linux counts them anew with each program (VmHWM). `getrusage` does not: a child that was started
    by a large process would begin with what that one held.
    """
    try:
        peak = re.search(r"^VmHWM:\s+(\d+) kB", STATUS.read_text(), re.MULTILINE)
    except OSError:
        peak = None
    if peak is not None:
        return int(peak[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def merge(before: dict[str, Any] | None, measures: dict[str, Any]) -> dict[str, Any]:
    """Measures added to earlier ones: numbers replace numbers, mappings are put together."""
    merged = dict(before or {})
    for name, value in measures.items():
        merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
    return merged
