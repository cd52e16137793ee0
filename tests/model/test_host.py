"""The environment of a training on a CPU: ours where the user said nothing, theirs where they did."""

from __future__ import annotations

import subprocess
import sys

import pytest

from forecaster.model.host import configure_host

ALONE = " --xla_cpu_multi_thread_eigen=false"  # a thread a device


@pytest.mark.parametrize(("cores", "devices"), [(0, 1), (1, 1), (2, 2), (8, 8), (96, 8)])
def test_cores_become_devices_up_to_eight(cores: int, devices: int) -> None:
    assert configure_host({"HOME": "/home"}, cores) == {
        "HOME": "/home",
        "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}" + (ALONE if devices > 1 else ""),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    }


def test_what_the_user_has_set_stays_and_ours_is_added() -> None:
    theirs = {"XLA_FLAGS": "--xla_dump_to=/dumps", "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    assert configure_host(theirs, 4) == {
        "XLA_FLAGS": "--xla_dump_to=/dumps --xla_force_host_platform_device_count=4" + ALONE,
        "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.hugetlb=1",
    }
    assert theirs["XLA_FLAGS"] == "--xla_dump_to=/dumps"


def test_what_the_user_has_decided_is_not_decided_again() -> None:
    theirs = {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=3",
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=0",
    }
    assert configure_host(theirs, 4) == theirs
    ours = configure_host({}, 4)
    assert configure_host(ours, 8) == ours


def test_the_environment_is_configured_without_jax() -> None:
    asked = "import sys, forecaster.model.host; print('jax' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout == "False\n"
