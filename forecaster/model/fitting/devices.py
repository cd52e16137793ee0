"""Device mesh and sharding: choose the devices for training, and distribute members and depots over
them.

Members are distributed over the devices first: they learn independently, so nothing travels between
their devices. If there are more devices than members, the crops of each batch are distributed over
the devices that share a member, and their gradients are summed. The number of depots is padded to
one of a few sizes, so that a new depot does not cause a recompilation.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec

from forecaster.core.parallel import available_cores

MEMBERS, DEPOTS = "members", "depots"
STEP = 64  # sizes are multiples of this
GROWTH = 1.25  # approximate ratio of successive sizes

# maximum number of cores for training: with more, each would have too few crops of a batch
CORES = 8
_DEVICE_COUNT_FLAG = "xla_force_host_platform_device_count"
_OUT_OF_MEMORY_MESSAGES = ("RESOURCE_EXHAUSTED", "OUT_OF_MEMORY", "out of memory")


def one_device_per_core() -> None:
    """Make each core of the processor a JAX device, at most `CORES`; call it before any other use
    of JAX.

    A number of devices configured by JAX_NUM_CPU_DEVICES or XLA_FLAGS is respected. Once JAX has
    started, its devices do not change.
    """
    configured = jax.config.values["jax_num_cpu_devices"] > 0 or _DEVICE_COUNT_FLAG in os.environ.get("XLA_FLAGS", "")
    if not configured:
        update: Any = jax.config.update
        with suppress(RuntimeError):  # if JAX has started
            update("jax_num_cpu_devices", min(available_cores(), CORES))


@cache
def mesh(members: int = 1) -> Mesh:
    """Return all devices of all hosts as a grid: `members` are distributed evenly over its rows,
    depots along each row."""
    rows = math.gcd(members, jax.device_count())
    return jax.make_mesh((rows, jax.device_count() // rows), (MEMBERS, DEPOTS), axis_types=(AxisType.Auto,) * 2)


def by_member() -> PartitionSpec:
    """Members, the first axis, over the rows of devices."""
    return PartitionSpec(MEMBERS)  # type: ignore[no-untyped-call]


def by_depot() -> PartitionSpec:
    """Depots, the first axis, along each row."""
    return PartitionSpec(DEPOTS)  # type: ignore[no-untyped-call]


def by_member_and_depot() -> PartitionSpec:
    """Members, the first axis, over the rows of devices, and depots, the second, along each row."""
    return PartitionSpec(MEMBERS, DEPOTS)  # type: ignore[no-untyped-call]


def replicated() -> PartitionSpec:
    """Replicated: each device has all of it."""
    return PartitionSpec()  # type: ignore[no-untyped-call]


def on_each_device(
    run: Callable[..., Any], members: int, argument_layout: Any, result_layout: Any
) -> Callable[..., Any]:
    """Run `run` on every device, on its own members. `argument_layout` and `result_layout`
    (`by_member` and the like, or trees of them) describe the layout of arguments and results.
    Inside, `member_numbers`, `share` and `total` distinguish the devices."""
    mapped: Callable[..., Any] = jax.shard_map(
        run, mesh=mesh(members), in_specs=argument_layout, out_specs=result_layout, check_vma=False
    )
    return mapped


def member_numbers(count: int) -> Array:
    """Return the numbers of this device's `count` members."""
    return lax.axis_index(MEMBERS) * count + jnp.arange(count)


def share(tree: Any, axis: int = 0) -> Any:
    """Return this device's share of a batch along `axis`."""
    parts = lax.axis_size(DEPOTS)

    def share_of(leaf: Array) -> Array:
        size = leaf.shape[axis] // parts
        return lax.dynamic_slice_in_dim(leaf, lax.axis_index(DEPOTS) * size, size, axis)

    return tree if parts == 1 else jax.tree.map(share_of, tree)


def total(tree: Any) -> Any:
    """Sum over the devices that share a member (all-reduce)."""
    return lax.psum(tree, DEPOTS)  # type: ignore[no-untyped-call]


def replicate(tree: Any, members: int = 1) -> Any:
    """Put the whole `tree` on every device of the grid for `members` members."""
    return _place(tree, replicated(), members)


def deal(tree: Any, members: int) -> Any:
    """Distribute `tree`, whose arrays have `members` members as their first axis, over the devices."""
    return _place(tree, by_member(), members)


def _place(tree: Any, spec: PartitionSpec, members: int) -> Any:
    sharding = NamedSharding(mesh(members), spec)
    return jax.tree.map(lambda leaf: _place_leaf(leaf, sharding), tree)


def _place_leaf(leaf: Any, sharding: NamedSharding) -> Any:
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    # Not device_put: over several hosts it compares their values, and NaN does not equal NaN.
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        numbers = _place_leaf(jax.random.key_data(leaf), sharding)
        return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(leaf))
    array = np.asarray(leaf)
    return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)


def padded_count(count: int, devices: int | None = None) -> int:
    """Return the number of rows for `count` depots: the next of a series of sizes that are
    divisible by `devices` (by default all)."""
    step = math.lcm(STEP, devices or jax.device_count())
    rung, size = 0, step
    while size < count:
        rung += 1
        size = math.ceil(STEP * GROWTH**rung / step) * step
    return size


def out_of_memory(error: BaseException | None) -> bool:
    """Return True if `error` or one of its causes means that a device or the host is out of memory."""
    if error is None:
        return False
    exhausted = isinstance(error, jax.errors.JaxRuntimeError) and any(
        message in str(error) for message in _OUT_OF_MEMORY_MESSAGES
    )
    return exhausted or isinstance(error, MemoryError) or out_of_memory(error.__cause__)
