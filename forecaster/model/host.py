"""Say which environment JAX wants to start in on a CPU; needs no JAX, because JAX reads it once, when it starts."""

from __future__ import annotations

from collections.abc import Mapping

MOST_DEVICES = 8  # a device a core; beyond this each has too few depots to be worth a thread of its own

_DEVICES = "--xla_force_host_platform_device_count"
_ONE_THREAD = "--xla_cpu_multi_thread_eigen=false"
_HUGE_PAGES = "glibc.malloc.hugetlb"


def configure_host(environment: Mapping[str, str], cores: int) -> dict[str, str]:
    """`environment` with what makes a CPU train faster; what the user has set already stays as it is.

    The cores become devices (XLA_FLAGS), and large arrays lie on huge pages (GLIBC_TUNABLES). Several devices get one
    thread each: with XLA's own threads a product may wait for a core that waits for the product's device, for ever. A
    night was seen to hang even so, in its first epoch, so nights leave a CPU as one device.
    XLA reads its part when the first array is made, glibc reads its own when a process starts: hand both to a process
    that is yet to start.
    """
    wanted, devices = dict(environment), min(max(cores, 1), MOST_DEVICES)
    if _DEVICES not in wanted.get("XLA_FLAGS", ""):
        ours = f"{_DEVICES}={devices} {_ONE_THREAD if devices > 1 else ''}"
        wanted["XLA_FLAGS"] = f"{wanted.get('XLA_FLAGS', '')} {ours}".strip()
    if _HUGE_PAGES not in wanted.get("GLIBC_TUNABLES", ""):
        wanted["GLIBC_TUNABLES"] = f"{wanted.get('GLIBC_TUNABLES', '')}:{_HUGE_PAGES}=1".strip(":")
    return wanted
