"""Devices: depots dealt along one line of them, in one process or several, and sizes that seldom change."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from forecaster.errors import SpecError, TrainingError
from forecaster.model import devices
from forecaster.model.devices import Hosts
from forecaster.model.host import configure_host

ROOT = Path(__file__).parents[2]


def start(script: str, *arguments: str, cores: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", script, *arguments],
        cwd=ROOT,
        env=configure_host({k: v for k, v in os.environ.items() if k != "XLA_FLAGS"}, cores),
        stdout=subprocess.PIPE,
        text=True,
    )


# --- how depots lie ---------------------------------------------------------------------------------------------------

DEALT = """
import jax, jax.numpy as jnp, numpy as np
from forecaster.model import devices

assert dict(devices.mesh().shape) == {"members": 1, "depots": 4}
assert [tuple(devices.mesh(members).shape.values()) for members in (2, 3, 6, 8)] == [(2, 2), (1, 4), (2, 2), (4, 1)]
demand = np.arange(24.0, dtype=np.float32).reshape(3, 8); demand[0, 0] = np.nan
tree = {"by_row": devices.shard(demand.T), "by_column": devices.shard(demand, axis=1)}
assert [each.data.shape for each in tree["by_row"].addressable_shards] == 4 * [(2, 3)]
assert [each.data.shape for each in tree["by_column"].addressable_shards] == 4 * [(3, 2)]
whole = devices.replicate({"w": jnp.ones(3), "key": jax.random.key(0)})
assert [each.data.shape for each in whole["w"].addressable_shards] == 4 * [(3,)]
assert whole["key"].sharding.is_fully_replicated

@jax.jit
def total(rows, w):
    return jnp.nansum(rows @ w)

members = devices.deal(np.arange(6.0, dtype=np.float32), 6)
assert [each.data.tolist() for each in members.addressable_shards] == [[0, 1, 2]] * 2 + [[3, 4, 5]] * 2

def told(members, batch):
    part = devices.share(batch, axis=1)
    return members, devices.mine(len(members)), devices.total(part.sum()), devices.total(1.0)

each, all_ = devices.by_member(), devices.whole()
run = jax.jit(devices.on_each(told, 6, (each, all_), (each, each, all_, all_)))
own, numbers, added, sharing = run(members, jnp.asarray(demand))
assert own.tolist() == [0, 1, 2, 3, 4, 5] == numbers.tolist() and np.isnan(added) and sharing == 2
assert run(members, jnp.nan_to_num(jnp.asarray(demand)))[2] == 276

one = float(total(jnp.nan_to_num(jnp.asarray(demand.T)), jnp.ones(3)))
many = float(total(jnp.nan_to_num(tree["by_row"]), whole["w"]))
assert one == many == 276.0, (one, many)
print("dealt")
"""


def test_depots_are_dealt_over_the_devices_and_the_rest_lies_on_each() -> None:
    process = start(DEALT, cores=4)
    assert process.communicate()[0] == "dealt\n"
    assert process.returncode == 0


def test_on_one_device_a_tree_stays_what_it_is() -> None:
    demand = np.array([[1.0, np.nan], [2.0, 3.0]], np.float32)
    np.testing.assert_array_equal(devices.shard({"demand": demand})["demand"], demand)
    np.testing.assert_array_equal(devices.replicate(demand), demand)


# --- sizes ------------------------------------------------------------------------------------------------------------


def test_depots_are_padded_to_the_next_of_a_ladder_of_sizes() -> None:
    assert [devices.padded(count, 1) for count in (1, 64, 65, 128, 129, 320, 321, 10_000)] == [
        64, 64, 128, 128, 192, 320, 384, 10_880,
    ]  # fmt: skip


@pytest.mark.parametrize("count_of_devices", [1, 2, 3, 8, 12])
def test_every_size_holds_its_depots_and_is_dealt_evenly(count_of_devices: int) -> None:
    counts = range(1, 20_000, 7)
    sizes = [devices.padded(count, count_of_devices) for count in counts]
    pairs = list(zip(counts, sizes, strict=True))
    assert all(size >= count and size % count_of_devices == 0 == size % 64 for count, size in pairs)
    assert sizes == sorted(sizes)
    assert len(set(sizes)) <= 25
    assert max(size / count for count, size in pairs if count > 1_000) < 1.4
    assert all(devices.padded(size, count_of_devices) == size for size in sizes)


def test_a_program_for_padded_depots_is_compiled_once_for_many_counts() -> None:
    @jax.jit
    def total(rows: jax.Array) -> jax.Array:
        return rows.sum()

    for count in (129, 150, 192):
        total(jnp.zeros(devices.padded(count)))
    assert total._cache_size() == 1  # type: ignore[attr-defined]


# --- several hosts ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("coordinator", "count", "index", "complaint"),
    [
        ("head", 2, 0, "coordinator is 'head', wanted host:port"),
        (":8476", 2, 0, "wanted host:port"),
        ("head:port", 2, 0, "wanted host:port"),
        ("head:70000", 2, 0, "wanted host:port"),
        ("head:8476", 0, 0, "count is 0, wanted 1 or more"),
        ("head:8476", 2, 2, "host 2 of 2, wanted 0 to 1"),
        ("head:8476", 2, -1, "host -1 of 2, wanted 0 to 1"),
    ],
)
def test_hosts_that_cannot_be_are_refused(coordinator: str, count: int, index: int, complaint: str) -> None:
    with pytest.raises(SpecError, match=complaint):
        Hosts(coordinator, count, index)


def test_alone_there_is_nothing_to_join() -> None:
    devices.join(None)
    devices.join(Hosts("head:8476", 1, 0))
    assert not jax.distributed.is_initialized()


def test_joining_after_jax_has_started_is_our_error() -> None:
    jax.devices()
    with pytest.raises(TrainingError, match=r"host 0 of 2 could not join at 127\.0\.0\.1:1: "):
        devices.join(Hosts("127.0.0.1:1", 2, 0))


JOINED = """
import sys
from pathlib import Path
from forecaster.model import devices

devices.join(devices.Hosts(sys.argv[1], 2, int(sys.argv[2])), patience=120)

import jax, jax.numpy as jnp, numpy as np
from jax.sharding import PartitionSpec
from forecaster.model.checkpoints import Checkpoints

def multiply(rows):
    return jax.lax.psum(jnp.nansum(rows), "depots")

rows = np.arange(8.0, dtype=np.float32); rows[0] = np.nan
dealt = devices.shard(rows)
total = jax.shard_map(multiply, mesh=devices.mesh(), in_specs=PartitionSpec("depots"), out_specs=PartitionSpec())
said = float(jax.jit(total)(dealt))

state = {"rows": dealt, "key": devices.replicate(jax.random.key(5))}
checkpoints = Checkpoints(Path(sys.argv[3]), "p")
for number in (1, 2, 3):
    checkpoints.save(number, state, [])
fresh = {"rows": devices.shard(np.zeros(8, np.float32)), "key": devices.replicate(jax.random.key(0))}
saved = checkpoints.latest(fresh)
for was, found in zip(dealt.addressable_shards, saved.state["rows"].addressable_shards):
    np.testing.assert_array_equal(was.data, found.data)
same = jax.random.key_data(saved.state["key"]).addressable_data(0) == jax.random.key_data(jax.random.key(5))
print(jax.process_count(), jax.local_device_count(), jax.device_count(), said, saved.number, bool(same.all()))
"""


def test_two_hosts_add_up_over_all_their_devices_and_save_one_checkpoint(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        coordinator = f"127.0.0.1:{free.getsockname()[1]}"
    hosts = [start(JOINED, coordinator, str(index), str(tmp_path), cores=2) for index in range(2)]
    said = [host.communicate(timeout=300)[0].splitlines() for host in hosts]
    assert [lines[-1] for lines in said] == 2 * ["2 2 4 28.0 3 True"]  # the lines before are what the network says
    assert sorted(os.listdir(tmp_path)) == ["2", "3"]


# --- memory -----------------------------------------------------------------------------------------------------------


def test_full_memory_is_recognised_in_what_jax_really_raises() -> None:
    with pytest.raises(jax.errors.JaxRuntimeError) as full:
        jax.block_until_ready(jnp.zeros(1 << 46, jnp.uint8))
    assert devices.out_of_memory(full.value)
    wrapped = TrainingError("epoch 3")
    wrapped.__cause__ = full.value
    assert devices.out_of_memory(wrapped)
    assert devices.out_of_memory(MemoryError())


def test_other_errors_are_not_taken_for_full_memory() -> None:
    assert not devices.out_of_memory(ValueError("RESOURCE_EXHAUSTED"))
    assert not devices.out_of_memory(jax.errors.JaxRuntimeError("INVALID_ARGUMENT: shapes"))
