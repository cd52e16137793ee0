"""A CPU that shows itself to JAX as several devices, for processes that are yet to start."""

from __future__ import annotations

from collections.abc import Mapping


def environment(given: Mapping[str, str], devices: int) -> dict[str, str]:
    """`given` with so many devices of one thread each: with XLA's own threads, a product may wait for a core that waits
    for the product's device, for ever."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_cpu_multi_thread_eigen=false"
    return {**given, "XLA_FLAGS": flags}
