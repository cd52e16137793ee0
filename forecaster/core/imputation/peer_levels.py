"""Ridge regression of levels on attributes: the expected level of a depot without counts.

Log levels are a mean and one random effect for each label of each attribute (best linear unbiased
prediction; Robinson 1991, "That BLUP is a good thing"): a ridge regression on indicators, so that a
label of few peers counts less than one of many. The penalty is the one with the smallest
leave-one-out error over the peers (Allen 1974, PRESS), and that error is the variance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# peers; strength with which a label's own mean is drawn to the others'
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, np.inf)
SHARED = 2  # fewest peers of a label: one alone would only describe that depot
MOST = 64  # largest number of distinguished labels of an attribute
ALONE = 1.0  # variance of levels, in log counts, if there is only one peer

_Doubles = NDArray[np.float64]
_Rows = NDArray[np.intp]


class TypicalLevels(NamedTuple):
    """Expected level of each depot, and the variance of depots about it."""

    level: _Doubles  # (depots,) log counts
    variance: float  # of a depot's level about the expected one, in log counts


def typical_levels(log_level: _Doubles, peers: _Rows, attributes: Sequence[Sequence[str]]) -> TypicalLevels:
    """Estimate the levels of all depots from the levels (depots,) of the depots `peers`, at least
    one.

    `attributes` has one value per depot; "" means unknown and carries no information.
    """
    peer_levels = log_level[peers]
    mean = float(peer_levels.mean())
    if len(peers) == 1:
        return TypicalLevels(np.full(len(log_level), mean), ALONE)
    columns, count = _columns(attributes, peers, len(log_level))
    table = np.zeros((len(peers), count + 1))
    table[np.arange(len(peers)), columns[:, peers]] = 1
    center = table[:, :count].mean(axis=0)
    table = table[:, :count] - center
    # Decomposed once, so that a further penalty needs no further solve.
    size, basis = np.linalg.eigh(table.T @ table)
    rotated = table @ basis
    projections = rotated.T @ (peer_levels - mean)
    best_variance, effects = np.inf, np.zeros(count)
    for penalty in PENALTIES:
        shrunk = 1 / (np.maximum(size, 0) + penalty)
        # The leave-one-out error of each peer follows from its leverage (PRESS), without another
        # fit.
        leverage = 1 / len(peers) + rotated**2 @ shrunk
        errors = (peer_levels - mean - rotated @ (shrunk * projections)) / np.maximum(1 - leverage, 1 / len(peers))
        if (variance := float(np.mean(errors**2))) < best_variance:
            best_variance, effects = variance, basis @ (shrunk * projections)
    of_label = np.append(effects, 0.0)[columns].sum(axis=0)
    return TypicalLevels(mean - float(center @ effects) + of_label, best_variance)


def _columns(attributes: Sequence[Sequence[str]], peers: _Rows, depots: int) -> tuple[_Rows, int]:
    """Return the label numbers of depots, (attributes, depots), and the count of numbers. The count
    itself is the number of every label without information: of one peer, of all peers, or too rare."""
    columns, count_so_far = np.zeros((len(attributes), depots), np.intp), 0
    for row, labels in enumerate(attributes):
        names = {label: place for place, label in enumerate(sorted(set(labels)))}
        code = np.fromiter((names[label] for label in labels), np.intp, depots)
        count = np.bincount(code[peers], minlength=len(names))
        usable = (count >= SHARED) & (count < len(peers))
        if "" in names:
            usable[names[""]] = False
        top_labels = np.argsort(-count, kind="stable")
        top_labels = top_labels[usable[top_labels]][:MOST]
        number = np.full(len(names), -1)
        number[top_labels] = count_so_far + np.arange(len(top_labels))
        columns[row], count_so_far = number[code], count_so_far + len(top_labels)
    return np.where(columns < 0, count_so_far, columns), count_so_far
