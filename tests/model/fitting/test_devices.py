"""Devices: depots distributed along them, in one process or several, and sizes that rarely change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.errors import TrainingError
from forecaster.model.fitting import devices
from tests import cpus

ROOT = Path(__file__).parents[3]


def start(script: str, *arguments: str, cores: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env=cpus.environment(os.environ, cores),
        stdout=subprocess.PIPE,
        text=True,
    )


# --- distribution of depots
# -------------------------------------------------------------------------------------------

DEALT = """
import jax, jax.numpy as jnp, numpy as np
from forecaster.model.fitting import devices

assert dict(devices.mesh().shape) == {"members": 1, "depots": 4}
assert [tuple(devices.mesh(members).shape.values()) for members in (2, 3, 6, 8)] == [(2, 2), (1, 4), (2, 2), (4, 1)]
demand = np.arange(24.0, dtype=np.float32).reshape(3, 8); demand[0, 0] = np.nan
whole = devices.replicate({"w": jnp.ones(3), "key": jax.random.key(0)})
assert [shard.data.shape for shard in whole["w"].addressable_shards] == 4 * [(3,)]
assert whole["key"].sharding.is_fully_replicated

members = devices.deal(np.arange(6.0, dtype=np.float32), 6)
assert [shard.data.tolist() for shard in members.addressable_shards] == [[0, 1, 2]] * 2 + [[3, 4, 5]] * 2

def on_device(members, batch):
    part = devices.share(batch, axis=1)
    return members, devices.member_numbers(len(members)), devices.total(part.sum()), devices.total(1.0)

by_member, replicated = devices.by_member(), devices.replicated()
layouts = (by_member, by_member, replicated, replicated)
run = jax.jit(devices.on_each_device(on_device, 6, (by_member, replicated), layouts))
dealt, numbers, added, sharing = run(members, jnp.asarray(demand))
assert dealt.tolist() == [0, 1, 2, 3, 4, 5] == numbers.tolist() and np.isnan(added) and sharing == 2
assert run(members, jnp.nan_to_num(jnp.asarray(demand)))[2] == 276

print("dealt")
"""


def test_depots_are_distributed_over_the_devices_and_the_rest_is_replicated() -> None:
    process = start(DEALT, cores=4)
    assert process.communicate()[0] == "dealt\n"
    assert process.returncode == 0


FORCED = "--xla_force_host_platform_device_count=3"
SPREAD = """
import jax
from forecaster.model.fitting import devices

devices.one_device_per_core()
count = jax.device_count()
devices.one_device_per_core()
assert jax.device_count() == count
print(count)
"""


@pytest.mark.parametrize("variables", [{}, {"JAX_NUM_CPU_DEVICES": "3"}, {"XLA_FLAGS": FORCED}])
def test_each_core_is_a_device_by_default(variables: dict[str, str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "JAX_NUM_CPU_DEVICES"}
    count = subprocess.check_output(
        [sys.executable, "-c", SPREAD], cwd=ROOT, env={**environment, **variables}, text=True
    )
    assert int(count) == (3 if variables else min(len(os.sched_getaffinity(0)), devices.CORES))


def test_on_one_device_a_tree_is_unchanged() -> None:
    demand = np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)
    np.testing.assert_array_equal(devices.replicate(demand), demand)


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_depots_are_padded_to_the_next_of_a_series_of_sizes() -> None:
    assert [devices.padded_count(count, 1) for count in (1, 64, 65, 128, 129, 320, 321, 10_000)] == [
        64, 64, 128, 128, 192, 320, 384, 10_880,
    ]  # fmt: skip


@pytest.mark.parametrize("count_of_devices", [1, 2, 3, 8, 12])
def test_every_size_holds_its_depots_and_is_divided_evenly(count_of_devices: int) -> None:
    counts = range(1, 20_000, 7)
    sizes = [devices.padded_count(count, count_of_devices) for count in counts]
    pairs = list(zip(counts, sizes, strict=True))
    assert all(size >= count and size % count_of_devices == 0 == size % 64 for count, size in pairs)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 25
    assert max(size / count for count, size in pairs if count > 1_000) < 1.4
    assert all(devices.padded_count(size, count_of_devices) == size for size in sizes)


def test_a_program_for_padded_depots_is_compiled_once_for_many_counts() -> None:
    @jax.jit
    def total(rows: jax.Array) -> jax.Array:
        return rows.sum()

    for count in (129, 150, 192):
        total(jnp.zeros(devices.padded_count(count)))
    assert total._cache_size() == 1  # type: ignore[attr-defined]


# --- memory -----------------------------------------------------------------------------------------------------------


def test_out_of_memory_is_recognized_in_real_jax_errors() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError) as exhausted:
        jax.block_until_ready(jnp.zeros(1 << 46, jnp.uint8))
    assert devices.out_of_memory(exhausted.value)
    wrapped = TrainingError("epoch 3")
    wrapped.__cause__ = exhausted.value
    assert devices.out_of_memory(wrapped)
    assert devices.out_of_memory(MemoryError())


def test_other_errors_are_not_mistaken_for_out_of_memory() -> None:
    assert not devices.out_of_memory(ValueError("RESOURCE_EXHAUSTED"))
    assert not devices.out_of_memory(jax.errors.JaxRuntimeError("INVALID_ARGUMENT: shapes"))
