"""Trees as arrays match a walk from the root to a leaf, and interpolate between two leaves."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from forecaster.model.network import trees
from forecaster.model.network.trees import DEPTH, RAMP, TREES


def walked(feature: np.ndarray, threshold: np.ndarray, leaf: np.ndarray, row: np.ndarray) -> float:
    place = 0
    for level in range(DEPTH):
        node = (1 << level) - 1 + place
        if row[feature[node]] > threshold[node]:
            place += 1 << level
    return float(leaf[place])


def test_a_row_outside_all_ramps_gets_the_leaves_of_its_days_trees() -> None:
    random, nodes = np.random.default_rng(0), 2**DEPTH - 1
    arrays = {
        "feature": random.integers(0, 5, (3, TREES, nodes)).astype(np.int32),
        "threshold": np.round(random.normal(0, 1, (3, TREES, nodes)), 1).astype(np.float32),
        "leaf": random.normal(0, 1, (3, TREES, 2**DEPTH)).astype(np.float32),
    }
    inputs = (np.round(random.normal(0, 1, (4, 3, 5)), 1) + 0.05).astype(np.float32)  # halfway between two thresholds
    expected = [
        [
            sum(walked(*(array[step, tree] for array in arrays.values()), row[step]) for tree in range(TREES))
            for step in range(3)
        ]
        for row in inputs
    ]
    said = trees.predict({name: jnp.asarray(array) for name, array in arrays.items()}, jnp.asarray(inputs))
    np.testing.assert_allclose(said, expected, rtol=1e-4, atol=1e-4)


def test_a_ramp_begins_at_its_threshold_and_ends_one_width_above_it() -> None:
    leaf = np.zeros((1, 1, 2**DEPTH), np.float32)
    leaf[..., 1::2] = 4.0  # right of the root
    threshold = np.full((1, 1, 2**DEPTH - 1), 1e30, np.float32)
    threshold[..., 0] = 0.5
    one = {"feature": np.zeros(threshold.shape, np.int32), "threshold": threshold, "leaf": leaf}
    inputs = np.float32([0, 0.5, 0.5 + RAMP / 4, 0.5 + RAMP, 9])[:, None, None]
    said = trees.predict({name: jnp.asarray(array) for name, array in one.items()}, jnp.asarray(inputs))
    np.testing.assert_allclose(said[:, 0], [0, 0, 1, 4, 4], atol=1e-3)
