"""What level a depot may have of which nothing is counted yet: told by its attributes, as its peers' levels are.

Log levels are a mean and one random effect for each label of each attribute (best linear unbiased prediction; Robinson
1991, "That BLUP is a good thing"): a ridge regression on indicators, so that a label of few peers counts less than one
of many. How much less (its penalty) is what forecasts each peer best that is left out in turn (Allen 1974, PRESS), and
so is the variance of what they miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, np.inf)  # peers by which a label's own mean is drawn to the others'
SHARED = 2  # peers that a label needs, or it tells of one depot
ALONE = 1.0  # variance of levels, in log counts, where there is but one peer

_Doubles = NDArray[np.float64]
_Rows = NDArray[np.intp]


class Typical(NamedTuple):
    """What is expected of each depot, and how far depots are from it."""

    level: _Doubles  # (depots,) log counts
    variance: float  # of a depot about its own, in log counts


def typical(log_level: _Doubles, peers: _Rows, attributes: Sequence[Sequence[str]]) -> Typical:
    """What the levels (depots,) of the depots `peers`, one at least, let expect of all depots.

    `attributes` are words a depot, "" where one is not known, which tells nothing.
    """
    known = log_level[peers]
    mean = float(known.mean())
    nothing = np.full(len(log_level), mean)
    if len(peers) == 1:
        return Typical(nothing, ALONE)
    labels = _indicators(attributes, peers, len(log_level))
    center = labels[peers].mean(axis=0)
    left, size, right = np.linalg.svd(labels[peers] - center, full_matrices=False)
    along = left.T @ (known - mean)
    best = Typical(nothing, np.inf)
    for penalty in PENALTIES:
        kept = size**2 / (size**2 + penalty)
        leverage = 1 / len(peers) + (left**2) @ kept
        missed = (known - mean - left @ (kept * along)) / np.maximum(1 - leverage, 1 / len(peers))
        if (variance := float(np.mean(missed**2))) < best.variance:
            effects = right.T @ (size / (size**2 + penalty) * along)
            best = Typical(mean + (labels - center) @ effects, variance)
    return best


def _indicators(attributes: Sequence[Sequence[str]], peers: _Rows, depots: int) -> _Doubles:
    """(depots, labels): 1 where a depot has the label; of those that some of the peers share, and not all."""
    found = [np.zeros((depots, 0))]
    for words in attributes:
        names, code = np.unique(np.asarray(words, np.str_), return_inverse=True)
        count = np.bincount(code[peers], minlength=len(names))
        shared = np.flatnonzero((count >= SHARED) & (count < len(peers)) & (names != ""))
        found.append((code[:, None] == shared).astype(float))
    return np.concatenate(found, axis=1)
