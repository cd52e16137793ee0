"""Device mesh and sharding: which devices train, and how members and depots lie on them.

Members are dealt over the devices first: they learn apart, so nothing travels between their
devices. Where there are more devices than members, the crops of each batch are dealt over those
that share a member, and their gradients summed. The number of depots is padded to one of few sizes,
so that a new depot does not make the night compile anew.
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
STEP = 64  # sizes are multiples of this,
GROWTH = 1.25  # each about this many times the one before

# that train, at most: of a batch, each of more would have too few crops to be worth its while
CORES = 8
_DEVICE_COUNT_FLAG = "xla_force_host_platform_device_count"
_OUT_OF_MEMORY_MESSAGES = ("RESOURCE_EXHAUSTED", "OUT_OF_MEMORY", "out of memory")


def one_device_per_core() -> None:
    """Make each core of the processor a device of its own, `CORES` at most; call it before anything
    else of JAX.

    Whoever has told JAX how many devices a processor is, by JAX_NUM_CPU_DEVICES or XLA_FLAGS, is
    heard; once JAX has started, its devices stay what they are.
    """
    configured = jax.config.values["jax_num_cpu_devices"] > 0 or _DEVICE_COUNT_FLAG in os.environ.get("XLA_FLAGS", "")
    if not configured:
        update: Any = jax.config.update
        with suppress(RuntimeError):  # JAX has started
            update("jax_num_cpu_devices", min(available_cores(), CORES))


@cache
def mesh(members: int = 1) -> Mesh:
    """All devices, of all hosts, as a grid: `members` are dealt evenly over its rows, depots along
    each row."""
    rows = math.gcd(members, jax.device_count())
    return jax.make_mesh((rows, jax.device_count() // rows), (MEMBERS, DEPOTS), axis_types=(AxisType.Auto,) * 2)


def by_member() -> PartitionSpec:
    """Members, the first axis, are dealt over the rows of devices."""
    return PartitionSpec(MEMBERS)  # type: ignore[no-untyped-call]


def by_depot() -> PartitionSpec:
    """Depots, the first axis, are dealt along each row."""
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
    """`run` on every device at once, on its own members; `argument_layout` and `result_layout`
    (`by_member` and its like, or trees of these) say how arguments and results lie. In it,
    `member_numbers`, `share` and `total` tell the devices apart."""
    mapped: Callable[..., Any] = jax.shard_map(
        run, mesh=mesh(members), in_specs=argument_layout, out_specs=result_layout, check_vma=False
    )
    return mapped


def member_numbers(count: int) -> Array:
    """The numbers of this device's `count` members."""
    return lax.axis_index(MEMBERS) * count + jnp.arange(count)


def share(tree: Any, axis: int = 0) -> Any:
    """This device's share of a batch, which lies along `axis`."""
    parts = lax.axis_size(DEPOTS)

    def share_of(leaf: Array) -> Array:
        size = leaf.shape[axis] // parts
        return lax.dynamic_slice_in_dim(leaf, lax.axis_index(DEPOTS) * size, size, axis)

    return tree if parts == 1 else jax.tree.map(share_of, tree)


def total(tree: Any) -> Any:
    """All-reduce: the sum over the devices that share a member."""
    return lax.psum(tree, DEPOTS)  # type: ignore[no-untyped-call]


def replicate(tree: Any, members: int = 1) -> Any:
    """`tree` whole on every device of the grid for so many members."""
    return _place(tree, replicated(), members)


def deal(tree: Any, members: int) -> Any:
    """`tree`, whose arrays have `members` members as their first axis, dealt over the devices."""
    return _place(tree, by_member(), members)


def _place(tree: Any, spec: PartitionSpec, members: int) -> Any:
    sharding = NamedSharding(mesh(members), spec)
    return jax.tree.map(lambda leaf: _place_leaf(leaf, sharding), tree)


def _place_leaf(leaf: Any, sharding: NamedSharding) -> Any:
    if sharding.is_fully_addressable:
        return jax.device_put(leaf, sharding)
    # Not device_put: over several hosts it compares what each of them has, and NaN is not equal to
    # NaN.
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        numbers = _place_leaf(jax.random.key_data(leaf), sharding)
        return jax.random.wrap_key_data(numbers, impl=jax.random.key_impl(leaf))
    array = np.asarray(leaf)
    return jax.make_array_from_callback(array.shape, sharding, array.__getitem__)


def padded_count(count: int, devices: int | None = None) -> int:
    """The number of rows that `count` depots take: the next of a ladder of sizes that `devices`
    (all) divide."""
    step = math.lcm(STEP, devices or jax.device_count())
    rung, size = 0, step
    while size < count:
        rung += 1
        size = math.ceil(STEP * GROWTH**rung / step) * step
    return size


def out_of_memory(error: BaseException | None) -> bool:
    """Tell whether `error`, or what caused it, says that a device or the host has no memory
    left."""
    if error is None:
        return False
    exhausted = isinstance(error, jax.errors.JaxRuntimeError) and any(
        message in str(error) for message in _OUT_OF_MEMORY_MESSAGES
    )
    return exhausted or isinstance(error, MemoryError) or out_of_memory(error.__cause__)
