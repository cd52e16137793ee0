"""Memory and processor time of this process, and merging of measures."""

from __future__ import annotations

import subprocess
import sys

from forecaster.core.processes import resource_usage

CHILD = "from forecaster.core.processes.resource_usage import peak_memory; print(peak_memory())"
PARENT = f"""
import subprocess, sys
ballast = b"x" * 300_000_000
print(subprocess.run([sys.executable, "-c", {CHILD!r}], capture_output=True, text=True, check=True).stdout)
"""


def test_the_peak_of_a_child_excludes_its_large_parent() -> None:
    peak = int(subprocess.run([sys.executable, "-c", PARENT], capture_output=True, text=True, check=True).stdout)
    assert 5_000_000 < peak < 100_000_000


def test_usage_is_in_bytes_and_processor_seconds() -> None:
    before = resource_usage.usage("night")
    sum(number * number for number in range(300_000))
    after = resource_usage.usage("night")
    assert after["cpu_seconds"]["night"] > before["cpu_seconds"]["night"]
    assert after["peak_memory_bytes"]["night"] >= before["peak_memory_bytes"]["night"] > 10_000_000


def test_measures_of_several_processes_are_merged() -> None:
    merged = resource_usage.merge({"peak": {"night": 1.0}, "hits": 3}, {"peak": {"training": 2.0}, "hits": 4})
    assert merged == {"peak": {"night": 1.0, "training": 2.0}, "hits": 4}
    assert resource_usage.merge(None, {"hits": 4}) == {"hits": 4}
