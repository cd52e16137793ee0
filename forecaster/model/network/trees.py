"""Boosted trees inside the compiled graph: complete trees of one depth for each day ahead, as
arrays.

Each split is a ramp: up to where it begins a row goes left, from `RAMP` above on right, and between
the two it goes both ways by shares. So what the trees say is continuous, and rounding, which
differs between JAX, ONNX and NumPy, moves no forecast by a leaf. Node k of level d has the children
k (left) and k + 2**d of the next one, so that a level is one product of halves and no leaf is
looked up.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

DEPTH = 6  # levels of splits, at most
TREES = 128  # a day ahead
RAMP = 0.01  # of what is split, mostly log counts


def predict(trees: Mapping[str, Array], inputs: Float[Array, "rows horizon inputs"]) -> Float[Array, "rows horizon"]:
    """The sum of each day's trees, {"feature": places in `inputs`, "threshold": (horizon, trees,
    nodes), "leaf": (horizon, trees, leaves)}."""
    # Rows last, so that whatever is gathered, sliced and computed lies side by side; a day at a
    # time stays in a core's cache.
    of_day = jnp.moveaxis(inputs, 0, -1)
    arrays = (jnp.moveaxis(trees[name], -1, 1) for name in ("feature", "threshold", "leaf"))
    return jnp.stack([_of_day(*day) for day in zip(*arrays, of_day, strict=True)], axis=1)


def _of_day(feature: Array, threshold: Array, leaf: Array, inputs: Array) -> Array:
    """The sum (rows,) of a day's trees: (nodes, trees), (leaves, trees), and (inputs, rows)."""
    rows = inputs.shape[-1]
    value = jnp.take(inputs, feature.astype(jnp.int32).reshape(-1), axis=0).reshape(*threshold.shape, rows)
    # The difference first: it is exact near a threshold, also of an input of 100,000.
    right = jnp.clip((value - threshold[..., None]) * (1.0 / RAMP), 0.0, 1.0)
    total = leaf[..., None]
    for level in reversed(range((len(threshold) + 1).bit_length() - 1)):
        nodes = 1 << level
        left = total[:nodes]
        total = left + right[nodes - 1 : 2 * nodes - 1] * (total[nodes:] - left)
    return total[0].sum(axis=0)
