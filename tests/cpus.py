"""XLA's view of the CPU in test processes started later: several devices, and compilation in half
the time."""

from __future__ import annotations

from collections.abc import Mapping

QUICK = "--xla_cpu_use_fusion_emitters=false"  # the older emitters compile twice as fast; programs run 5 % slower


def environment(variables: Mapping[str, str], devices: int) -> dict[str, str]:
    """Return `variables` with `devices` devices of one thread each: with XLA's own threads, a
    product could wait for a core that waits for the product's device, a deadlock."""
    flags = f"{QUICK} --xla_cpu_multi_thread_eigen=false"
    return {**variables, "XLA_FLAGS": flags, "JAX_NUM_CPU_DEVICES": str(devices)}
