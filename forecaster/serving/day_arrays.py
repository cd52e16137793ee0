"""Shifts and sums along the days of an array in plain NumPy, in double precision; days are the
second axis."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from forecaster.core.arrays import Doubles

FAR = 4.0  # log counts; the largest distance of a value from its reference
Lengths = Mapping[str, Any]  # lengths and limits from a manifest


class DaySeries(NamedTuple):
    """Known values of each day of the history, (depots, days), log counts."""

    log: Doubles
    plain: Doubles  # without the effects of holidays
    observed: Doubles
    surprise: Doubles
    surprising: Doubles  # where the surprise is known
    usual: Doubles  # its usual absolute size
    level: Doubles


def shift(x: Doubles, days: int) -> Doubles:
    """Shift x by a number of days; zero before the window."""
    return np.pad(x, [(0, 0), (days, 0)] + [(0, 0)] * (x.ndim - 2))[:, : x.shape[1]]


def trailing(x: Doubles, length: int, every: int = 1) -> Doubles:
    """Sum of `length` days up to each day, spaced by `every` days."""
    if every == 1:
        total = np.cumsum(x, axis=1)
        return total - shift(total, length)
    sums: Doubles = sum((shift(x, every * k) for k in range(length)), np.zeros_like(x))
    return sums


def near(x: Doubles) -> Doubles:
    """Clip x to `FAR` log counts on either side."""
    return np.clip(x, -FAR, FAR)


def week_mean(x: Doubles, known_days: Doubles) -> Doubles:
    """Mean of x over the known days of the week up to each day, 0 without any."""
    mean: Doubles = trailing(x, 7) / np.maximum(trailing(known_days, 7), 1)
    return mean
