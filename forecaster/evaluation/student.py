"""Quantiles of Student's t distribution, for bounds from few days (Abramowitz & Stegun 1964, 26.7.3
and 26.7.4)."""

from __future__ import annotations

import math

STEPS = 200  # bisection steps, enough to separate adjacent floats


def quantile(probability: float, freedom: int) -> float:
    """Return the value below which t lies with this probability, which is at least ½; `freedom` are
    its degrees, from 1.

    Raises ValueError for another probability, or less than one degree of freedom.
    """
    if not 0.5 <= probability < 1 or freedom < 1:
        raise ValueError(f"found {probability}, {freedom}; wanted a probability from 0.5 to 1, and freedom from 1")
    low, high = 0.0, 1.0
    while below(high, freedom) < probability:
        low, high = high, 2 * high
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if below(middle, freedom) < probability else (low, middle)
    return high


def below(value: float, freedom: int) -> float:
    """Return the probability that t lies below a value, which is 0 or more."""
    angle = math.atan(value / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2 == 1
    term = cosine if odd else 1.0
    series = term if freedom > 1 else 0.0
    for power in range(3 if odd else 2, freedom - 1, 2):
        term *= cosine**2 * (power - 1) / power
        series += term
    within = 2 / math.pi * (angle + sine * series) if odd else sine * series
    return 0.5 + within / 2
