"""Samples of the machine: processor load between two samples, memory in use, and a limited number
of samples."""

from __future__ import annotations

from pathlib import Path

import pytest

from forecaster.core.processes import machine_samples
from forecaster.core.processes.machine_samples import MachineSamples

MEMORY = "MemTotal:  4096 kB\nMemFree: 100 kB\nMemAvailable:  1024 kB\n"


def test_a_sample_measures_the_load_since_the_previous_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "meminfo").write_text(MEMORY)
    (tmp_path / "stat").write_text("cpu  10 0 10 80 0 0 0 0 0 0\ncpu0 1 1\n")
    samples = MachineSamples(tmp_path)
    (tmp_path / "stat").write_text("cpu  40 0 10 140 10 0 0 0 0 0\n")  # 100 more ticks, 70 of them idle
    samples.take()
    [sample] = samples.so_far()
    assert sample["cpu_utilization_percentage"] == pytest.approx(30)
    assert (sample["system_memory_usage_megabytes"], sample["system_memory_usage_percentage"]) == (3, 75)
    monkeypatch.setattr(machine_samples, "MOST", 4)
    for _ in range(4):
        samples.take()
    assert len(samples.so_far()) == 3  # of five, every second one
    assert samples.so_far()[0] == sample


def test_without_proc_there_are_no_samples(tmp_path: Path) -> None:
    samples = MachineSamples(tmp_path)
    with samples.taken():
        assert samples.so_far() == ()
