"""Ridge regression of levels on attributes: what level a depot may have of which nothing is counted
yet.

Log levels are a mean and one random effect for each label of each attribute (best linear unbiased
prediction; Robinson 1991, "That BLUP is a good thing"): a ridge regression on indicators, so that a
label of few peers counts less than one of many. How much less (its penalty) is what forecasts each
peer best that is left out in turn (Allen 1974, PRESS), and so is the variance of what they miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# peers by which a label's own mean is drawn to the others'
PENALTIES = (0.3, 1.0, 3.0, 10.0, 30.0, np.inf)
SHARED = 2  # peers that a label needs, or it tells of one depot
MOST = 64  # labels of an attribute that are distinguished
ALONE = 1.0  # variance of levels, in log counts, where there is but one peer

_Doubles = NDArray[np.float64]
_Rows = NDArray[np.intp]


class TypicalLevels(NamedTuple):
    """Expected level of each depot, and the deviation of depots from it."""

    level: _Doubles  # (depots,) log counts
    variance: float  # of a depot about its own, in log counts


def typical_levels(log_level: _Doubles, peers: _Rows, attributes: Sequence[Sequence[str]]) -> TypicalLevels:
    """Expected levels of all depots from the levels (depots,) of the depots `peers`, one at least.

    `attributes` are words a depot, "" where one is not known, which says nothing.
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
    # Decomposed once, so that a further penalty costs no further solve.
    size, basis = np.linalg.eigh(table.T @ table)
    rotated = table @ basis
    projections = rotated.T @ (peer_levels - mean)
    best_variance, effects = np.inf, np.zeros(count)
    for penalty in PENALTIES:
        shrunk = 1 / (np.maximum(size, 0) + penalty)
        # What each peer is missed by when it is left out follows from its leverage (PRESS): nothing
        # is fitted again.
        leverage = 1 / len(peers) + rotated**2 @ shrunk
        errors = (peer_levels - mean - rotated @ (shrunk * projections)) / np.maximum(1 - leverage, 1 / len(peers))
        if (variance := float(np.mean(errors**2))) < best_variance:
            best_variance, effects = variance, basis @ (shrunk * projections)
    of_label = np.append(effects, 0.0)[columns].sum(axis=0)
    return TypicalLevels(mean - float(center @ effects) + of_label, best_variance)


def _columns(attributes: Sequence[Sequence[str]], peers: _Rows, depots: int) -> tuple[_Rows, int]:
    """Numbers of depots' labels, (attributes, depots), and how many numbers there are, which itself
    is the number of a label that says nothing: of one peer, of all of them, or of too rare a
    kind."""
    columns, count_so_far = np.zeros((len(attributes), depots), np.intp), 0
    for row, words in enumerate(attributes):
        names = {word: place for place, word in enumerate(sorted(set(words)))}
        code = np.fromiter((names[word] for word in words), np.intp, depots)
        count = np.bincount(code[peers], minlength=len(names))
        usable = (count >= SHARED) & (count < len(peers))
        if "" in names:
            usable[names[""]] = False
        chosen = np.argsort(-count, kind="stable")
        chosen = chosen[usable[chosen]][:MOST]
        number = np.full(len(names), -1)
        number[chosen] = count_so_far + np.arange(len(chosen))
        columns[row], count_so_far = number[code], count_so_far + len(chosen)
    return np.where(columns < 0, count_so_far, columns), count_so_far
