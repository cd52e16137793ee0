"""Boosted trees inside the compiled graph: complete trees of one depth for each day ahead, as
arrays.

Each split is a ramp: a row goes left up to its start, right from `RAMP` above it, and in proportion
to both sides in between. The output of the trees is therefore continuous, and rounding, which
differs between JAX, ONNX and NumPy, cannot move a forecast by a leaf. Node k of level d has the
children k (left) and k + 2**d on the next level, so that a level is one product of halves and no
leaf is looked up.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

DEPTH = 6  # largest number of levels of splits
TREES = 128  # per day ahead
RAMP = 0.01  # width of a split, in units of the input, mostly log counts


def predict(trees: Mapping[str, Array], inputs: Float[Array, "rows horizon inputs"]) -> Float[Array, "rows horizon"]:
    """Sum each day's trees, {"feature": positions in `inputs`, "threshold": (horizon, trees,
    nodes), "leaf": (horizon, trees, leaves)}."""
    # Rows last, so that gathered, sliced and computed values are contiguous; one day at a time
    # stays in a core's cache.
    of_day = jnp.moveaxis(inputs, 0, -1)
    arrays = (jnp.moveaxis(trees[name], -1, 1) for name in ("feature", "threshold", "leaf"))
    return jnp.stack([_of_day(*day) for day in zip(*arrays, of_day, strict=True)], axis=1)


def _of_day(feature: Array, threshold: Array, leaf: Array, inputs: Array) -> Array:
    """Sum (rows,) of a day's trees, from (nodes, trees), (leaves, trees), and (inputs, rows)."""
    rows = inputs.shape[-1]
    value = jnp.take(inputs, feature.astype(jnp.int32).reshape(-1), axis=0).reshape(*threshold.shape, rows)
    # The difference first: it is exact near a threshold, even for an input of 100,000.
    right = jnp.clip((value - threshold[..., None]) * (1.0 / RAMP), 0.0, 1.0)
    total = leaf[..., None]
    for level in reversed(range((len(threshold) + 1).bit_length() - 1)):
        nodes = 1 << level
        left = total[:nodes]
        total = left + right[nodes - 1 : 2 * nodes - 1] * (total[nodes:] - left)
    return total[0].sum(axis=0)
