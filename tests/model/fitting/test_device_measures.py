"""Measures of a training."""

from __future__ import annotations

from types import SimpleNamespace

import jax
import pytest

from forecaster.model.fitting import device_measures

SUMMARY = {
    "seconds": 12.0,
    "compile_seconds": 3.0,
    "compile_hits": 4,
    "compile_misses": 1,
    "depot_days_a_second": 5e4,
    "batch": 8,
    "members": 1,
    "steps_an_epoch": 6,
    "recurrence": "scan",
    "device": "1 x cpu",
    "depots": 4,
}


def test_a_cpu_has_no_measures_of_device_memory() -> None:
    measures = device_measures.of_training(SUMMARY)
    assert (measures["training_seconds"], measures["compile_misses"]) == (12.0, 1)
    assert measures["versions"]["jax"] == jax.__version__
    assert measures["versions"]["batch"] == "8"
    assert "device_memory_peak_bytes" not in measures


def test_memory_of_accelerators_is_measured_by_device_number(monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [
        SimpleNamespace(id=number, memory_stats=lambda: {"peak_bytes_in_use": 7, "bytes_limit": 10})
        for number in range(2)
    ]
    monkeypatch.setattr(jax, "local_devices", lambda: devices)
    measures = device_measures.of_training(SUMMARY)
    assert measures["device_memory_peak_bytes"] == {"0": 7.0, "1": 7.0}
    assert measures["device_memory_limit_bytes"] == {"0": 10.0, "1": 10.0}
