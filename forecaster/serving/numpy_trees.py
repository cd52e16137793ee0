"""Boosted trees in plain NumPy: the second implementation of the graph's, from the root down.

Of a row each node has a share; a split sends it left up to its `threshold`, right from `ramp` above it on, and both
ways by shares between the two. Node k of a level has the children k (left) and k + 2**level (right) of the next one.
"""

from __future__ import annotations

import numpy as np

from forecaster.core.arrays import Doubles


def predict(feature: Doubles, threshold: Doubles, leaf: Doubles, inputs: Doubles, ramp: float) -> Doubles:
    """The sum of each day's trees (rows, horizon) for `inputs` (rows, horizon, inputs); `feature` and `threshold` are
    (horizon, trees, nodes), `leaf` is (horizon, trees, leaves)."""
    said = np.zeros(inputs.shape[:2])
    for step in range(inputs.shape[1]):
        for places, bounds, leaves in zip(feature[step].astype(int), threshold[step], leaf[step], strict=True):
            right = np.clip((inputs[:, step][:, places] - bounds) / ramp, 0, 1)
            share = np.ones((len(inputs), 1))
            while share.shape[1] < len(leaves):
                of_level = right[:, share.shape[1] - 1 : 2 * share.shape[1] - 1]
                share = np.concatenate([share * (1 - of_level), share * of_level], axis=1)
            said[:, step] += share @ leaves
    return said
