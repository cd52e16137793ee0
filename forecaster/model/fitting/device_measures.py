"""Measures of a training: compilation, throughput, memory of accelerators, and the versions and
sizes it was compiled for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import jax

from forecaster import __version__

# keys of a candidate's summary
COMPILED_FOR = ("batch", "members", "steps_an_epoch", "recurrence", "device", "depots")


def of_training(summary: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measures in `metric_names.OF_RUNS` of a training that has just ended in this
    process, and `versions`: if these are unchanged, a training finds all its programs in the cache."""
    return {
        "training_seconds": summary["seconds"],
        "compile_seconds": summary["compile_seconds"],
        "compile_hits": summary["compile_hits"],
        "compile_misses": summary["compile_misses"],
        "training_rows_per_second": summary["depot_days_a_second"],
        **_device_memory(),
        "versions": {
            "forecaster": __version__,
            **{package: version(package) for package in ("jax", "jaxlib")},
            **{name: str(summary[name]) for name in COMPILED_FOR},
        },
    }


def _device_memory() -> dict[str, dict[str, float]]:
    """Peak and limit in bytes, by device; empty for devices that do not report them, such as a CPU."""
    statistics = {str(device.id): device.memory_stats() or {} for device in jax.local_devices()}
    by_name = {
        name: {device: float(values[key]) for device, values in statistics.items() if key in values}
        for name, key in (
            ("device_memory_peak_bytes", "peak_bytes_in_use"),
            ("device_memory_limit_bytes", "bytes_limit"),
        )
    }
    return {name: by_device for name, by_device in by_name.items() if by_device}
