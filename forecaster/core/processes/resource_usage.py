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
    """Return the resources that this process has used so far, under the names of
    `metric_names.OF_RUNS`: bytes, and seconds of processor time."""
    return {
        "peak_memory_bytes": {process: float(peak_memory())},
        "cpu_seconds": {process: time.process_time()},
    }


def peak_memory() -> int:
    """Return the peak memory of this process in bytes.

    Linux resets it for each program (VmHWM), but not for `getrusage`: a child of a large process
    would start with the parent's peak.
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
    """Merge measures into earlier ones: numbers replace numbers, mappings are combined."""
    merged = dict(before or {})
    for name, value in measures.items():
        merged[name] = {**merged.get(name, {}), **value} if isinstance(value, dict) else value
    return merged
